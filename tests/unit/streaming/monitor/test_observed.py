"""Observed groups: the assignment is read, the difference and the cause are found."""

from __future__ import annotations

import pytest

from streaming.monitor.group import apply
from streaming.monitor.observed import MissingGeneration
from streaming.monitor.rendering import Output
from streaming.wire.events import Cause, Event, Evidence, GroupObserved
from tests.support.histories import Log, assignments, change, diffs, holds, play, sample

COOP = "cooperative-sticky"


def test_the_first_generation() -> None:
    log = Log()
    _, outputs = play([log.topics(t=3), log.observe(1, {"c1": {"t": [2, 0]}})])
    first = sample(members={"c1": change(assigned={"t": [0, 2]})}, unassigned={"t": [1]})
    assert diffs(outputs) == [first]


def test_a_first_sight_in_mid_life_says_so_and_believes_what_members_claim() -> None:
    log = Log()
    event = log.observe(7, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOP, owned={"c1": {"t": [0, 1]}})
    (diff,) = diffs(play([event])[1])
    assert diff.members == {
        "c1": change(owned={"t": [0, 1]}, revoked={"t": [1]}, kept={"t": [0]}),
        "c2": change(assigned={"t": [1]}),
    }
    assert diff.cause.evidence == [Evidence(source="comparison", reason="first observation, at generation 7")]


def test_owned_before_is_what_the_generation_before_left() -> None:
    log = Log()
    state, _ = play([log.observe(1, {"c1": {"t": [0, 1]}})])
    _, outputs = play([log.observe(2, {"c1": {"t": [0]}, "c2": {"t": [1]}})], state)
    (diff,) = diffs(outputs)
    assert diff.members == {
        "c1": change(owned={"t": [0, 1]}, revoked={"t": [1]}, kept={"t": [0]}),
        "c2": change(assigned={"t": [1]}),
    }
    assert (diff.cause, diff.moved) == (Cause(kind="member.joined", member_ids=["c2"]), 1)


def test_the_second_cooperative_round_follows_from_the_first() -> None:
    log = Log()
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}, protocol=COOP),
        log.observe(2, {"c1": {"t": [0]}, "c2": {}}, protocol=COOP),
        log.observe(3, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOP),
        log.observe(4, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOP),
    ]
    found = diffs(play(events)[1])
    assert [(diff.generation, diff.round, diff.cause.kind, diff.moved) for diff in found] == [
        (1, 1, "member.joined", 0),
        (2, 1, "member.joined", 0),
        (3, 2, "member.joined", 1),
        (4, 1, "group.observed", 0),
    ]
    assert found[2].cause == found[1].cause


def test_eager_rounds_never_follow() -> None:
    log = Log()
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}),
        log.observe(2, {"c1": {"t": [0]}, "c2": {"t": [1]}}),
        log.observe(3, {"c1": {"t": [0]}, "c2": {"t": [1]}}),
    ]
    assert [diff.round for diff in diffs(play(events)[1])] == [1, 1, 1]


def test_the_same_generation_again_and_older_ones_change_nothing() -> None:
    log = Log()
    state, _ = play([log.observe(3, {"c1": {"t": [0]}})])
    assert play([log.observe(3, {"c1": {"t": [0]}}), log.observe(2, {"c1": {"t": [0]}})], state)[1] == []


def test_a_generation_that_starts_over_with_others_is_a_new_life() -> None:
    log = Log()
    state, _ = play([log.observe(30, {"c1": {"t": [0]}})])
    (diff,) = diffs(play([log.observe(1, {"d1": {"t": [0]}})], state)[1])
    assert holds(diff) == {"d1": {"t": [0]}, "c1": {}}
    assert diff.moved == 1


def test_a_static_replacement_keeps_its_generation_and_gives_no_diff() -> None:
    log = Log()
    state, _ = play([log.observe(3, {"a-1": {"t": [0]}}, instances={"a-1": "a"})])
    state, outputs = play([log.observe(3, {"a-2": {"t": [0]}}, instances={"a-2": "a"})], state)
    assert diffs(outputs) == []
    (latest,) = assignments(outputs)
    assert latest.assignment is not None
    assert latest.assignment.members == {"a-2": {"t": [0]}}
    (diff,) = diffs(play([log.observe(4, {"a-2": {"t": [0]}}, instances={"a-2": "a"})], state)[1])
    assert diff.members == {"a-2": change(owned={"t": [0]}, kept={"t": [0]})}


