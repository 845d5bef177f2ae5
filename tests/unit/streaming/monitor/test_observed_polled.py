import pytest

from streaming.records.events import Evidence
from tests.support.histories import Log, assignments, diffs, partitions_after, play

POLLING_EVIDENCE = [Evidence(source="polling", reason="asked for with the Admin API")]
JOIN_EVIDENCE = [Evidence(source="coordinator-log", reason="c2 joined", member_ids=["c2"], kind="member.joined")]
ONE_MEMBER = {"c1": {"t": [0, 1]}}
TWO_MEMBERS = {"c1": {"t": [0]}, "c2": {"t": [1]}}


@pytest.mark.parametrize("epoch", [False, True])
@pytest.mark.parametrize("number", [3, 6, 7])
def test_polled_snapshot_not_ahead_of_offsets_is_ignored(epoch: bool, number: int) -> None:
    log = Log()
    state, _ = play([log.observe(7, TWO_MEMBERS, epoch=epoch)])
    for shares in (ONE_MEMBER, {"d1": {"t": [0]}}, {}):
        after, outputs = play([log.observe(number, shares, epoch=epoch, evidence=POLLING_EVIDENCE)], state)
        assert outputs == []
        assert (after.members, after.generation, after.counted) == (state.members, 7, False)


def test_polling_continues_without_the_offsets_topic() -> None:
    log = Log()
    state, _ = play([log.observe(7, ONE_MEMBER)])
    state, outputs = play(
        [log.observe(8, TWO_MEMBERS, evidence=POLLING_EVIDENCE), log.observe(9, ONE_MEMBER, evidence=POLLING_EVIDENCE)],
        state,
    )
    assert [(diff.generation, partitions_after(diff)) for diff in diffs(outputs)] == [
        (8, TWO_MEMBERS),
        (9, ONE_MEMBER | {"c2": {}}),
    ]
    assert state.counted


@pytest.mark.parametrize("epoch", [False, True])
@pytest.mark.parametrize("number", [2, 12])
def test_polled_change_is_reported_once_with_kafkas_number(epoch: bool, number: int) -> None:
    log = Log()
    events = [
        log.observe(1, ONE_MEMBER, epoch=epoch, evidence=POLLING_EVIDENCE),
        log.observe(2, TWO_MEMBERS, epoch=epoch, evidence=POLLING_EVIDENCE),
    ]
    state, _ = play(events)
    change_record = log.observe(number, TWO_MEMBERS, epoch=epoch, topics={"c2": ["t", "u"]}, evidence=JOIN_EVIDENCE)
    state, outputs = play([change_record], state)
    assert diffs(outputs) == []
    (latest,) = assignments(outputs)
    assert (latest.assignment.generation or latest.assignment.group_epoch) == number
    c2 = state.member("c2")
    assert (c2.topics, state.counted) == (["t", "u"], False)
    (diff,) = diffs(play([log.observe(number + 1, ONE_MEMBER, epoch=epoch)], state)[1])
    assert partitions_after(diff) == ONE_MEMBER | {"c2": {}}


def test_group_that_changed_after_polling_has_a_round() -> None:
    log = Log()
    state, _ = play([log.observe(1, ONE_MEMBER, evidence=POLLING_EVIDENCE)])
    state, outputs = play([log.observe(12, TWO_MEMBERS)], state)
    assert [(diff.generation, partitions_after(diff)) for diff in diffs(outputs)] == [(12, TWO_MEMBERS)]
    assert not state.counted
