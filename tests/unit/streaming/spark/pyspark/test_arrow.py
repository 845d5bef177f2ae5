"""Arrow batches as Spark writes them, in and out, without a JVM."""

from __future__ import annotations

import inspect
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark import worker
from pyspark.serializers import CPickleSerializer, SpecialLengths, read_int
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from streaming.spark.pyspark import arrow
from streaming.spark.pyspark.arrow import ArrowStateSerializer

NAMES = ("ApplyInPandasWithStateSerializer", "wrap_grouped_map_pandas_udf_with_state")
pytestmark = pytest.mark.skipif(arrow.unfit() is not None, reason=f"left out: {arrow.unfit()}")

SCHEMA = StructType().add("blob", BinaryType())
ROWS = pa.struct([("name", pa.string()), ("number", pa.int32())])
TOLD = {
    "batchProcessingTimeMs": 5,
    "eventTimeWatermarkMs": -1,
    "timeoutConf": "NoTimeout",
    "hasTimedOut": False,
    "watermarkPresent": False,
    "defined": False,
    "updated": False,
    "removed": False,
    "timeoutTimestamp": -1,
}


def serializer(most: int = 100) -> ArrowStateSerializer:
    return ArrowStateSerializer(state_object_schema=SCHEMA, arrow_max_records_per_batch=most)


def chunk(
    key: bytes, start: int, rows: int, *, last: bool = True, blob: bytes | None = None
) -> dict[str, Any]:
    """What Spark says of a group's rows in a batch."""
    return {
        "properties": json.dumps(TOLD | {"defined": blob is not None}),
        "keyRowAsUnsafe": key,
        "object": None if blob is None else CPickleSerializer().dumps((blob,)),
        "startOffset": start,
        "numRows": rows,
        "isLastChunk": last,
    }


def stream(*batches: tuple[list[int], list[dict[str, Any] | None]]) -> io.BytesIO:
    """One column of numbers, and the chunks beside it."""
    told = pa.struct(
        [
            ("properties", pa.string()),
            ("keyRowAsUnsafe", pa.binary()),
            ("object", pa.binary()),
            ("startOffset", pa.int32()),
            ("numRows", pa.int32()),
            ("isLastChunk", pa.bool_()),
        ]
    )
    sink = io.BytesIO()
    schema = pa.schema([("_0", pa.int32()), ("_1", told)])
    with pa.ipc.new_stream(sink, schema) as writer:
        for numbers, chunks in batches:
            writer.write_batch(
                pa.record_batch([pa.array(numbers, pa.int32()), pa.array(chunks, told)], schema=schema)
            )
    sink.seek(0)
    return sink


def loaded(source: io.BytesIO) -> list[tuple[bytes, bytes | None, list[list[int]]]]:
    """Each group's key, state and rows by chunk."""
    found = []
    for group, state in serializer().load_stream(source):
        parts = [columns[0].to_pylist() for columns, _ in group]
        found.append((state._keyAsUnsafe, state.get[0] if state.exists else None, parts))
    return found


def test_groups_of_one_batch_and_their_states() -> None:
    source = stream(([1, 2, 3], [chunk(b"a", 0, 1), chunk(b"b", 1, 2, blob=b"was"), None]))
    assert loaded(source) == [(b"a", None, [[1]]), (b"b", b"was", [[2, 3]])]


def test_a_group_goes_on_in_the_next_batch() -> None:
    source = stream(
        ([1, 2], [chunk(b"a", 0, 2, last=False), None]), ([3, 4], [chunk(b"a", 0, 1), chunk(b"b", 1, 1)])
    )
    assert loaded(source) == [(b"a", None, [[1, 2], [3]]), (b"b", None, [[4]])]


def state(key: bytes, blob: bytes | None) -> GroupState:
    told: dict[str, Any] = TOLD | {
        "defined": blob is not None,
        "optionalValue": None if blob is None else (blob,),
    }
    return GroupState(keyAsUnsafe=key, valueSchema=SCHEMA, **told)