@pytest.mark.parametrize(("fenced", "kind"), [(False, "member.left"), (True, "member.fenced")])
def test_a_member_that_is_gone_left_unless_evidence_says_it_was_fenced(fenced: bool, kind: str) -> None:
    log = Log()
    state, _ = play([log.observe(1, {"c1": {"t": [0]}, "c2": {"t": [1]}})])
    evidence = [
        Evidence(
            source="coordinator-log",
            reason="expired",
            member_ids=["c2"],
            kind="member.fenced" if fenced else None,
        )
    ]
    (diff,) = diffs(play([log.observe(2, {"c1": {"t": [0, 1]}}, evidence=evidence)], state)[1])
    assert diff.cause == Cause(kind=kind, member_ids=["c2"], evidence=evidence)


@pytest.mark.parametrize(
    ("kinds", "kind", "member_ids"),
    [
        (["group.observed"], "group.observed", ["c2"]),
        (["group.observed", "member.left"], "member.left", ["c2"]),
        (["group.observed", "member.fenced"], "member.fenced", ["c2"]),
    ],
)
def test_a_member_whose_end_nobody_can_tell_is_neither_left_nor_fenced(
    kinds: list[str], kind: str, member_ids: list[str]
) -> None:
    log = Log()
    state, _ = play([log.observe(1, {"c1": {"t": [0]}, "c2": {"t": [1]}})])
    evidence = [Evidence(source="s", reason=kind, member_ids=["c2"], kind=kind) for kind in kinds]
    (diff,) = diffs(play([log.observe(2, {"c1": {"t": [0, 1]}}, evidence=evidence)], state)[1])
    assert diff.cause == Cause(kind=kind, member_ids=member_ids, evidence=evidence)


def test_where_one_left_and_of_another_it_is_not_known_both_are_said() -> None:
    log = Log()
    state, _ = play([log.observe(1, {"c1": {"t": [0]}, "c2": {"t": [1]}, "c3": {"t": [2]}})])
    evidence = [Evidence(source="s", reason="r", member_ids=["c2"], kind="group.observed")]
    (diff,) = diffs(play([log.observe(2, {"c1": {"t": [0, 1, 2]}}, evidence=evidence)], state)[1])
    assert (diff.cause.kind, diff.cause.member_ids) == ("member.left", ["c3"])
    assert [item.reason for item in diff.cause.evidence[1:]] == [
        "gone since the generation before, whether it left or crashed is not known"
    ]


def test_member_events_of_an_observed_group_are_evidence() -> None:
    log = Log()
    state, _ = play([log.observe(1, {"c1": {"t": [0]}, "c2": {"t": [1]}})])
    state, outputs = play([log.fence("c2", reason="session timed out")], state)
    assert outputs == []
    (diff,) = diffs(play([log.observe(2, {"c1": {"t": [0, 1]}})], state)[1])
    assert diff.cause == Cause(
        kind="member.fenced",
        member_ids=["c2"],
        evidence=[
            Evidence(source="test", reason="session timed out", member_ids=["c2"], kind="member.fenced"),
        ],
    )


def test_one_goes_and_one_comes_in_the_same_generation() -> None:
    log = Log()
    state, _ = play([log.observe(1, {"c1": {"t": [0]}})])
    (diff,) = diffs(play([log.observe(2, {"c2": {"t": [0]}})], state)[1])
    assert diff.cause == Cause(
        kind="member.joined",
        member_ids=["c2"],
        evidence=[
            Evidence(
                source="comparison",
                reason="gone since the generation before",
                member_ids=["c1"],
                kind="member.left",
            )
        ],
    )


