"""Runs the job's tests on other releases of PySpark: ``make test-spark VERSIONS="4.1.1 4.3.0"``.

Each release has its own environment below ``.venvs``: the first supported release with the lowest versions that the
wheel allows, every other release with the newest versions (``make test`` uses the locked versions). Without a Kafka
connector for a release in the Maven repository, the query runs over files alone (:mod:`tests.support.installed`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.installed import LOCKED_PYSPARK, jars

ROOT = Path(__file__).parents[1]
#: Packages that the tests import directly.
TEST_PACKAGES = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "packaging")
#: Packages whose versions are printed.
LISTED_PACKAGES = ("pyspark", "kafka-python", "numpy", "pandas", "pyarrow", "confluent-kafka", "msgspec")
#: Tests for every release, by the packages that they cover; and tests for releases with a Kafka connector.
UNIT_TEST_PACKAGES = ("collect", "kafka", "monitor", "records", "spark")
FILE_TESTS = (
    *("tests/unit/assignors", "tests/golden/assignors", "tests/golden/collect"),
    *(f"tests/unit/streaming/{package}" for package in UNIT_TEST_PACKAGES),
    "tests/integration/streaming/spark/test_public.py",
)
KAFKA_TESTS = ("tests/integration/streaming/spark/test_job.py", "tests/integration/streaming/spark/test_determinism.py")


def uv(*arguments: str) -> str:
    """Run uv and return its output."""
    uv_path = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    return subprocess.run([uv_path, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def environment(release: str) -> Path:
    """Return the path of Python in an environment with that PySpark release."""
    folder = ROOT / ".venvs" / f"pyspark-{release}"
    python = folder / "bin/python"
    requirements_copy, now = folder / "made-of", (ROOT / "pyproject.toml").read_text()
    if requirements_copy.exists() and requirements_copy.read_text() == now:
        return python
    uv("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    # The wheel excludes untested releases.
    (folder / "override.txt").write_text(f"pyspark=={release}")
    dependency_resolution = "lowest-direct" if release == LOCKED_PYSPARK else "highest"
    arguments = (
        "--resolution",
        dependency_resolution,
        "--requirement",
        "pyproject.toml",
        "--override",
        str(folder / "override.txt"),
    )
    for packages in (arguments, TEST_PACKAGES):
        uv("pip", "install", "--quiet", "--no-config", "--python", str(python), *packages)
    requirements_copy.write_text(now)
    return python


def test(release: str, options: list[str]) -> bool:
    """Return true if the Spark job's tests pass with PySpark ``release``."""
    python, folder = environment(release), jars(release, ROOT / ".venvs" / f"jars-{release}")
    tests = [*FILE_TESTS, *(KAFKA_TESTS if folder else ())]
    listed = json.loads(uv("pip", "list", "--quiet", "--format", "json", "--python", str(python)))
    versions = {package["name"]: package["version"] for package in listed}
    listing = ", ".join(f"{name} {versions[name]}" for name in LISTED_PACKAGES)
    print(f"=== {listing}; {'over Kafka' if folder else 'over files: no connector'}", flush=True)
    variables = dict(os.environ) | ({"KAFKA_JARS": str(folder)} if folder else {})
    result = subprocess.run([python, "-m", "pytest", *tests, *options], cwd=ROOT, env=variables, check=False)
    return result.returncode == 0


def main() -> int:
    """Test each PySpark release that is given as an argument; further arguments are options of pytest."""
    releases = [word for word in sys.argv[1:] if re.fullmatch(r"[\d.]+", word)]
    options = sys.argv[1 + len(releases) :]
    failed_releases = [release for release in releases if not test(release, options)]
    print(f"failed: {', '.join(failed_releases)}" if failed_releases else f"passed: {', '.join(releases)}")
    return int(bool(failed_releases))


if __name__ == "__main__":
    sys.exit(main())
