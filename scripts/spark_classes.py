"""Archives the classes that Spark loads (AppCDS) in the cache folder: a start then takes a quarter less processor time.

``make demo`` and the tests run this script. spark-submit runs it again, with the argument ``load``, in the JVM whose
classes are archived.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from streaming.kafka.jars import create_if_missing
from streaming.monitor.outputs import Sinks
from streaming.settings.config import Settings
from streaming.spark.archives import SILENT_ARCHIVE_OPTIONS, class_archive, spark_home

#: The number of archives that are kept, for environments that are used alternately.
_KEPT_ARCHIVES = 3
_LOAD_ARGUMENT = "load"


def make_archive(archive: Path) -> None:
    """Write the archive of the classes that two batches load, and delete the oldest archives."""
    print("preparing Spark (once, half a minute)", file=sys.stderr, flush=True)
    part = archive.with_name(f".{archive.name}.part")
    options = f"-XX:ArchiveClassesAtExit={part} {SILENT_ARCHIVE_OPTIONS} -XX:+UseSerialGC"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "PYSPARK_PYTHON": sys.executable}
    command = [spark_home() / "bin/spark-submit", "--driver-java-options", options, __file__, _LOAD_ARGUMENT]
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, timeout=600
    )
    if result.returncode or not part.exists():
        last = (result.stderr.strip() or "no message").splitlines()[-1]
        print(f"Spark's classes are not archived, so Spark starts more slowly: {last}", file=sys.stderr)
        return
    part.rename(archive)
    for old in sorted(archive.parent.glob("*.jsa"), key=lambda file: file.stat().st_mtime)[:-_KEPT_ARCHIVES]:
        old.unlink(missing_ok=True)


def load() -> None:
    """Run two batches of the job's query on made-up records."""
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
            query.awaitTermination(120)


if __name__ == "__main__":
    if _LOAD_ARGUMENT in sys.argv:
        load()
    else:
        create_if_missing(class_archive(), lambda: make_archive(class_archive()))
