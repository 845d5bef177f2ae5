"""Archives of the JVM's classes, for a faster start, and of Python code, for a cluster's executors."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from assignors.errors import BadInput, OutsideFailure
from streaming.kafka.jars import CacheUnusable, Tell, cache_dir, java, made_once, say

#: The folder in which executors unpack the Python archive, below their working directory.
FOLDER: Final = "rebalance-monitor"
_OURS: Final = ("assignors", "streaming")
#: Distributions that workers import; the release of pandas decides which of these it needs.
_OTHERS: Final = (
    *("msgspec", "numpy", "pandas", "pyarrow", "python-dateutil", "pytz", "six", "tzdata"),
    *("typing-extensions", "rebalance-kernel"),
)
#: Files that workers don't need; they make up half of the total size.
_LEFT_OUT_FOLDERS: Final = frozenset({"tests", "include", "__pycache__"})
_LEFT_OUT_SUFFIXES: Final = frozenset({".pyc", ".pyx", ".pxd", ".pxi", ".h", ".hpp", ".a"})

#: The number of class archives that are kept, for environments that are used alternately.
KEPT_CLASSES: Final = 3
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_MAKE_SECONDS: Final = 600.0
_QUERY_SECONDS: Final = 120.0
#: The script that spark-submit runs from a separate folder: in this folder `operator.py` would hide Python's module.
_SCRIPT: Final = "from streaming.spark.archives import load_classes\nload_classes()\n"


class ArchiveNotWritten(OutsideFailure):
    """An archive of classes or of Python code can't be written."""


def python() -> str:
    """Return the name of the Python interpreter that executors must have on their PATH."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def require_python(option: str, file: Path, *, exists: bool) -> None:
    """Check the file name of the Python archive and, with ``exists``, that the file exists."""
    if not file.name.endswith(".tar.gz"):
        raise BadInput(f"{option} {file}: the name must end in .tar.gz, by which Spark unpacks it")
    if strange := set(" ,#%") & set(str(file.absolute())):
        raise BadInput(f"{option} {file}: Spark takes no {min(strange)!r} in the path")
    if exists and not file.is_file():
        raise BadInput(f"{option} {file}: no such file; `stream archive --output {file}` writes it")


def write_python(file: Path) -> int:
    """Write the Python archive atomically, and return its number of files.

    Some imported modules are compiled: the executors' Python must have this process's minor version and platform.
    """
    require_python("--output", file, exists=False)
    part = file.with_name(f".{file.name}.part")
    contents = sorted(_python_files())
    try:
        # The archive is mostly compiled code, which a higher compression level hardly makes smaller.
        with tarfile.open(part, "w:gz", compresslevel=1) as archive:
            for name, path in contents:
                archive.add(path, name, recursive=False)
        part.replace(file)
    except OSError as error:
        raise ArchiveNotWritten(f"--output {file}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return len(contents)


def _python_files() -> Iterator[tuple[str, Path]]:
    for package in _OURS:
        spec = find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            for path in Path(place).rglob("*.py"):
                yield str(path.relative_to(Path(place).parent)), path
    for name in _OTHERS:
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        for file in installed.files or ():
            if file.suffix not in _LEFT_OUT_SUFFIXES and not {"..", *_LEFT_OUT_FOLDERS} & set(file.parts):
                yield str(file), Path(str(installed.locate_file(file)))


def classes() -> Path:
    """Return the path of the AppCDS archive for this Java and PySpark; the file may not exist."""
    path, major = java()
    files = [*sorted((_spark_home() / "jars").glob("*.jar")), path.resolve()]
    stamps = "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
    return cache_dir("classes") / f"spark-java{major}-{hashlib.sha256(stamps.encode()).hexdigest()[:12]}.jsa"


def java_options() -> str:
    """Return the JVM options with which Spark uses the class archive; an empty string if there is no archive."""
    try:
        archive = classes()
    except CacheUnusable:  # such as in a read-only image
        return ""
    if not archive.is_file() or " " in str(archive):  # Spark splits the JVM options at spaces
        return ""
    return f"-XX:SharedArchiveFile={archive} {_QUIET}"


def make_classes(progress: Tell | None = say) -> Path:
    """Create the class archive if it does not exist, and return its path."""
    archive, report = classes(), progress or (lambda _: None)

    def make() -> None:
        report("preparing Spark (once, half a minute)")
        try:
            _make_classes(archive)
        finally:
            report("")

    made_once(archive, make)
    return archive


def _make_classes(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".make-", dir=archive.parent) as folder:
        part, script = Path(folder) / archive.name, Path(folder) / "load.py"
        script.write_text(_SCRIPT)
        options = f"-XX:ArchiveClassesAtExit={part} {_QUIET} -XX:+UseSerialGC"
        done = subprocess.run(
            [_spark_home() / "bin/spark-submit", "--driver-java-options", options, script],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MAKE_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not part.is_file():
            lines = done.stderr.strip().splitlines() or ["the JVM wrote nothing"]
            raise ArchiveNotWritten(f"no archive of Spark's classes, it starts more slowly: {lines[-1]}")
        part.rename(archive)
    for old in sorted(archive.parent.glob("*.jsa"), key=lambda file: file.stat().st_mtime)[:-KEPT_CLASSES]:
        old.unlink(missing_ok=True)


def _spark_home() -> Path:
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    return Path(next(iter((spec.submodule_search_locations if spec else None) or []), "pyspark"))


def load_classes() -> None:
    """Run two batches of the job's query on made-up records, so that spark-submit's JVM loads its classes."""
    from streaming.monitor.outputs import Sinks
    from streaming.settings.config import Settings
    from streaming.spark import query as queries
    from streaming.spark.operator import BucketReports
    from streaming.spark.session import SessionOptions, session

    names = Settings().topics.names
    sinks = Sinks(*names, dict.fromkeys(names, 1))
    with tempfile.TemporaryDirectory() as folder, session(SessionOptions(connector=False)) as spark:
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
        headers = "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers"
        records = rate.selectExpr("X'67' AS key", "X'7B7D' AS value", "0 AS partition", "value AS offset", headers)
        ticks = rate.selectExpr("value AS offset")
        rows = queries.writes(records, ticks, 4, sinks, BucketReports(spark).accumulator)
        for _ in range(2):
            query = rows.writeStream.format("noop").option("checkpointLocation", folder).trigger(once=True).start()
            query.awaitTermination(_QUERY_SECONDS)
