"""Rows of a batch in any order: what is made of many is what is made of each record in the log's order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import process
from streaming.monitor.envelope import Sinks
from streaming.spark import rows
from streaming.spark.rows import ARROW_TYPES, INPUT, read
from streaming.wire import codec
from streaming.wire.codec import Record
from tests.support.histories import Log

SINKS = Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e"), 4), episodes="e")
USUAL = b'[{"key":"a","value":"/w=="}]'


def changed(row: dict[str, Any], how: str) -> dict[str, Any]:
    """A row with something of it spoilt."""
    match how:
        case "no id" | "no source" | "no value" | "no key":
            name = how[3:] if how in {"no value", "no key"} else f"ce_{how[3:]}"
            return row | {name: None}
        case "empty id":
            return row | {"ce_id": b""}
        case "other key":
            return row | {"key": b"other"}
        case "broken":
            return row | {"value": (row["value"] or b"")[:-1]}
        case "other headers":
            return row | dict.fromkeys(INPUT[4:8]) | {"other_headers": USUAL.decode()}
    return row


@st.composite
def logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of two groups' logs in two partitions, some of them not as they should be."""
    made = {name: Log(name) for name in ("a", "b")}
    found: list[dict[str, Any]] = []
    for log in made.values():
        for event in (log.topics(t=3), log.join("m1", session_timeout_ms=500), log.join("m2")):
            found.append(row(event, len(found)))
    for _ in range(draw(st.integers(0, 25))):
        log = made[draw(st.sampled_from("ab"))]
        kind = draw(st.sampled_from(["beat", "beat", "beat", "join", "leave"]))
        event = getattr(log, kind)(draw(st.sampled_from(["m1", "m2", "m3"])))
        how = draw(
            st.sampled_from(
                [
                    *[""] * 8,
                    *("no id", "no source", "no value", "no key", "empty id", "other key", "broken"),
                    "other headers",
                ]
            )
        )
        found.append(changed(row(event, len(found)), how))
    return found


def row(event: Any, offset: int) -> dict[str, Any]:
    key, value, headers = codec.encode_event(event)
    names = dict(headers)
    return {
        "partition": offset % 2,
        "offset": offset,
        "key": key,
        "value": value,
        **{name: names[name] for name in INPUT[4:8]},
        "other_headers": None,
    }


def arrays(given: Iterable[dict[str, Any]]) -> list[pa.Array]:
    columns: dict[str, list[Any]] = {name: [] for name in ("bucket", *INPUT, "appended")}
    for one in given:
        for name, column in columns.items():
            column.append({"bucket": 7, "appended": one["offset"] + 5, **one}[name])
    return [pa.array(column, kind) for column, kind in zip(columns.values(), ARROW_TYPES, strict=True)]


def outcome(found: Iterable[Any]) -> tuple[list[tuple[Any, ...]], bytes]:
    bucket = Bucket()
    return [tuple(write) for write in process(bucket, found, 1_000, SINKS)], bucket.pack()


@given(logs(), st.randoms(use_true_random=False), st.integers(1, 3))
def test_many_rows_give_what_each_gives_in_order(log: list[dict[str, Any]], random: Any, parts: int) -> None:
    shuffled = log.copy()
    random.shuffle(shuffled)
    given = [arrays(shuffled[at::parts]) for at in range(parts)]
    tick = arrays([dict.fromkeys(INPUT) | {"partition": -1, "offset": 0}])
    wanted, oldest, size = read([arrays(log)])
    assert all(isinstance(one, Record) for one in wanted)
    with patch.object(rows, "FEW", 0):
        found = read([*given, tick])
    assert found.oldest == oldest == 5
    assert found.bytes == size == sum(len(one["value"] or b"") for one in log)
    assert outcome(found.records) == outcome(wanted)
