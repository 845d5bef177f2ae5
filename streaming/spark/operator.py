"""The stateful function of the query: one bucket of groups, its rows of one batch and its state.

Runs in Spark's Python workers. Pandas frames become records in the log's order, ``process`` and ``expire`` apply
them, and what they return becomes one frame. No clock is read: a batch has one time, which Spark keeps in its
offset log, so a batch that runs again has the same time.

A frame costs a millisecond whatever is in it, so a bucket's output is one frame. Rows are made from whole columns,
because pandas takes 100 times as long to give one row as Python takes for a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streaming.monitor.bucket import expire, process, retired
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Sinks, Write
from streaming.records import codec
from streaming.records.codec import Record
from streaming.spark.progress import Told

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd  # type: ignore[import-untyped] # pandas has its types elsewhere

    from streaming.spark.tally import Tally

#: Input columns behind the bucket (:mod:`streaming.spark.query` makes them): the fields of a record, then the time
#: in ms at which the record was appended to its topic. A tick has partition −1 and no other field.
INPUT = (
    "partition",
    "offset",
    "key",
    "value",
    "ce_type",
    "ce_id",
    "ce_source",
    "ce_time",
    "other_headers",
    "appended",
)
#: Output columns: the headers of our codec as columns of their values, any other headers as they are.
OUTPUT = {
    "topic": "string",
    "key": "binary",
    "value": "binary",
    "ce_type": "binary",
    "ce_id": "binary",
    "ce_source": "binary",
    "ce_time": "binary",
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


class BucketRows(NamedTuple):
    """A bucket's records of one batch.

    Attributes:
        records: in the order of (key, partition, offset): Kafka's order for each group.
        oldest: when the oldest record was appended to its topic, ms; None without records.
        bytes: size of their values.
    """

    records: list[Record]
    oldest: int | None
    bytes: int


class BucketStep(NamedTuple):
    """Result of one batch of a bucket: what to write, its state if that changed, and its report to the driver."""

    writes: list[Write]
    blob: bytes | None
    told: Told


def operator(sinks: Sinks, tally: Tally) -> Callable[..., Iterator[pd.DataFrame]]:
    """Return the function for ``applyInPandasWithState``."""
    return partial(_bucket_batch, sinks, tally)


def step(blob: bytes | None, rows: BucketRows, now_ms: int, sinks: Sinks) -> BucketStep:
    """Apply one batch to a bucket.

    Args:
        blob: the bucket's state; None for none.
        rows: its records of the batch.
        now_ms: the batch's time.
        sinks: where outputs go.
    """
    bucket = Bucket(blob)
    writes = process(bucket, rows.records, now_ms, sinks)
    writes += expire(bucket, now_ms, sinks)
    changed = bucket.pack() if bucket.changed else None
    topics = [write.topic for write in writes]
    due = min(bucket.due.values(), default=0)
    told = Told(
        due,
        topics.count(sinks.diffs),
        topics.count(sinks.dead_letters),
        rows.oldest,
        rows.bytes,
        retired(rows.records),
    )
    return BucketStep(writes, changed, told)


def _bucket_batch(
    sinks: Sinks, tally: Tally, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
) -> Iterator[pd.DataFrame]:
    rows = read(frames)
    blob = bytes(state.get[0]) if state.exists else None
    # Not a column: a time in the plan would be a number in generated code, compiled anew for every batch.
    writes, changed, told = step(blob, rows, state.getCurrentProcessingTimeMs(), sinks)
    if changed is not None:
        state.update((changed,))
    tally.tell(int(key[0]), told)
    if writes:
        yield frame(writes)


def read(frames: Iterable[pd.DataFrame]) -> BucketRows:
    """Return a bucket's records from frames of the bucket's number and :data:`INPUT`."""
    rows = [
        row
        for part in frames
        for row in zip(*(part.iloc[:, at].tolist() for at in range(1, len(INPUT) + 1)), strict=True)
        if row[0] >= 0
    ]
    rows.sort(key=lambda row: (row[2] or b"", row[0], row[1]))
    records = [_record(row) for row in rows]
    size = sum(len(record.value) for record in records if record.value)
    return BucketRows(records, min((row[-1] for row in rows), default=None), size)


def _record(row: tuple[Any, ...]) -> Record:
    """Return the record of a row; its headers are packed as JSON where they are not those of our codec."""
    if row[8] is None:
        return Record._make(row[:9])
    partition, offset, key, value = row[:4]
    headers = [(header.key, header.value) for header in _headers.decode(row[8])]
    return Record.of(partition, offset, key, value, headers)


def frame(writes: Iterable[Write]) -> pd.DataFrame:
    """Return the output frame; its columns are objects, because pandas has no null for numbers."""
    import pandas as pd

    columns = zip(*map(row, writes), strict=True)
    return pd.DataFrame(
        {name: pd.Series(column, dtype=object) for name, column in zip(OUTPUT, columns, strict=True)}
    )


def row(write: Write) -> tuple[Any, ...]:
    """Return one row of :data:`OUTPUT`."""
    topic, key, value, headers, partition = write
    if len(headers) == len(codec.HEADER_NAMES):
        (first, _), (second, kind), (third, ce_id), (fourth, source), (fifth, time), (sixth, _) = headers
        if (first, second, third, fourth, fifth, sixth) == codec.HEADER_NAMES:
            return topic, key, value, kind, ce_id, source, time, None, partition
    return topic, key, value, None, None, None, None, headers, partition
