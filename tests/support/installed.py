"""Builds the project and installs it, with its dependencies and Spark's connector, in a separate environment."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from streaming.kafka.jars import JARS_VARIABLE, DownloadFailed, fetch, kafka_coordinates, spark_connector

#: The locked PySpark release, whose connector is complete.
LOCKED_PYSPARK = "4.2.0"
BROKER = "4.3.1"


def jars(release: str, folder: Path) -> Path | None:
    """Return a folder for KAFKA_JARS with a broker and the connector of a PySpark release; None without a connector.

    If the release has no connector, the folder has that of the newest earlier patch release, under the expected names.
    """
    connector = _connector_jars(release)
    if connector is None:
        return None
    for name, part in (("connector", connector), ("broker", _files_by_name(fetch(kafka_coordinates(BROKER))))):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for link, jar in part.items():
            (folder / name / link).unlink(missing_ok=True)
            (folder / name / link).symlink_to(jar)
    return folder


def _connector_jars(release: str) -> dict[str, Path] | None:
    """Return the paths of the connector's jars by the file names that Spark expects."""
    minor_release, _, patch_version = release.rpartition(".")
    for number in range(int(patch_version), -1, -1):
        earlier_release = f"{minor_release}.{number}"
        try:
            own = fetch([spark_connector(earlier_release)], transitive=False)
        except DownloadFailed:
            continue
        try:
            files = fetch([spark_connector(earlier_release)])
        except DownloadFailed:
            locked_jars = fetch([spark_connector(LOCKED_PYSPARK)])
            files = [*own, *(jar for jar in locked_jars if not jar.name.startswith("spark-sql-kafka"))]
        names = {jar.name for jar in own}
        return {jar.name.replace(earlier_release, release) if jar.name in names else jar.name: jar for jar in files}
    return None


def _files_by_name(files: Iterable[Path]) -> dict[str, Path]:
    return {jar.name: jar for jar in files}


ROOT = Path(__file__).parents[2]


def build(folder: Path, kind: Literal["wheel", "sdist"]) -> Path:
    """Build the wheel or the source distribution and return the path of the built file."""
    _run_uv("build", "--quiet", f"--{kind}", "--out-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def install_wheel(built: Path, folder: Path) -> Path:
    """Install the wheel into a new environment and return the folder with the environment's commands.

    ``uv pip`` does what pip does, with uv's cache of downloads.
    """
    python = folder / "bin/python"
    _run_uv("venv", "--quiet", "--python", sys.executable, str(folder))
    _run_uv("pip", "install", "--quiet", "--no-config", "--python", str(python), str(built))
    return python.parent


def release(commands: Path, package: str) -> str:
    """Return the version of a package that is installed in the environment."""
    program = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run(
        [commands / "python", "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def environment(commands: Path, **extra: str) -> dict[str, str]:
    """Return environment variables for an installation that contain no path of this repository.

    The variables include the connector jars, as the newest PySpark may be newer than its published connector.
    """
    if JARS_VARIABLE not in os.environ:
        jar_folder = jars(release(commands, "pyspark"), commands.parent / "jars")
        assert jar_folder is not None
        extra = {JARS_VARIABLE: str(jar_folder), **extra}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"} | extra


def _run_uv(*arguments: str) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    # Outside the repository, whose settings must not apply to an installed package.
    done = subprocess.run([uv, *arguments], cwd=ROOT.anchor, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
