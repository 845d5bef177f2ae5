"""Which shortcuts fit the installed PySpark, and what is said of those that do not."""

from __future__ import annotations

import importlib.metadata
import re
import threading
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from streaming.checks import doctor
from streaming.demo.runner import play
from streaming.settings.config import load
from streaming.spark import job, pyspark
from streaming.spark.options import StreamOptions
from streaming.spark.pyspark import ARROW_COLUMNS, SHORTCUTS, PySparkUnfit, require_fit, survey, unit

REFUSED = r"^PySpark 3\.5\.7 is installed, which is too old: pip install 'pyspark>=4\.1'$"


@pytest.mark.parametrize("version", ["3.5.7", "4.0.1"])
def test_older_releases_are_refused(version: str) -> None:
    with pytest.raises(PySparkUnfit, match=f"PySpark {version} is installed"):
        require_fit(version)


@pytest.mark.parametrize("version", ["4.1.7", "4.3.0", "4.9.0", "5.0.0.dev1"])
def test_newer_ones_are_not(version: str) -> None:
    assert require_fit(version) == version


def test_the_wheel_asks_for_what_was_tried() -> None:
    project = tomllib.loads((Path(__file__).parents[5] / "pyproject.toml").read_text())["project"]
    least, (major, minor) = ".".join(map(str, pyspark.LEAST)), pyspark.TRIED
    assert f"pyspark>={least},<{major}.{minor + 1}" in project["dependencies"]


def test_a_release_that_was_never_tried_runs_on_the_public_interface() -> None:
    fit = survey("4.9.1")
    assert (fit.tried, fit.used, fit.left_out.keys()) == (False, frozenset(), SHORTCUTS.keys())
    assert str(fit) == (
        "PySpark 4.9.1 by its public interface alone: its shortcuts were never tried with this release"
    )


def test_the_public_interface_can_be_asked_for() -> None:
    assert survey("4.2.0", public=True).used == frozenset()


def test_what_fits_is_used_and_the_rest_has_its_reason() -> None:
    fit = survey()
    assert fit.release == importlib.metadata.version("pyspark")
    assert fit.used.isdisjoint(fit.left_out)
    assert fit.used | fit.left_out.keys() == SHORTCUTS.keys()


@pytest.mark.skipif(not importlib.metadata.version("pyspark").startswith("4.2."), reason="of another release")
def test_everything_of_pyspark_s_fits_the_locked_release() -> None:
    # What Python and Linux decide is not PySpark's.
    assert survey().left_out.keys() <= {pyspark.ZIP_CACHE, pyspark.QUICK_ACKNOWLEDGEMENT}


def test_a_name_that_is_gone_leaves_one_shortcut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import worker

    monkeypatch.delattr(worker, "ApplyInPandasWithStateSerializer", raising=False)
    fit = survey("4.2.0")
    assert fit.left_out[ARROW_COLUMNS] == "pyspark.worker has no ApplyInPandasWithStateSerializer"
    assert f"without {ARROW_COLUMNS} (pyspark.worker has no ApplyInPandas" in str(fit)


def test_an_import_that_fails_leaves_one_shortcut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> ModuleType:
        if name == ARROW_COLUMNS:
            raise ImportError("no module named pyspark.serializers")
        return unit(name)

    monkeypatch.setattr(pyspark, "unit", gone)
    assert survey("4.2.0").left_out[ARROW_COLUMNS] == "no module named pyspark.serializers"


@pytest.fixture
def _older(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "version", lambda _: "3.5.7")


@pytest.mark.usefixtures("_older")
def test_nothing_starts_with_an_older_one(tmp_path: Path) -> None:
    settings = load(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(PySparkUnfit, match=REFUSED):
        job.run(settings, StreamOptions(checkpoint=str(tmp_path)), threading.Event())
    with pytest.raises(PySparkUnfit, match=REFUSED):
        play(duration=1, folder=tmp_path, view=None, stop=threading.Event(), settings=settings)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def said_of_spark(monkeypatch: pytest.MonkeyPatch) -> doctor.Finding:
    def nobody(_: object) -> str:
        raise doctor.MonitorError("nobody there")

    monkeypatch.setattr(doctor, "fetch", lambda _: [])
    monkeypatch.setattr(doctor, "check_reachable", nobody)
    findings = doctor.examine(load(bootstrap_servers="127.0.0.1:1"), None)
    (found,) = [finding for finding in findings if finding.check == "spark"]
    return found


@pytest.mark.usefixtures("_older")
def test_the_doctor_says_that_it_is_too_old(said_of_spark: doctor.Finding) -> None:
    assert (said_of_spark.ok, re.match(REFUSED, said_of_spark.text) is not None) == (False, True)


def test_the_doctor_says_which_shortcuts_are_used(said_of_spark: doctor.Finding) -> None:
    assert (said_of_spark.ok, said_of_spark.text) == (True, str(survey()))
