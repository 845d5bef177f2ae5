"""Observed groups: which rounds belong to one rebalance, and the cause of each rebalance."""

import pytest
from msgspec import structs

from streaming.monitor.outputs import Output
from streaming.records.events import Event, Evidence
from tests.support.histories import Log, diffs, play

COOPERATIVE = "cooperative-sticky"


def logged(kind: str | None, *member_ids: str) -> Evidence:
    return Evidence(source="coordinator-log", reason=str(kind), member_ids=list(member_ids), kind=kind)


JOIN = logged("member.joined", "c2")


def rounds(outputs: list[Output]) -> list[tuple[int | None, int, str, list[str]]]:
    return [(diff.group_epoch, diff.round, diff.cause.kind, diff.cause.member_ids) for diff in diffs(outputs)]


def step(log: Log, epoch: int, *evidence: Evidence, **assigned: list[int]) -> Event:
    shares = {member_id: {"t": partitions} for member_id, partitions in assigned.items()}
    return log.observe(epoch, shares, epoch=True, protocol="uniform", evidence=evidence)


@pytest.mark.parametrize(
    "evidence",
    [
        [(), (), ()],
        [(JOIN, logged(None, "c2"))] * 3,
        [(), (JOIN,), (JOIN,)],  # the log is read after the records
        [(JOIN,), (), ()],  # the collector started again: its log begins later
        [(JOIN,), (JOIN, logged("member.left", "c9")), (JOIN,)],
    ],
)
def test_a_join_under_the_consumer_protocol_is_one_rebalance(log: Log, evidence: list[tuple[Evidence, ...]]) -> None:
    events = [
        step(log, 1, c1=[0, 1]),
        step(log, 2, *evidence[0], c1=[0, 1], c2=[]),
        step(log, 2, *evidence[1], c1=[0], c2=[]),
        step(log, 2, *evidence[1], c1=[0], c2=[]),  # the same records are read again
        step(log, 2, *evidence[2], c1=[0], c2=[1]),
    ]
    outputs = play(events)[1]
    joined = "member.joined"
    assert rounds(outputs) == [(1, 1, joined, ["c1"]), *((2, number, joined, ["c2"]) for number in (1, 2, 3))]
    assert len({str(diff.cause) for diff in diffs(outputs)[1:]}) == 1
    assert [diff.moved for diff in diffs(outputs)] == [0, 0, 0, 1]


def test_a_leave_during_reconciliation_starts_the_next_rebalance(log: Log) -> None:
    leave = logged("member.left", "c3")
    events = [
        step(log, 1, c1=[0, 1], c3=[2]),
        step(log, 2, JOIN, c1=[0, 1], c2=[], c3=[2]),
        step(log, 3, leave, c1=[0, 1], c2=[]),
        step(log, 3, leave, c1=[0], c2=[]),
        step(log, 3, leave, c1=[0], c2=[1, 2]),
    ]
    assert rounds(play(events)[1])[1:] == [
        (2, 1, "member.joined", ["c2"]),
        *((3, number, "member.left", ["c3"]) for number in (1, 2, 3)),
    ]


def test_evidence_seen_between_two_epochs_explains_the_later(log: Log) -> None:
    events = [
        log.topics(t=2),
        step(log, 1, c1=[0, 1], c3=[]),
        step(log, 2, c1=[0, 1], c2=[], c3=[]),
        log.join("c2"),  # the application reports a join that the records have already shown
        log.fence("c3", reason="session timed out"),
        log.topics(t=3),
        step(log, 2, c1=[0], c2=[], c3=[]),
        step(log, 2, c1=[0], c2=[1], c3=[]),
        step(log, 3, c1=[0], c2=[1]),
    ]
    outputs = play(events)[1]
    assert rounds(outputs)[1:] == [
        *((2, number, "member.joined", ["c2"]) for number in (1, 2, 3)),
        (3, 1, "member.fenced", ["c3"]),
    ]
    assert [item.kind for item in diffs(outputs)[-1].cause.evidence] == ["member.fenced", "topic.partitions_changed"]


def test_late_cause_is_reported_by_the_following_rounds(log: Log) -> None:
    events = [
        log.topics(t=1),
        step(log, 1, c1=[0], c2=[]),
        step(log, 3, c1=[0], c2=[]),
        log.topics(t=2),
        step(log, 3, c1=[0], c2=[1]),
        step(log, 4, c1=[0], c2=[1]),
    ]
    outputs = play(events)[1]
    assert rounds(outputs)[1:] == [
        (3, 1, "group.observed", []),
        (3, 2, "topic.partitions_changed", []),
        (4, 1, "group.observed", []),
    ]
    assert [item.reason for item in diffs(outputs)[2].cause.evidence] == [
        "generations 2 to 2 were not seen",
        "t: 1 → 2 partitions",
    ]


def test_member_added_later_in_an_epoch_joins_in_its_next_round(log: Log) -> None:
    events = [step(log, 7, c1=[0]), step(log, 7, c1=[0], c2=[1])]
    assert rounds(play(events)[1]) == [(7, 1, "member.joined", ["c1"]), (7, 2, "member.joined", ["c2"])]


def test_evidence_repeated_with_next_generation_is_not_new(log: Log) -> None:
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}, protocol=COOPERATIVE),
        log.observe(2, {"c1": {"t": [0]}, "c2": {}}, protocol=COOPERATIVE, evidence=[JOIN]),
        log.leave("c9"),
        log.observe(3, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOPERATIVE, evidence=[JOIN]),
    ]
    state, outputs = play(events)
    assert [diff.round for diff in diffs(outputs)] == [1, 1, 2]
    assert [hint.member_ids for hint in state.hints] == [["c9"]]


def test_new_evidence_after_a_round_starts_another_rebalance(log: Log) -> None:
    changed = logged("member.subscription_changed", "c2")
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}, protocol=COOPERATIVE),
        log.observe(2, {"c1": {"t": [0]}, "c2": {}}, protocol=COOPERATIVE, evidence=[JOIN]),
        log.observe(3, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOPERATIVE, evidence=[changed]),
    ]
    causes = [(diff.round, diff.cause.kind, diff.cause.member_ids) for diff in diffs(play(events)[1])]
    assert causes[1:] == [(1, "member.joined", ["c2"]), (1, "member.subscription_changed", ["c2"])]


def test_a_group_that_changes_its_protocol_starts_a_rebalance(log: Log) -> None:
    events = [log.observe(2, {"c1": {"t": [0, 1]}}), step(log, 2, c1=[0])]
    assert [diff.round for diff in diffs(play(events)[1])] == [1, 1]


@pytest.mark.parametrize(
    ("epochs", "begins"),
    [
        ([(2, 0)], True),
        ([(2, 0), (2, 0)], True),
        ([(1, 0)], True),  # snapshot of a streams group before its target is written
        ([(2, 0), (2, 1)], False),
        ([(None, None)], False),  # a snapshot by polling has no epochs
        ([], False),
    ],
)
def test_first_epoch_with_all_members_new_is_the_beginning(
    epochs: list[tuple[int | None, int | None]], begins: bool
) -> None:
    event = step(Log(), 2, **{f"c{number}": [number] for number in range(len(epochs))})
    members = [
        structs.replace(member, member_epoch=now, previous_member_epoch=past)
        for member, (now, past) in zip(event.data.members, epochs, strict=True)
    ]
    event = structs.replace(event, data=structs.replace(event.data, members=members))
    (diff,) = diffs(play([event])[1])
    assert ([item.reason for item in diff.cause.evidence] == []) is begins