def test_subscriptions_and_partition_counts_are_causes() -> None:
    log = Log()
    state, _ = play([log.topics(t=1), log.observe(1, {"c1": {"t": [0]}})])
    state, outputs = play([log.observe(2, {"c1": {"t": [0]}}, topics={"c1": ["t", "u"]})], state)
    assert diffs(outputs)[0].cause == Cause(kind="member.subscription_changed", member_ids=["c1"])
    state, _ = play([log.topics(t=2)], state)
    _, outputs = play([log.observe(3, {"c1": {"t": [0, 1]}}, topics={"c1": ["t", "u"]})], state)
    assert diffs(outputs)[0].cause.kind == "topic.partitions_changed"


def test_generations_that_were_not_seen_are_named() -> None:
    log = Log()
    state, _ = play([log.observe(1, {"c1": {"t": [0]}})])
    (diff,) = diffs(play([log.observe(5, {"c1": {"t": [0]}})], state)[1])
    assert diff.cause.evidence == [Evidence(source="comparison", reason="generations 2 to 4 were not seen")]


def test_members_of_a_consumer_group_move_towards_their_target_in_rounds() -> None:
    log = Log()
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}, epoch=True, protocol="uniform"),
        log.observe(2, {"c1": {"t": [0]}, "c2": {}}, epoch=True, protocol="uniform"),
        log.observe(2, {"c1": {"t": [0]}, "c2": {}}, epoch=True, protocol="uniform"),
        log.observe(2, {"c1": {"t": [0]}, "c2": {"t": [1]}}, epoch=True, protocol="uniform"),
    ]
    found = diffs(play(events)[1])
    assert [(diff.group_epoch, diff.round, diff.moved) for diff in found] == [(1, 1, 0), (2, 1, 0), (2, 2, 1)]


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
        [(JOIN,), (JOIN,), (JOIN,)],
        [(), (JOIN,), (JOIN,)],  # the log is read after the records
        [(JOIN,), (), ()],  # the collector started again: its log begins later
        [(JOIN,), (JOIN, logged("member.left", "c9")), (JOIN,)],
    ],
)
def test_a_join_under_the_consumer_protocol_is_one_rebalance(evidence: list[tuple[Evidence, ...]]) -> None:
    log = Log()
    events = [
        step(log, 1, c1=[0, 1]),
        step(log, 2, *evidence[0], c1=[0, 1], c2=[]),
        step(log, 2, *evidence[1], c1=[0], c2=[]),
        step(log, 2, *evidence[1], c1=[0], c2=[]),  # the same records read again
        step(log, 2, *evidence[2], c1=[0], c2=[1]),
    ]
    found = play(events)[1]
    joined = "member.joined"
    assert rounds(found) == [(1, 1, joined, ["c1"]), *((2, number, joined, ["c2"]) for number in (1, 2, 3))]
    assert len({str(diff.cause) for diff in diffs(found)[1:]}) == 1


def test_a_leave_during_reconciliation_starts_the_next_rebalance() -> None:
    log = Log()
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


def test_epochs_that_share_a_target_are_a_rebalance_each() -> None:
    log = Log()
    third = logged("member.joined", "c3")
    events = [
        step(log, 1, c1=[0, 1, 2]),
        step(log, 2, JOIN, c1=[0, 1, 2], c2=[]),
        step(log, 3, third, c1=[0, 1, 2], c2=[], c3=[]),
        step(log, 3, third, c1=[0], c2=[], c3=[]),
        step(log, 3, third, c1=[0], c2=[1], c3=[2]),
    ]
    assert rounds(play(events)[1])[1:] == [
        (2, 1, "member.joined", ["c2"]),
        *((3, number, "member.joined", ["c3"]) for number in (1, 2, 3)),
    ]


def test_what_is_heard_between_two_steps_is_for_the_epoch_that_it_starts() -> None:
    log = Log()
    events = [
        log.topics(t=2),
        step(log, 1, c1=[0, 1], c3=[]),
        step(log, 2, c1=[0, 1], c2=[], c3=[]),
        log.join("c2"),  # an application reports what the records showed already
        log.fence("c3", reason="session timed out"),
        log.topics(t=3),
        step(log, 2, c1=[0], c2=[], c3=[]),
        step(log, 2, c1=[0], c2=[1], c3=[]),
        step(log, 3, c1=[0], c2=[1]),
    ]
    found = play(events)[1]
    assert rounds(found)[1:] == [
        *((2, number, "member.joined", ["c2"]) for number in (1, 2, 3)),
        (3, 1, "member.fenced", ["c3"]),
    ]
    assert [item.kind for item in diffs(found)[-1].cause.evidence] == [
        "member.fenced",
        "topic.partitions_changed",
    ]


