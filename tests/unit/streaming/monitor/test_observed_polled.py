from __future__ import annotations

import pytest

from streaming.records.events import Evidence
from tests.support.histories import Log, assignments, diffs, holds, play

POLLED = [Evidence(source="polling", reason="asked for with the Admin API")]
SEEN = [Evidence(source="coordinator-log", reason="c2 joined", member_ids=["c2"], kind="member.joined")]
ONE = {"c1": {"t": [0, 1]}}
TWO = {"c1": {"t": [0]}, "c2": {"t": [1]}}


@pytest.mark.parametrize("epoch", [False, True])
@pytest.mark.parametrize("number", [3, 6, 7])
def test_polled_snapshot_not_ahead_of_offsets_is_ignored(epoch: bool, number: int) -> None:
    log = Log()
    state, _ = play([log.observe(7, TWO, epoch=epoch)])
    for seen in (ONE, {"d1": {"t": [0]}}, {}):
        after, outputs = play([log.observe(number, seen, epoch=epoch, evidence=POLLED)], state)
        assert outputs == []
        assert state is not None
        assert after is not None
        assert (after.members, after.generation, after.counted) == (state.members, 7, False)


def test_polling_continues_without_the_offsets_topic() -> None:
    log = Log()
    state, _ = play([log.observe(7, ONE)])
    state, outputs = play([log.observe(8, TWO, evidence=POLLED), log.observe(9, ONE, evidence=POLLED)], state)
    assert [(diff.generation, holds(diff)) for diff in diffs(outputs)] == [(8, TWO), (9, ONE | {"c2": {}})]
    assert state is not None
    assert state.counted


@pytest.mark.parametrize("epoch", [False, True])
@pytest.mark.parametrize("number", [2, 12])
def test_polled_change_is_reported_once_with_kafkas_number(epoch: bool, number: int) -> None:
    log = Log()
    events = [log.observe(1, ONE, epoch=epoch, evidence=POLLED), log.observe(2, TWO, epoch=epoch, evidence=POLLED)]
    state, _ = play(events)
    kafkas = log.observe(number, TWO, epoch=epoch, topics={"c2": ["t", "u"]}, evidence=SEEN)
    state, outputs = play([kafkas], state)
    assert diffs(outputs) == []
    (latest,) = assignments(outputs)
    assert latest.assignment is not None
    assert (latest.assignment.generation or latest.assignment.group_epoch) == number
    assert state is not None
    c2 = state.member("c2")
    assert c2 is not None
    assert (c2.topics, state.counted) == (["t", "u"], False)
    (diff,) = diffs(play([log.observe(number + 1, ONE, epoch=epoch)], state)[1])
    assert holds(diff) == ONE | {"c2": {}}


def test_group_that_changed_after_polling_has_a_round() -> None:
    log = Log()
    state, _ = play([log.observe(1, ONE, evidence=POLLED)])
    state, outputs = play([log.observe(12, TWO)], state)
    assert [(diff.generation, holds(diff)) for diff in diffs(outputs)] == [(12, TWO)]
    assert state is not None
    assert not state.counted
