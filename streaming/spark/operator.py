"""The stateful function of the query: one bucket of groups, its rows of one batch, its state.

Runs in Spark's Python workers. Columns become :class:`~streaming.wire.codec.Record`, ``process`` and
``expire`` do the work, and what they give becomes rows again. No clock is read: the batch has one time, kept in
Spark's offset log and so the same when the batch is run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import expire, process
from streaming.monitor.envelope import Sinks, Write
from streaming.spark.progress import Told
from streaming.spark.rows import ARROW_TYPES, BucketRows, read
from streaming.wire import codec

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped] # pandas has its types elsewhere

    from streaming.spark.pyspark.arrow import Columns, Function, Rows
    from streaming.spark.tally import Tally

#: Columns of what the operator gives: our own headers as the columns of their values, any others as they are.
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


def operator(sinks: Sinks, tally: Tally) -> Function:
    """The function to hand to ``applyInPandasWithState``.

    A worker hands over what it has, frames or, by :mod:`streaming.spark.pyspark.arrow`, columns, and gets the like.
    """
    return partial(_bucket_batch, sinks, tally)


class BucketStep(NamedTuple):
    """What one batch makes of a bucket: what to write, its state when that changed, what it tells the driver."""

    writes: list[Write]
    blob: bytes | None
    told: Told


def step(blob: bytes | None, rows: BucketRows, now_ms: int, sinks: Sinks) -> BucketStep:
    """One batch of a bucket.

    Args:
        blob: the bucket's state; None for none.
        rows: what it has of the batch.
        now_ms: the batch's time.
        sinks: where outputs go.
    """
    bucket = Bucket(blob)
    writes = process(bucket, rows.records, now_ms, sinks)
    writes += expire(bucket, now_ms, sinks)
    changed = bucket.pack() if bucket.changed else None
    topics = [write.topic for write in writes]
    due = min(bucket.due.values(), default=0)
    told = Told(due, topics.count(sinks.diffs), topics.count(sinks.dead_letters), rows.oldest, rows.bytes)
    return BucketStep(writes, changed, told)


def _bucket_batch(
    sinks: Sinks, tally: Tally, key: tuple[Any, ...], parts: Iterator[Columns | pd.DataFrame], state: Any
) -> Iterator[Rows | pd.DataFrame]:
    given = list(parts)
    framed = not isinstance(given[0], list)
    rows = read(map(columns, given) if framed else given)
    blob = bytes(state.get[0]) if state.exists else None
    # Not a column: a time in the plan stands in the code that Spark generates, and compiles, for every batch.
    writes, changed, told = step(blob, rows, state.getCurrentProcessingTimeMs(), sinks)
    if changed is not None:
        state.update((changed,))
    tally.tell(int(key[0]), told)
    written = list(map(row, writes))
    yield frame(written) if framed else written


def columns(part: pd.DataFrame) -> Columns:
    """A frame's columns as Arrow arrays, whatever pandas made of those with nulls."""
    return [pa.array(part.iloc[:, at], kind, from_pandas=True) for at, kind in enumerate(ARROW_TYPES)]


def frame(rows: Rows) -> pd.DataFrame:
    """Rows as the frame that PySpark asks for; columns of objects, as pandas has no null of its own for numbers."""
    import pandas as pd

    return pd.DataFrame(rows, columns=list(OUTPUT), dtype=object)


def row(write: Write) -> tuple[Any, ...]:
    """A row for the sink, as :data:`OUTPUT_SCHEMA` has it."""
    topic, key, value, headers, partition = write
    if len(headers) == len(codec.HEADER_NAMES):
        (first, _), (second, kind), (third, ce_id), (fourth, source), (fifth, time), (sixth, _) = headers
        if (first, second, third, fourth, fifth, sixth) == codec.HEADER_NAMES:
            return topic, key, value, kind, ce_id, source, time, None, partition
    return topic, key, value, None, None, None, None, headers, partition