def test_a_cause_that_becomes_known_later_is_told_by_the_rounds_that_follow() -> None:
    log = Log()
    events = [
        log.topics(t=1),
        step(log, 1, c1=[0], c2=[]),
        step(log, 3, c1=[0], c2=[]),
        log.topics(t=2),
        step(log, 3, c1=[0], c2=[1]),
        step(log, 4, c1=[0], c2=[1]),
    ]
    found = play(events)[1]
    assert rounds(found)[1:] == [
        (3, 1, "group.observed", []),
        (3, 2, "topic.partitions_changed", []),
        (4, 1, "group.observed", []),
    ]
    assert [item.reason for item in diffs(found)[2].cause.evidence] == [
        "generations 2 to 2 were not seen",
        "t: 1 → 2 partitions",
    ]


def test_members_that_were_seen_late_stand_in_the_epoch_that_they_belong_to() -> None:
    log = Log()
    events = [step(log, 7, c1=[0]), step(log, 7, c1=[0], c2=[1])]
    assert rounds(play(events)[1]) == [(7, 1, "member.joined", ["c1"]), (7, 2, "member.joined", ["c2"])]


def test_evidence_that_comes_again_with_the_next_generation_is_not_new() -> None:
    log = Log()
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}, protocol=COOP),
        log.observe(2, {"c1": {"t": [0]}, "c2": {}}, protocol=COOP, evidence=[JOIN]),
        log.leave("c9"),
        log.observe(3, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOP, evidence=[JOIN]),
    ]
    state, outputs = play(events)
    assert [diff.round for diff in diffs(outputs)] == [1, 1, 2]
    assert state is not None
    assert [hint.member_ids for hint in state.hints] == [["c9"]]


def test_a_group_that_changes_its_protocol_starts_a_rebalance() -> None:
    log = Log()
    events = [log.observe(2, {"c1": {"t": [0, 1]}}), step(log, 2, c1=[0])]
    assert [diff.round for diff in diffs(play(events)[1])] == [1, 1]


def test_a_derived_group_becomes_observed_whatever_its_own_count_was() -> None:
    log = Log()
    state, _ = play([log.topics(t=2), log.join("c1"), log.join("c2"), log.join("c3")])
    state, outputs = play([log.observe(1, {"c1": {"t": [0, 1]}})], state)
    (diff,) = diffs(outputs)
    assert diff.generation == 1
    assert diff.members["c2"] == change(owned={"t": [1]}, revoked={"t": [1]}, present=False)
    assert play([log.join("c9")], state)[1] == []


def test_a_violation_is_named() -> None:
    log = Log()
    _, outputs = play([log.topics(t=2), log.observe(1, {"c1": {"t": [0, 1]}, "c2": {"t": [1], "u": [0]}})])
    assert diffs(outputs)[0].violations == [
        "t-1 given to c1 and to c2",
        "c2 is given u-0 without subscribing to u",
    ]


def test_a_deleted_observed_group_stays_observed() -> None:
    log = Log()
    state, outputs = play([log.observe(9, {"c1": {"t": [0]}}), log.delete()])
    assert diffs(outputs)[-1].members == {"c1": change(owned={"t": [0]}, revoked={"t": [0]}, present=False)}
    assert state is not None
    assert state.observed
    (diff,) = diffs(play([log.observe(1, {"c1": {"t": [0]}})], state)[1])
    assert diff.generation == 1


def test_a_view_without_its_generation_is_refused() -> None:
    with pytest.raises(MissingGeneration, match=r"generation.*groupEpoch.*missing"):
        apply(None, Log().event(GroupObserved, members=[]))


def test_a_partition_that_is_named_twice_is_owned_once() -> None:
    log = Log()
    (only,) = diffs(play([log.observe(1, {"c1": {"t": [1, 0, 1]}})])[1])
    assert only.members == {"c1": change(assigned={"t": [0, 1]})}
    assert only.violations == []