def dumped(results: list[Any], most: int = 100) -> list[tuple[list[Any], list[Any]]]:
    """Rows and states of each batch, as Spark counts them out."""
    sink = io.BytesIO()
    serializer(most).dump_stream(iter(results), sink)
    sink.seek(0)
    assert read_int(sink) == SpecialLengths.START_ARROW_STREAM
    found = []
    for batch in pa.ipc.open_stream(sink):
        counts, rows, states = (column.to_pylist() for column in batch.columns)
        found.append((rows[: counts[0]["dataCount"]], states[: counts[0]["stateCount"]]))
    return found


def test_rows_and_states_stand_side_by_side() -> None:
    rows = [("x", 1), ("y", None)]
    ((written, states),) = dumped(
        [((iter([rows]), state(b"a", b"new")), ROWS), ((iter([]), state(b"b", None)), ROWS)]
    )
    assert written == [{"name": "x", "number": 1}, {"name": "y", "number": None}]
    assert [told["keyRowAsUnsafe"] for told in states] == [b"a", b"b"]
    assert [told["object"] is None for told in states] == [False, True]
    assert json.loads(states[0]["properties"])["defined"] is True


def test_many_rows_leave_before_the_groups_state() -> None:
    parts = [[("x", number)] * 3 for number in range(3)]
    batches = dumped([((iter(parts), state(b"a", None)), ROWS)], most=4)
    assert [(len(rows), len(states)) for rows, states in batches] == [(6, 0), (3, 1)]


def test_very_many_rows_leave_in_pieces_and_the_state_with_the_last() -> None:
    rows = [("x", number) for number in range(arrow.FIRST + 2 * arrow.MOST + 1)]
    batches = dumped([((iter([rows]), state(b"a", None)), ROWS)], most=len(rows))
    assert [(len(some), len(states)) for some, states in batches] == [
        (arrow.FIRST, 0),
        (arrow.MOST, 0),
        (arrow.MOST, 0),
        (1, 1),
    ]
    assert [row["number"] for some, _ in batches for row in some] == list(range(len(rows)))


def test_long_rows_leave_a_few_at_a_time() -> None:
    rows = [("x" * (arrow.PIECE_BYTES // 4), number) for number in range(arrow.FIRST + 7)]
    batches = dumped([((iter([rows]), state(b"a", None)), ROWS)], most=len(rows))
    assert [(len(some), len(states)) for some, states in batches] == [
        (arrow.FIRST, 0),
        (3, 0),
        (3, 0),
        (1, 1),
    ]


def test_a_function_that_fails_has_started_no_stream() -> None:
    def failing() -> Any:
        yield [("x", 1)]
        raise KeyError("boom")

    sink = io.BytesIO()
    with pytest.raises(KeyError):
        serializer().dump_stream(iter([((failing(), state(b"a", None)), ROWS)]), sink)
    assert sink.getvalue() == b""


def test_it_is_what_workers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {name: getattr(worker, name) for name in NAMES}
    for name in NAMES:
        monkeypatch.setattr(worker, name, theirs[name])  # restores it afterwards
    arrow.install()
    # As pyspark's worker makes it: by position or by name, with whatever else this release hands over.
    most = {"state_object_schema": SCHEMA, "arrow_max_records_per_batch": 7}
    asked = inspect.signature(theirs[NAMES[0]]).parameters.values()
    given = {one.name: most.get(one.name) for one in asked}
    by_position = [given[one.name] for one in asked if one.kind is not one.KEYWORD_ONLY]
    by_name = {one.name: given[one.name] for one in asked if one.kind is one.KEYWORD_ONLY}
    made = worker.ApplyInPandasWithStateSerializer(*by_position, **by_name)
    assert isinstance(made, ArrowStateSerializer)
    assert (made._state_schema, made._most) == (SCHEMA, 7)
    seen: list[Any] = []

    def function(key: Any, _values: Any, _state: Any) -> Any:
        seen.append(key)
        return iter([])

    schema = StructType().add("name", StringType()).add("number", IntegerType())
    run = worker.wrap_grouped_map_pandas_udf_with_state(function, schema, {})
    (_, _), returned = run([pa.array([7], pa.int32())], iter([]), state(b"a", None))
    assert (seen, returned) == ([(7,)], ROWS)
