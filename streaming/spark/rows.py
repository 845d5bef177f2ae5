"""A bucket's rows of one batch, from Arrow columns to records in the log's order.

Nine of ten records are heartbeats. No record is made of those: with nothing else of their group between them they
are read together (:mod:`streaming.wire.heartbeats`).
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import compute

from streaming.wire import codec, heartbeats
from streaming.wire.codec import Record
from streaming.wire.heartbeats import Heartbeats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from streaming.spark.pyspark.arrow import Columns

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
ARROW_TYPES = (pa.int32(), pa.int32(), pa.int64(), *[pa.binary()] * 6, pa.string(), pa.int64())

#: Fewer rows are sorted one by one: Arrow and NumPy take a third of a millisecond before the first.
FEW = 128


class _Header(msgspec.Struct):
    """A header as Spark's ``to_json`` writes it: bytes in base64, null left out."""

    key: str
    value: bytes | None = None


_headers = msgspec.json.Decoder(list[_Header])


class BucketRows(NamedTuple):
    """What a bucket has of a batch.

    Attributes:
        records: group after group, so that a group's state is at hand for all its records; each in the order of
            (partition, offset).
        oldest: when the oldest was appended to its topic, ms; None without records.
        bytes: of their values.
    """

    records: list[Record | Heartbeats]
    oldest: int | None
    bytes: int


def read(parts: Iterable[Columns]) -> BucketRows:
    """A bucket's rows from their columns."""
    columns = [pa.chunked_array(arrays) for arrays in zip(*parts, strict=True)]
    table = pa.Table.from_arrays(columns[1:], [*INPUT, APPENDED])
    oldest: int | None = compute.min(table[APPENDED]).as_py()
    real = compute.greater_equal(table["partition"], 0)
    if not compute.all(real).as_py():  # there are ticks
        table = table.filter(real)
    found = _records(table) if len(table) >= FEW else _in_order(_made(table))
    size: int | None = compute.sum(compute.binary_length(table["value"])).as_py()
    return BucketRows(found, oldest, size or 0)


def _in_order(rows: Iterable[Record]) -> list[Record | Heartbeats]:
    return [*sorted(rows, key=_place)]


def _place(row: Record) -> tuple[bytes, int, int]:
    return row.key or b"", row.partition, row.offset


def _records(table: pa.Table) -> list[Record | Heartbeats]:
    keys, groups = _groups(table["key"])
    # Spark hands rows over in any order.
    order = np.lexsort((table["offset"].to_numpy(), table["partition"].to_numpy(), groups))
    groups, beats = groups[order], _beats(table)[order]
    # What stands at a place of the log; nothing where heartbeats go on that began before.
    found: NDArray[np.object_] = np.full(len(order), None, object)
    if beats.any():
        values = _values(table["value"].take(order))
        changes = np.flatnonzero((beats[1:] != beats[:-1]) | (groups[1:] != groups[:-1])) + 1
        starts, ends = np.concatenate(([0], changes)), np.concatenate((changes, [len(order)]))
        chosen = beats[starts]
        for start, end in zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True):
            read = heartbeats.read(keys[groups[start]] or b"", values[start:end])
            if read is None:
                beats[start:end] = False
            else:
                found[start] = read
    rows = _made(table.take(order[~beats]))
    found[np.flatnonzero(~beats)] = np.fromiter(rows, object, len(rows))
    return [one for one in found.tolist() if one is not None]


def _groups(column: pa.ChunkedArray) -> tuple[list[bytes | None], NDArray[np.int64]]:
    """The keys in order, no key first; and of each row the place of its key among them."""
    encoded = column.combine_chunks().dictionary_encode("encode")
    keys: list[bytes | None] = encoded.dictionary.to_pylist()
    order = sorted(range(len(keys)), key=lambda number: keys[number] or b"")
    places = np.empty(len(keys), np.int64)
    places[order] = np.arange(len(keys))
    return [keys[number] for number in order], places[encoded.indices.to_numpy()]


def _beats(table: pa.Table) -> NDArray[np.bool_]:
    """Which rows are heartbeats with all that one needs; only their values have not been looked at."""
    wanted = (
        compute.equal(table["ce_type"], codec.HEARTBEAT),
        compute.is_null(table["other_headers"]),
        *(compute.greater(compute.binary_length(table[name]), 0) for name in ("key", "ce_id", "ce_source")),
        compute.is_valid(table["value"]),
    )
    found: NDArray[np.bool_] = reduce(compute.and_, wanted).fill_null(False).to_numpy()
    return found


def _made(table: pa.Table) -> list[Record]:
    """A record of each row."""
    columns = [_values(table[name]) for name in INPUT]
    rows = list(map(Record._make, zip(*columns, strict=True)))
    if columns[-1].count(None) < len(rows):
        return [row if row.headers is None else _unusual(row) for row in rows]
    return rows


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column as Python's values: by way of NumPy it takes a fifth of the time of ``to_pylist``."""
    if column.null_count == len(column):
        return [None] * len(column)
    values: list[Any] = column.to_numpy().tolist()
    return values


def _unusual(row: Record) -> Record:
    """A record whose headers are still packed."""
    packed: Any = row.headers
    return Record.of(*row[:4], [(header.key, header.value) for header in _headers.decode(packed)])
