"""The stateful function of the query: one bucket of groups, its rows of one batch, its state.

Runs in Spark's Python workers. Columns become :class:`~streaming.monitor.bucket.Record`, ``process`` and
``expire`` do the work, and what they give becomes rows again. No clock is read: the batch has one time, kept in
Spark's offset log and so the same when the batch is run again.
"""

from __future__ import annotations

from base64 import b64decode
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from streaming import codec
from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import Record, RecordHeaders, Sinks, Write, expire, process

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Columns that the operator gets, in this order (:mod:`streaming.spark.plan` makes them).
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
)
#: The batch's time, the same in each of its rows, ms.
BATCH_MS = "batch_ms"
#: The ``topic`` of rows that tell a bucket's next deadline; they reach no topic.
DUE = "#due"
#: What :func:`frame` gives: our own headers as the columns of their values, any others as they are.
OUTPUT_SCHEMA = (
    "topic string, key binary, value binary, ce_type binary, ce_id binary, ce_source binary, ce_time binary, "
    "other_headers array<struct<key: string, value: binary>>, partition int"
)
_OWN = ["ce_specversion", "ce_type", "ce_id", "ce_source", "ce_time", "content-type"]
STATE_SCHEMA = "blob binary"

Operator = Callable[[tuple[Any, ...], "Iterator[pd.DataFrame]", Any], "Iterator[pd.DataFrame]"]


def operator(sinks: Sinks) -> Operator:
    """The function to hand to ``applyInPandasWithState``."""
    return partial(_bucket_batch, sinks)


def _bucket_batch(
    sinks: Sinks, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
) -> Iterator[pd.DataFrame]:
    bucket = Bucket(bytes(state.get[0]) if state.exists else None)
    before = next_deadline(bucket)
    rows, ticked, now_ms = records(frames)
    writes = process(bucket, rows, now_ms, sinks)
    writes += expire(bucket, now_ms, sinks)
    if bucket.changed:
        state.update((bucket.pack(),))
    after = next_deadline(bucket)
    if ticked or after != before:
        writes.append(Write(DUE, None, str(after).encode(), [], key[0]))
    if writes:
        yield frame(writes)


def next_deadline(bucket: Bucket) -> int:
    """When the bucket's first timer is due, ms; 0 when it has none."""
    return min(bucket.due.values(), default=0)


def records(frames: Iterable[pd.DataFrame]) -> tuple[Iterator[Record], bool, int]:
    """A bucket's records, whether a tick is among its rows, and the batch's time (ms).

    Group after group, so that a group's state is at hand for all its records; each in the order of
    (partition, offset).
    """
    columns: list[list[Any]] = [[] for _ in INPUT]
    now_ms = 0
    for part in frames:
        now_ms = int(part[BATCH_MS].iloc[0])
        for column, name in zip(columns, INPUT, strict=True):
            column.extend(part[name].tolist())
    rows = list(zip(*columns, strict=True))
    rows.sort(key=_place)  # Spark hands them over in any order
    first = bisect_left(rows, 0, key=_partition)
    return map(_record, rows[first:]), first > 0, now_ms


def _record(row: tuple[Any, ...]) -> Record:
    partition, offset, key, value, ce_type, ce_id, ce_source, ce_time, other = row
    headers = partial(original_headers, ce_type, ce_id, ce_source, ce_time, other)
    if other is not None:
        found = dict(headers())  # the last of several counts, as in codec.ce_attributes
        ce_type, ce_id, ce_source = (found.get(name) for name in ("ce_type", "ce_id", "ce_source"))
    return Record(partition, offset, key, value, ce_type, ce_id, ce_source, headers)


def _partition(row: tuple[Any, ...]) -> int:
    return int(row[0])


def _place(row: tuple[Any, ...]) -> tuple[bytes, int, int]:
    return row[2] or b"", row[0], row[1]  # ticks, without a key and in partition −1, come first


def original_headers(
    ce_type: bytes, ce_id: bytes, ce_source: bytes, ce_time: bytes, other: str | None
) -> list[tuple[str, bytes | None]]:
    """A record's headers as they were: the usual six from their columns, any others from ``other``."""
    if other is None:
        return [
            ("ce_specversion", codec.SPEC_VERSION),
            ("ce_type", ce_type),
            ("ce_id", ce_id),
            ("ce_source", ce_source),
            ("ce_time", ce_time),
            ("content-type", codec.CONTENT_TYPE),
        ]
    found: list[tuple[str, bytes | None]] = []
    for part in other.split(",") if other else ():
        name, _, value = part.partition(":")
        found.append((b64decode(name).decode(), None if value == "-" else b64decode(value)))
    return found


def frame(writes: list[Write]) -> pd.DataFrame:
    """Rows for the sink, as :data:`OUTPUT_SCHEMA` has them."""
    topic, key, value, headers, partition = zip(*writes, strict=True)
    attributes, others = zip(*map(_columns, headers), strict=True)
    ce_type, ce_id, ce_source, ce_time = zip(*attributes, strict=True)
    return pd.DataFrame(
        {
            "topic": topic,
            "key": key,
            "value": value,
            "ce_type": ce_type,
            "ce_id": ce_id,
            "ce_source": ce_source,
            "ce_time": ce_time,
            "other_headers": others,
            # Nullable: a float column would not survive Arrow's conversion to int.
            "partition": pd.array(partition, dtype="Int32"),
        }
    )


def _columns(headers: RecordHeaders) -> tuple[Sequence[bytes | None], list[dict[str, Any]] | None]:
    if [name for name, _ in headers] == _OWN:
        return [value for _, value in headers[1:5]], None
    return (None, None, None, None), [{"key": name, "value": value} for name, value in headers]
