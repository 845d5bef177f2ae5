"""An AppCDS archive of the classes that Spark's JVM loads at its start.

A start takes 17 to 18 s of processor time without it and 12 with it (PySpark 4.2.0, two cores). The archive takes
half a minute once for each Java and PySpark, and 170 MB in the cache. A JVM that finds it outdated ignores it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assignors.errors import OutsideFailure
from streaming.kafka.jars import CacheUnusable, Tell, cache_dir, java, locked, say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Archives that are kept, of environments that are used in turn.
KEPT: Final = 3
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
#: In the second batch everything has been loaded.
_LAST_BATCH: Final = 1
_BATCH_SECONDS: Final = 120.0
_MAKE_SECONDS: Final = 600.0
#: What spark-submit runs, from a file of its own: beside this module `operator.py` would hide Python's.
_SCRIPT: Final = "from streaming.spark.classes import load_all\nload_all()\n"


class ClassesNotKept(OutsideFailure):
    """No archive of Spark's classes was made."""


def place() -> Path:
    """Return where the archive of this Java and PySpark is, once it is made.

    Raises:
        NoJava, CacheUnusable: as named.
    """
    path, major = java()
    files = [*sorted((_spark_home() / "jars").glob("*.jar")), path.resolve()]
    stamps = "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
    return cache_dir("classes") / f"spark-java{major}-{hashlib.sha256(stamps.encode()).hexdigest()[:12]}.jsa"


def java_options() -> str:
    """Return the options by which a JVM of Spark's uses the archive: none while there is no archive."""
    try:
        found = place()
    except CacheUnusable:  # a read-only image, say
        return ""
    if not found.is_file() or " " in str(found):  # Spark parts its options at spaces
        return ""
    return f"-XX:SharedArchiveFile={found} {_QUIET}"


def make(progress: Tell | None = say) -> Path:
    """Make the archive if there is none, and return its place.

    Raises:
        NoJava, CacheUnusable: as named.
        ClassesNotKept: the query did not run, or the JVM wrote nothing. Starts only take longer.
    """
    tell = progress or (lambda _: None)
    found = place()
    with locked(found.with_suffix(".lock")):
        if not found.is_file():
            tell("preparing Spark (once)")
            try:
                _make(found)
            finally:
                tell("")
    return found


def _make(file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".make-", dir=file.parent) as folder:
        part, script = Path(folder) / file.name, Path(folder) / "load.py"
        script.write_text(_SCRIPT)
        options = f"-XX:ArchiveClassesAtExit={part} {_QUIET} -XX:+UseSerialGC"
        root = str(Path(__file__).parents[2])
        done = subprocess.run(
            [_spark_home() / "bin/spark-submit", "--driver-java-options", options, script],
            env=os.environ | {"PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MAKE_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not part.is_file():
            lines = done.stderr.strip().splitlines() or ["the JVM wrote nothing"]
            raise ClassesNotKept(f"Spark's classes are not kept, its starts take longer: {lines[-1]}")
        part.rename(file)
    for old in sorted(file.parent.glob("*.jsa"), key=lambda one: one.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def _spark_home() -> Path:
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    return Path(next(iter((spec.submodule_search_locations if spec else None) or []), "pyspark"))


def load_all() -> None:
    """Run the job's query over made-up records in spark-submit's JVM, which then has loaded its classes."""
    from streaming.monitor.outputs import Sinks
    from streaming.settings.config import Settings
    from streaming.spark import query as queries
    from streaming.spark.session import SessionOptions, session
    from streaming.spark.tally import Tally

    topics = Settings().topics
    names = (topics.membership, topics.diffs, topics.assignments, topics.dead_letters)
    sinks = Sinks(*names, partitions=dict.fromkeys(names, 1))
    with tempfile.TemporaryDirectory() as folder, session(SessionOptions(connector=False)) as spark:
        rows = queries.writes(
            _records(spark), _rate(spark).selectExpr("value AS offset"), 4, sinks, Tally(spark)
        )
        query = rows.writeStream.format("noop").option("checkpointLocation", folder).start()
        by = time.monotonic() + _BATCH_SECONDS
        while query.isActive and time.monotonic() < by and not _has_run(query.lastProgress):
            query.awaitTermination(1)
        query.stop()


def _has_run(progress: Any) -> bool:
    return progress is not None and progress["batchId"] >= _LAST_BATCH


def _rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()


def _records(spark: SparkSession) -> DataFrame:
    """Return one member's join again and again, as Spark's Kafka source would give it."""
    from pyspark.sql import functions as f

    from streaming.records.codec import encode_event
    from streaming.records.events import Event, MemberJoined

    joined = MemberJoined(group_id="warm-up", timestamp=0, member_id="m", topics=["t"])
    key, value, headers = encode_event(Event("warm-up", "1", joined))
    columns = [f.struct(f.lit(name).alias("key"), f.lit(data).alias("value")) for name, data in headers]
    return _rate(spark).select(
        f.lit(key).alias("key"),
        f.lit(value).alias("value"),
        f.lit(0).alias("partition"),
        f.col("value").alias("offset"),
        "timestamp",
        f.array(*columns).alias("headers"),
    )
