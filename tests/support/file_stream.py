"""Runs the stream's query over files instead of topics, so that every PySpark release works without a Kafka connector.

``python -m tests.support.file_stream --log log.pickle --folder DIR`` processes a log batch by batch and writes the
query's output to ``DIR/written.pickle``.
"""

import argparse
import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from streaming.spark import query as queries
from streaming.spark.operator import BucketReports
from streaming.spark.session import SessionOptions, session
from tests.support.pure_stream import SINKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.histories import Topic

#: Columns of a record in Spark's Kafka source.
RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
#: Values and headers by topic and key, in order.
WrittenRecords = dict[tuple[str, bytes | None], list[tuple[bytes | None, object]]]


def batches(log: "Topic", records: int) -> list[pa.Table]:
    """Return a log in batches of ``records`` records per partition; the order within each batch is reversed."""
    tables = []
    for start in range(0, max(map(len, log)), records):
        rows = [
            {"key": key, "value": value, "partition": partition, "offset": offset, "timestamp": offset * 1000}
            | {"headers": None if not headers else [{"key": name, "value": data} for name, data in headers]}
            for partition, part in enumerate(log)
            for offset, (key, value, headers) in enumerate(part[start : start + records], start)
        ]
        tables.append(pa.Table.from_pylist(rows[::-1], RECORD_SCHEMA))
    return tables


def run(log: "Topic", folder: Path, records: int) -> tuple[WrittenRecords, int]:
    """Run the query over a log; return its output by topic and key, and the number of diffs that buckets reported."""
    source = folder / "source"
    for name in ("source", "ticks"):
        (folder / name).mkdir(parents=True)
    for number, table in enumerate(batches(log, records)):
        file = source / f"{number:04}.parquet"
        parquet.write_table(table, file)
        os.utime(file, (number, number))  # Spark reads files in the order of their modification times (ms)
    parquet.write_table(pa.table({"offset": pa.array([0], pa.int64())}), folder / "ticks" / "0.parquet")
    written: WrittenRecords = defaultdict(list)
    with session(SessionOptions(log_file=folder / "spark.log", connector=False)) as spark:
        reports = BucketReports(spark)
        diffs = 0

        def keep(rows: "DataFrame", batch: int) -> None:
            nonlocal diffs
            for row in rows.collect():
                headers = [(name, None if value is None else bytes(value)) for name, value in row.headers]
                key = None if row.key is None else bytes(row.key)
                written[row.topic, key].append((None if row.value is None else bytes(row.value), headers))
            diffs += sum(report.diffs for report in reports.reports_of_batch(batch).values())

        ticks = _files(spark, folder / "ticks")
        rows = queries.writes(_files(spark, source), ticks, 4, SINKS, reports.accumulator)
        query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    return dict(written), diffs


def _files(spark: "SparkSession", folder: Path) -> "DataFrame":
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(str(folder))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--records", type=int, default=40, help="of each partition in a batch")
    arguments = parser.parse_args()
    log: Any = pickle.loads(arguments.log.read_bytes())  # noqa: S301 - the test's own
    result = run(log, arguments.folder, arguments.records)
    (arguments.folder / "written.pickle").write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main()
