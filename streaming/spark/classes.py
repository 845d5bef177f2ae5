"""The classes that Spark's JVM loads at its start, kept for the next start in an AppCDS archive of the JDK's.

Most of a start's processor time goes into finding, checking and compiling some thirty thousand classes. The archive
is made once for each Java and PySpark, by a short query that goes the job's way without Kafka; a JVM that finds it
outdated does without. It has some 170 MB.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignors.errors import OutsideFailure
from streaming.kafka.cache import CacheUnusable, cache_dir, locked
from streaming.kafka.jars import Tell, say
from streaming.kafka.java import java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: So many are kept, of environments that are used in turn; older ones go when one is made.
KEPT = 3
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
#: Two batches: in the second one everything has been loaded.
_BATCHES = 2
_BATCH_SECONDS = 120.0


class ClassesNotKept(OutsideFailure):
    """No archive of Spark's classes was made."""


def place() -> Path:
    """Where the archive of this Java and PySpark is, once it is made.

    Raises:
        NoJava, CacheUnusable: as named.
    """
    path, major = java()
    files = [*_jars(), path.resolve()]
    stamps = "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
    return cache_dir("classes") / f"spark-java{major}-{hashlib.sha256(stamps.encode()).hexdigest()[:12]}.jsa"


def java_options(write: Path | None = None) -> list[str]:
    """What a JVM of Spark's is told to use the archive: nothing while there is none. Or to ``write`` one."""
    if write is not None:
        return [f"-XX:ArchiveClassesAtExit={write}", *_QUIET]
    try:
        found = place()
    except CacheUnusable:  # a read-only image, say: it holds no archive, and a start needs none
        return []
    if not found.is_file() or " " in str(found):  # Spark parts its options at spaces
        return []
    return [f"-XX:SharedArchiveFile={found}", *_QUIET]


def make(progress: Tell | None = say) -> Path:
    """Make the archive, if there is none: half a minute of a core, once.

    Raises:
        NoJava, CacheUnusable: as named.
        ClassesNotKept: the query did not run, or the JVM wrote nothing; nothing is lost but time.
    """
    tell = progress or (lambda _: None)
    found = place()
    if not found.is_file():
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
        part = Path(folder) / file.name
        # A process of its own: this one shall not load PySpark, and keeps its signal handlers.
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(part)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            check=False,
        )
        if not part.is_file():
            said = done.stderr.strip().splitlines() or ["the JVM wrote nothing"]
            raise ClassesNotKept(f"Spark's classes are not kept, its starts take longer: {said[-1]}")
        part.rename(file)
    for old in sorted(file.parent.glob("*.jsa"), key=lambda one: one.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def _jars() -> list[Path]:
    """What is on the JVM's class path; nothing where PySpark is not installed."""
    spec = find_spec("pyspark")
    places = (spec.submodule_search_locations if spec else None) or []
    home = os.environ.get("SPARK_HOME") or next(iter(places), None)
    return [] if home is None else sorted(Path(home, "jars").glob("*.jar"))


def _run(part: Path) -> None:
    """Run the job's query over made-up records, and have the JVM write what it has loaded to ``part``."""
    from streaming.spark import plan
    from streaming.spark.session import SessionOptions, session
    from streaming.spark.tally import Tally

    with session(SessionOptions(log_file=part.with_suffix(".log"), archive_classes=part)) as spark:
        records, ticks = _records(spark), _rate(spark).selectExpr("value AS offset")
        rows = plan.writes(records, ticks, 4, _sinks(), Tally(spark))
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(part.with_name("checkpoint")))
            .start()
        )
        by = time.monotonic() + _BATCH_SECONDS
        while query.isActive and time.monotonic() < by and not _has_run(query.lastProgress):
            query.awaitTermination(1)
        query.stop()


def _has_run(progress: Any) -> bool:
    return progress is not None and progress["batchId"] >= _BATCHES


def _rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()


def _records(spark: SparkSession) -> DataFrame:
    """A member's joining, again and again, as Spark's Kafka source would give it."""
    from pyspark.sql import functions as f

    from streaming.wire.codec import encode_event
    from streaming.wire.events import Event, MemberJoined

    joined = MemberJoined(group_id="warm-up", timestamp=0, member_id="m", topics=["t"])
    key, value, headers = encode_event(Event("warm-up", "1", joined))
    columns: Iterator[Any] = (
        f.struct(f.lit(name).alias("key"), f.lit(data).alias("value")) for name, data in headers
    )
    return _rate(spark).select(
        f.lit(key).alias("key"),
        f.lit(value).alias("value"),
        f.lit(0).alias("partition"),
        f.col("value").alias("offset"),
        "timestamp",
        f.array(*columns).alias("headers"),
    )


def _sinks() -> Any:
    from streaming.monitor.envelope import Sinks
    from streaming.settings.config import Settings

    topics = Settings().topics
    names = (topics.membership, topics.diffs, topics.assignments, topics.dead_letters)
    return Sinks(*names, partitions=dict.fromkeys(names, 1))


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
