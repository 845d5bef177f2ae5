"""A history as of a moment: what the stream had written by then, in whatever batches it ran."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from streaming.monitor.outputs import Write
from streaming.recording.history import History, event_time, history_at
from streaming.records.codec import Record, encode, encode_event
from streaming.records.events import Event
from tests.support.histories import as_topic
from tests.support.pure_stream import SINKS, run
from tests.support.recorded import membership_log


def in_records(log: list[Event]) -> list[Record]:
    return [Record.of(0, offset, *encode_event(event)) for offset, event in enumerate(log)]


def compacted(writes: list[Write]) -> dict[tuple[str, bytes | None], bytes]:
    newest = {(write.topic, write.key): write.value for write in writes if write.topic in "aei"}
    return {place: value for place, value in newest.items() if value is not None}


def held(history: History) -> set[bytes]:
    assignments = map(encode, history.assignments)
    return {*assignments, *(r.value for r in history.episodes), *(r.value for r in history.incidents)}


@pytest.mark.parametrize("seed", range(10))
def test_state_as_of_a_moment_equals_the_stream_until_then(seed: int) -> None:
    log = sorted(membership_log(240, 8, seed), key=lambda event: event.data.timestamp)
    records = in_records(log)
    chance = Random(seed)
    for _ in range(10):
        at_ms = chance.randrange(log[0].data.timestamp - 1, log[-1].data.timestamp + 2)
        before = [event for event in log if event.data.timestamp <= at_ms]
        writes = run(as_topic(before, 4), batch=7, buckets=3) if before else []
        assert held(history_at(records, at_ms, SINKS)) == set(compacted(writes).values())


def test_future_events_and_broken_records_change_nothing() -> None:
    log = list(membership_log(60, 3, seed=5))
    ahead = msgspec.structs.replace(log[0].data, timestamp=10**15 // 5)
    records = in_records([Event("other", "ahead", ahead), *log])
    broken = records[3]._replace(value=b"{")
    at_ms = log[-1].data.timestamp
    assert held(history_at([*records, broken], at_ms, SINKS)) == held(
        history_at(in_records(log), at_ms, SINKS)
    )
    assert event_time(broken) == 0


def test_outputs_are_the_records_of_the_stream() -> None:
    log = list(membership_log(120, 4))
    history = History(SINKS)
    outputs = [output.write for output in history.play(in_records(log)) if output.write.topic == "d"]
    assert outputs
    assert {(output.key, output.value) for output in outputs} == {
        (one.key, one.value) for one in run(as_topic(log, 1), batch=1000, buckets=1) if one.topic == "d"
    }
