"""The stateful function of the query: one bucket of groups, its rows of one batch, its state.

Runs in Spark's Python workers. Columns become :class:`~streaming.wire.codec.Record`, ``process`` and
``expire`` do the work, and what they give becomes rows again. No clock is read: the batch has one time, kept in
Spark's offset log and so the same when the batch is run again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from operator import gt, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import compute

from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import expire, process
from streaming.monitor.envelope import Sinks, Write
from streaming.spark.progress import Told
from streaming.wire import codec
from streaming.wire.codec import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd  # type: ignore[import-untyped] # pandas has its types elsewhere

    from streaming.spark.pyspark.arrow import Columns, Function, Rows
    from streaming.spark.tally import Tally

#: Columns that the operator gets (:mod:`streaming.spark.plan` makes them) behind the bucket and before
#: :data:`APPENDED`, as the fields of a record.
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
#: When a record was appended to its topic, ms; null in ticks.
APPENDED = "appended"
#: Of the bucket, those of :data:`INPUT`, and :data:`APPENDED`.
_ARROW_TYPES = (pa.int32(), pa.int32(), pa.int64(), *[pa.binary()] * 6, pa.string(), pa.int64())
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


class _Header(msgspec.Struct):
    """A header as Spark's ``to_json`` writes it: bytes in base64, null left out."""

    key: str
    value: bytes | None = None


_headers = msgspec.json.Decoder(list[_Header])


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


def step(blob: bytes | None, rows: list[Record], oldest: int | None, now_ms: int, sinks: Sinks) -> BucketStep:
    """One batch of a bucket.

    Args:
        blob: the bucket's state; None for none.
        rows: its records in order, as :func:`records` gives them.
        oldest: when the oldest was appended to its topic, ms.
        now_ms: the batch's time.
        sinks: where outputs go.
    """
    bucket = Bucket(blob)
    writes = process(bucket, rows, now_ms, sinks)
    writes += expire(bucket, now_ms, sinks)
    changed = bucket.pack() if bucket.changed else None
    topics = [write.topic for write in writes]
    due = min(bucket.due.values(), default=0)
    told = Told(due, topics.count(sinks.diffs), topics.count(sinks.dead_letters), oldest)
    return BucketStep(writes, changed, told)


def _bucket_batch(
    sinks: Sinks, tally: Tally, key: tuple[Any, ...], parts: Iterator[Columns | pd.DataFrame], state: Any
) -> Iterator[Rows | pd.DataFrame]:
    given = list(parts)
    framed = not isinstance(given[0], list)
    rows, oldest = records(map(columns, given) if framed else given)
    blob = bytes(state.get[0]) if state.exists else None
    # Not a column: a time in the plan stands in the code that Spark generates, and compiles, for every batch.
    writes, changed, told = step(blob, rows, oldest, state.getCurrentProcessingTimeMs(), sinks)
    if changed is not None:
        state.update((changed,))
    tally.tell(int(key[0]), told)
    written = list(map(row, writes))
    yield frame(written) if framed else written


def columns(part: pd.DataFrame) -> Columns:
    """A frame's columns as Arrow arrays, whatever pandas made of those with nulls."""
    return [pa.array(part.iloc[:, at], kind, from_pandas=True) for at, kind in enumerate(_ARROW_TYPES)]


def frame(rows: Rows) -> pd.DataFrame:
    """Rows as the frame that PySpark asks for; columns of objects, as pandas has no null of its own for numbers."""
    import pandas as pd

    return pd.DataFrame(rows, columns=list(OUTPUT), dtype=object)


def records(parts: Iterable[Columns]) -> tuple[list[Record], int | None]:
    """A bucket's records, and when the oldest was appended to its topic (ms; None without records).

    Group after group, so that a group's state is at hand for all its records; each in the order of
    (partition, offset).
    """
    columns: list[list[Any]] = [[] for _ in INPUT]
    oldest: list[int | None] = []
    for _bucket, *arrays, appended in parts:
        oldest.append(compute.min(appended).as_py())
        for column, array in zip(columns, arrays, strict=True):
            column.extend(_values(array))
    rows = _in_order(map(Record._make, zip(*columns, strict=True)))
    if columns[-1].count(None) < len(columns[-1]):
        rows = [row if row.headers is None else _unusual(row) for row in rows]
    return rows, min((ms for ms in oldest if ms is not None), default=None)


def _values(array: pa.Array) -> list[Any]:
    """A column as Python's values: by way of NumPy it takes a fifth of the time of ``to_pylist``."""
    if array.null_count == len(array):
        return [None] * len(array)
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _in_order(rows: Iterable[Record]) -> list[Record]:
    """Group after group, without the ticks. Spark hands rows over in any order, but mostly in the log's."""
    groups: defaultdict[bytes | None, list[Record]] = defaultdict(list)
    for row in rows:
        groups[row.key].append(row)
    ordered: list[Record] = []
    for key in sorted(groups, key=_none_first):
        group = groups[key]
        places = list(map(_place, group))
        if any(map(gt, places, places[1:])):
            group.sort(key=_place)
        ordered += group[bisect_left(group, 0, key=_partition) :] if key is None else group
    return ordered


_place = itemgetter(INPUT.index("partition"), INPUT.index("offset"))
_partition = itemgetter(INPUT.index("partition"))


def _none_first(key: bytes | None) -> bytes:
    return key or b""


def _unusual(row: Record) -> Record:
    """A record whose headers are still packed."""
    packed: Any = row.headers
    return Record.of(*row[:4], [(header.key, header.value) for header in _headers.decode(packed)])


def row(write: Write) -> tuple[Any, ...]:
    """A row for the sink, as :data:`OUTPUT_SCHEMA` has it."""
    topic, key, value, headers, partition = write
    if tuple(name for name, _ in headers) == codec.HEADER_NAMES:
        return topic, key, value, *(value for _, value in headers[1:5]), None, partition
    return topic, key, value, None, None, None, None, headers, partition
