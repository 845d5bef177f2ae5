"""The job's tests on other releases of PySpark: ``make test-spark VERSIONS="4.0.0 4.3.0"``.

Each release gets an environment of its own below ``.venvs``: the locked packages, with that PySpark in place of
the locked one. Where the repository has not all of a release's Kafka connector, the connector itself runs with what
the locked release's comes with; where it has none of it, the query runs over files alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from streaming.kafka.jars import DownloadFailed, fetch, kafka_coordinates, spark_connector

ROOT = Path(__file__).parents[1]
LOCKED = "4.0.0"
BROKER = "4.3.1"
#: What every release runs, and what those run that have a connector.
OVER_FILES = ("tests/unit/streaming/spark", "tests/integration/streaming/spark/test_public.py")
OVER_KAFKA = (
    "tests/integration/streaming/spark/test_job.py",
    "tests/integration/streaming/spark/test_determinism.py",
)


def uv(*arguments: str) -> str:
    """What uv prints."""
    found = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    return subprocess.run([found, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def environment(release: str) -> Path:
    """The Python of an environment with that PySpark."""
    folder = ROOT / ".venvs" / f"pyspark-{release}"
    python = folder / "bin/python"
    if not python.exists():
        uv("venv", "--quiet", "--python", sys.executable, str(folder))
    locked = uv("export", "--locked", "--quiet", "--no-hashes", "--no-emit-project", "--no-annotate")
    others = [line for line in locked.splitlines() if not re.match(r"(pyspark|py4j)==", line)]
    wanted = folder / "requirements.txt"
    wanted.write_text("\n".join([*others, f"pyspark=={release}"]))
    uv("pip", "install", "--quiet", "--no-config", "--python", str(python), "--requirement", str(wanted))
    return python


def jars(release: str) -> Path | None:
    """A folder for KAFKA_JARS with this release's connector and the broker; None when it can't be had."""
    connector = spark_connector(release)
    try:
        own = fetch([connector], transitive=False)
        try:
            found = fetch([connector])
        except DownloadFailed:
            known = fetch([spark_connector(LOCKED)])
            found = [*own, *(jar for jar in known if not jar.name.startswith("spark-sql-kafka"))]
    except DownloadFailed:
        return None
    folder = ROOT / ".venvs" / f"jars-{release}"
    for name, part in (("connector", found), ("broker", fetch(kafka_coordinates(BROKER)))):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for jar in part:
            link = folder / name / jar.name
            link.unlink(missing_ok=True)
            link.symlink_to(jar)
    return folder


def test(release: str, options: list[str]) -> bool:
    """Whether the job's tests pass with that PySpark."""
    python, folder = environment(release), jars(release)
    tests = [*OVER_FILES, *(OVER_KAFKA if folder else ())]
    print(f"=== PySpark {release}, {'over Kafka' if folder else 'over files: no connector'}", flush=True)
    found = dict(os.environ) | ({"KAFKA_JARS": str(folder)} if folder else {})
    done = subprocess.run([python, "-m", "pytest", *tests, *options], cwd=ROOT, env=found, check=False)
    return done.returncode == 0


def main() -> int:
    """Test each release that the arguments name, options of pytest behind them."""
    releases = [one for one in sys.argv[1:] if re.fullmatch(r"[\d.]+", one)]
    options = sys.argv[1 + len(releases) :]
    failed = [release for release in releases if not test(release, options)]
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(releases)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
