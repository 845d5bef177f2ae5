"""The Python end of ``applyInPandasWithState``, in Arrow alone.

Spark sends and takes Arrow record batches. pyspark makes a pandas frame of each group on the way in, one of its
rows and one of its state on the way out, and joins and converts those again: 3 of the 7 ms that a task of a small
batch took in Python, and 1 of 9 µs an event in a large one. Here the function gets a group's columns as a list of
Arrow arrays and gives lists of rows. ``FlatMapGroupsInPandasWithStateExec`` in the JVM sees the same batches as
before; pyspark's own serializer is the readable account of them. It fits PySpark 4.0 to 4.2: 4.3's worker has
neither of the two names that are replaced here.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import worker
from pyspark.serializers import CPickleSerializer, SpecialLengths, write_int
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.state import GroupState

from streaming.spark.pyspark.signatures import differing, lacking, missing

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: A group's columns in one batch: its key's and its rows' as the plan has them.
Columns = list[pa.Array]
#: Rows of the output schema.
Rows = Sequence[Sequence[Any]]
#: What is handed to ``applyInPandasWithState``: key, columns by batch, state → rows.
Function = Callable[[tuple[Any, ...], "Iterator[Columns]", GroupState], "Iterator[Rows]"]

_COUNTS = pa.struct([("dataCount", pa.int32()), ("stateCount", pa.int32())])
_STATE = pa.struct(
    [
        ("properties", pa.string()),
        ("keyRowAsUnsafe", pa.binary()),
        ("object", pa.binary()),
        ("oldTimeoutTimestamp", pa.int64()),
    ]
)


#: Rows of the first record batch that is written, the most of a later one, and the bytes that it is to have. For
#: batches of hundreds of megabytes the system zeroed new memory all the time, a tenth of a worker's time in a
#: backlog of diffs of some KB; and the JVM has no room for such batches of diffs of large groups.
FIRST, MOST, PIECE_BYTES = 16, 1024, 8 << 20

#: What is replaced.
_SERIALIZER = "ApplyInPandasWithStateSerializer"
_WRAP = "wrap_grouped_map_pandas_udf_with_state"


class ArrowStateSerializer(ArrowStreamSerializer):
    """In place of :class:`pyspark.sql.pandas.serializers.ApplyInPandasWithStateSerializer`, of whose arguments
    it takes two.
    """

    def __init__(self, *, state_object_schema: StructType, arrow_max_records_per_batch: int) -> None:
        super().__init__()
        self._state_schema = state_object_schema
        self._most = arrow_max_records_per_batch if arrow_max_records_per_batch > 0 else sys.maxsize
        self._pickle = CPickleSerializer()

    def load_stream(self, stream: Any) -> Iterator[tuple[Iterator[tuple[Columns, GroupState]], GroupState]]:
        """``(columns by batch, state)`` of each group."""
        chunks = self._chunks(super().load_stream(stream))
        for state, group in groupby(chunks, key=itemgetter(1)):
            yield group, state

    def _chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Columns, GroupState]]:
        """A group's rows follow each other; the last of its chunks says so."""
        state = None
        for batch in batches:
            *columns, told = batch.columns
            for chunk in told.to_pylist():
                if chunk is None:  # there are fewer groups than rows
                    break
                if state is None:
                    state = self._state(chunk)
                start, length = chunk["startOffset"], chunk["numRows"]
                yield [column.slice(start, length) for column in columns], state
                if chunk["isLastChunk"]:
                    state = None

    def _state(self, told: dict[str, Any]) -> GroupState:
        properties = json.loads(told["properties"])
        packed = told["object"]
        properties["optionalValue"] = self._pickle.loads(packed) if packed else None
        return GroupState(keyAsUnsafe=told["keyRowAsUnsafe"], valueSchema=self._state_schema, **properties)

    def dump_stream(self, iterator: Iterator[Any], stream: Any) -> None:
        """Write what the function gave for each group, and its state."""
        super().dump_stream(_started(self._batches(iterator), stream), stream)

    def _batches(self, results: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        rows: list[Sequence[Any]] = []
        states: list[tuple[Any, ...]] = []
        schema = None
        for (given, state), schema in results:
            for some in given:
                rows += some
                if len(rows) > self._most:
                    yield from _pieces(rows, schema, states)
                    rows, states = [], []
            # Only now: the function has been run to its end.
            states.append(self._told(state))
        if rows or states:
            yield from _pieces(rows, schema, states)

    def _told(self, state: GroupState) -> tuple[Any, ...]:
        value = self._pickle.dumps(state._value_schema.toInternal(state._value)) if state.exists else None  # noqa: SLF001 - pyspark's own
        return state.json(), state._keyAsUnsafe, value, state.oldTimeoutTimestamp  # noqa: SLF001 - same


def _started(batches: Iterator[pa.RecordBatch], stream: Any) -> Iterator[pa.RecordBatch]:
    """The stream is announced with the first batch: an error before it can still be told."""
    for number, batch in enumerate(batches):
        if number == 0:
            write_int(SpecialLengths.START_ARROW_STREAM, stream)
        yield batch


def _pieces(rows: Rows, schema: pa.StructType, states: Rows) -> Iterator[pa.RecordBatch]:
    """Rows in batches of their own, and with the last of them the states."""
    start, count = 0, FIRST
    while len(rows) - start > count:
        batch = _batch(rows[start : start + count], schema, [])
        yield batch
        start += count
        count = max(1, min(MOST, count * PIECE_BYTES // batch.nbytes))
    yield _batch(rows[start:], schema, states)


def _batch(rows: Rows, schema: pa.StructType, states: Rows) -> pa.RecordBatch:
    """Counts, rows and states side by side; the shorter are filled up."""
    length = max(len(rows), len(states), 1)
    counts = [(len(rows), len(states))] * length
    parts = [_array(counts, _COUNTS, length), _array(rows, schema, length), _array(states, _STATE, length)]
    return pa.RecordBatch.from_arrays(parts, ["_0", "_1", "_2"])


def _array(rows: Rows, schema: pa.StructType, length: int) -> pa.StructArray:
    missing = [None] * (length - len(rows))
    columns = zip(*rows, strict=True) if rows else [()] * schema.num_fields
    arrays = [
        pa.array([*column, *missing], field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(schema))


def _wrapped(function: Function, return_type: StructType, runner_conf: Any) -> Callable[..., Any]:  # noqa: ARG001 - pyspark's signature
    """In place of ``wrap_grouped_map_pandas_udf_with_state``."""
    schema = to_arrow_type(return_type)

    def run(keys: Columns, values: Iterator[Columns], state: GroupState) -> tuple[Any, pa.DataType]:
        key = tuple(column[0].as_py() for column in keys)
        return (function(key, values, state), state), schema

    return run


def unfit() -> str | None:
    """Why this does not fit the installed PySpark; None when it does."""
    # What changes these keeps other books of what Spark is told.
    state = ("json", "exists", "oldTimeoutTimestamp")
    return (
        missing(worker, [_SERIALIZER, _WRAP])
        or lacking(
            getattr(worker, _SERIALIZER).__init__, ["state_object_schema", "arrow_max_records_per_batch"]
        )
        or differing(getattr(worker, _WRAP), ["f", "return_type", "runner_conf"])
        or lacking(GroupState.__init__, ["optionalValue", "keyAsUnsafe", "valueSchema"])
        or missing(GroupState, state)
    )


def install() -> None:
    """Have this process's workers serve ``applyInPandasWithState`` so."""
    theirs = inspect.signature(getattr(worker, _SERIALIZER))

    def serializer(*args: Any, **kwargs: Any) -> ArrowStateSerializer:
        given = theirs.bind(*args, **kwargs).arguments
        return ArrowStateSerializer(
            state_object_schema=given["state_object_schema"],
            arrow_max_records_per_batch=given["arrow_max_records_per_batch"],
        )

    setattr(worker, _SERIALIZER, serializer)
    setattr(worker, _WRAP, _wrapped)
