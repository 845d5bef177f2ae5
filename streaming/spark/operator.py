"""The query's stateful function, which applies one batch's records to the state of one bucket of groups.

The function runs in Spark's Python workers. It turns pandas frames into records in the log's order, ``process`` and
``expire`` apply the records, and their output becomes one frame, because each frame costs a millisecond. No clock is
read: a batch has one time, which Spark keeps in its offset log, so a batch that runs again has the same time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark import AccumulatorParam, TaskContext

from streaming.monitor.bucket import RETIRED_TYPE_NAMES, expire, process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord, Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.spark.progress import BucketReport

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped] # pandas has its types elsewhere
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

#: The local property with the number of a task's batch (``MicroBatchExecution.BATCH_ID_KEY``).
_BATCH: Final = "streaming.sql.batchId"
#: Input columns after the bucket's number, one per field of a record (:mod:`streaming.spark.query`). A tick has only
#: the partition −1.
INPUT_COLUMNS = ("partition", "offset", "key", "value", "ce_type", "ce_id", "ce_source", "ce_time", "other_headers")
#: Output columns: the values of the codec's headers as columns, and any other headers unchanged.
OUTPUT = {
    "topic": "string",
    **dict.fromkeys(("key", "value", "ce_type", "ce_id", "ce_source", "ce_time"), "binary"),
    "other_headers": "array<struct<key: string, value: binary>>",
    "partition": "int",
}
OUTPUT_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in OUTPUT.items())
STATE_SCHEMA = "blob binary"


class _Header(msgspec.Struct):
    """A header as Spark's ``to_json`` writes it: bytes in base64, null left out."""

    key: str
    value: bytes | None = None


_headers = msgspec.json.Decoder(list[_Header])
#: Entries ``(batch, bucket, report)``. In the driver, PySpark's thread appends to the deque while
#: another thread empties it.
_BucketLines = deque[tuple[int, int, BucketReport]]


class _AppendLines(AccumulatorParam[_BucketLines]):
    def zero(self, value: _BucketLines) -> _BucketLines:
        del value
        return deque()

    def addInPlace(self, value1: _BucketLines, value2: _BucketLines) -> _BucketLines:  # noqa: N802 - Spark's name
        value1.extend(value2)
        return value1


class BucketReports:
    """The buckets' reports of each batch, which the driver receives through a Spark accumulator.

    Spark's ``observe`` would add operators to the plan, which are planned, compiled and run in every batch.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.accumulator: Accumulator[_BucketLines] = spark.sparkContext.accumulator(deque(), _AppendLines())
        self._batches: defaultdict[int, dict[int, BucketReport]] = defaultdict(dict)

    def reports_of_batch(self, batch: int) -> Mapping[int, BucketReport]:
        """Return the report of every bucket in an ended batch; delete the reports of this batch and of older batches.

        If a task ran twice, its last report counts.
        """
        lines = self.accumulator.value
        while lines:
            number, bucket, report = lines.popleft()
            self._batches[number][bucket] = report
        for number in [number for number in self._batches if number < batch]:
            del self._batches[number]
        return self._batches.pop(batch, {})


def _send(accumulator: Accumulator[_BucketLines], bucket: int, report: BucketReport) -> None:
    """Send a bucket's report to the driver, under the batch number of the running task."""
    context = TaskContext.get()
    batch = context.getLocalProperty(_BATCH) if context is not None else None
    if batch is not None:
        accumulator.add(deque([(int(batch), bucket, report)]))


def step(
    blob: bytes | None, records: list[Record], now_ms: int, sinks: Sinks
) -> tuple[list[OutputRecord], bytes | None, BucketReport]:
    """Apply one batch to a bucket; return the outputs, the new state (None: unchanged) and a report."""
    bucket = Bucket(blob)
    writes = process(bucket, records, now_ms, sinks) + expire(bucket, now_ms, sinks)
    changed = bucket.pack() if bucket.changed else None
    topics = [write.topic for write in writes]
    size = sum(len(record.value) for record in records if record.value)
    due = min(bucket.due.values(), default=0)
    retired = sum(record.type in RETIRED_TYPE_NAMES for record in records)
    report = BucketReport(due, topics.count(sinks.diffs), topics.count(sinks.dead_letters), size, retired)
    return writes, changed, report


def apply_bucket_batch(
    sinks: Sinks, reports: Accumulator[_BucketLines], key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
) -> Iterator[pd.DataFrame]:
    """Apply one batch to one bucket: the stateful function for ``applyInPandasWithState``."""
    blob = bytes(state.get[0]) if state.exists else None
    # The batch's time is not a column, because Spark would compile code with this literal for every batch.
    writes, changed, report = step(blob, read(frames), state.getCurrentProcessingTimeMs(), sinks)
    if changed is not None:
        state.update((changed,))
    _send(reports, int(key[0]), report)
    if writes:
        yield frame(writes)


def read(frames: Iterable[pd.DataFrame]) -> list[Record]:
    """Return a bucket's records from pandas frames, each group's records in Kafka's order."""
    rows = [
        row
        for part in frames
        for row in zip(*(part.iloc[:, at].tolist() for at in range(1, len(INPUT_COLUMNS) + 1)), strict=True)
        if row[0] >= 0
    ]
    rows.sort(key=lambda row: (row[2] or b"", row[0], row[1]))
    return [_record(row) for row in rows]


def _record(row: tuple[Any, ...]) -> Record:
    """Return the record in an input row of Spark; headers unknown to the codec are in one JSON column."""
    if row[8] is None:
        return Record._make(row)
    partition, offset, key, value = row[:4]
    return Record.of(partition, offset, key, value, [(header.key, header.value) for header in _headers.decode(row[8])])


def frame(writes: Iterable[OutputRecord]) -> pd.DataFrame:
    """Return the outputs as a pandas frame with object columns, because pandas has no null for numbers."""
    import pandas as pd

    columns = zip(*map(row, writes), strict=True)
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in zip(OUTPUT, columns, strict=True)})


def row(write: OutputRecord) -> tuple[Any, ...]:
    """Return the row that Spark writes for an output record, with the columns :data:`OUTPUT`."""
    topic, key, value, headers, partition = write
    if len(headers) == len(codec.HEADER_NAMES):
        (first, _), (second, kind), (third, ce_id), (fourth, source), (fifth, time), (sixth, _) = headers
        if (first, second, third, fourth, fifth, sixth) == codec.HEADER_NAMES:
            return topic, key, value, kind, ce_id, source, time, None, partition
    return topic, key, value, None, None, None, None, headers, partition
