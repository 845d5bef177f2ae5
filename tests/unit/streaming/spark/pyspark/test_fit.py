"""A PySpark that the shortcuts are not made for is refused in one line that says what to install."""

from __future__ import annotations

import importlib.metadata
import threading
import tomllib
from pathlib import Path

import pytest

from streaming.checks import doctor
from streaming.demo.runner import play
from streaming.settings.config import load
from streaming.spark import job, pyspark
from streaming.spark.options import StreamOptions
from streaming.spark.pyspark import PySparkUnfit, require_fit

REFUSED = r"^PySpark 4\.3\.0 is installed, which does not fit: pip install 'pyspark>=4\.0,<4\.1'$"


@pytest.mark.parametrize("version", ["3.5.7", "4.1.0", "4.3.0", "5.0.0.dev1"])
def test_other_releases_are_refused(version: str) -> None:
    with pytest.raises(PySparkUnfit, match=f"PySpark {version} is installed"):
        require_fit(version)


def test_this_one_and_its_corrections_fit() -> None:
    assert require_fit() == importlib.metadata.version("pyspark")
    assert require_fit("4.0.7") == "4.0.7"


def test_the_wheel_asks_for_what_fits() -> None:
    least, beyond = (".".join(map(str, bound)) for bound in pyspark.BOUNDS)
    project = tomllib.loads((Path(__file__).parents[5] / "pyproject.toml").read_text())["project"]
    assert f"pyspark>={least},<{beyond}" in project["dependencies"]


@pytest.fixture
def _another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "version", lambda _: "4.3.0")


@pytest.mark.usefixtures("_another")
def test_nothing_starts_with_another(tmp_path: Path) -> None:
    settings = load(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(PySparkUnfit, match=REFUSED):
        job.run(settings, StreamOptions(checkpoint=str(tmp_path)), threading.Event())
    with pytest.raises(PySparkUnfit, match=REFUSED):
        play(duration=1, folder=tmp_path, view=None, stop=threading.Event(), settings=settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_another")
def test_the_doctor_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: object) -> str:
        raise doctor.MonitorError("nobody there")

    monkeypatch.setattr(doctor, "fetch", lambda _: [])
    monkeypatch.setattr(doctor, "check_reachable", nobody)
    findings = doctor.examine(load(bootstrap_servers="127.0.0.1:1"), None)
    (found,) = [finding for finding in findings if finding.check == "spark"]
    assert (found.ok, "pip install 'pyspark>=4.0,<4.1'" in found.text) == (False, True)
