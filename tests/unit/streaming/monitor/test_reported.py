"""Groups whose assignments are computed from the reports of their members, without a collector."""

from typing import Any

import pytest
from msgspec import structs

from streaming.monitor.bucket_state import Bucket
from streaming.monitor.group import apply
from streaming.monitor.outputs import DiffOutput
from streaming.monitor.state import GroupState
from streaming.records.events import MAX_INT32, Event, Evidence, Partitions
from tests.support.histories import Log, assignments, change, check_diff_algebra, diffs, partitions_after, play

COOPERATIVE = "cooperative-sticky"
REPORTED_BY_MEMBERS = Evidence(
    source="listener", reason="as its members report it themselves; members that do not report are not seen"
)
POLLING_EVIDENCE = Evidence(source="polling", reason="asked for")


class ReportedGroup(Log):
    """Builds events of members that report their own partitions, as the listener library does."""

    def join(self, member_id: str, *topics: str, **fields: Any) -> Event:
        return super().join(member_id, *topics, **{"acknowledges": True, "assignors": [COOPERATIVE]} | fields)

    def acks(self, generation: int, **owned: list[int]) -> list[Event]:
        """Return one event per member, which acknowledges the generation and the member's partitions of ``t``."""
        return [self.ack(generation, name, {"t": numbers}) for name, numbers in owned.items()]

    def ack(self, generation: int, name: str, owned: Partitions, **fields: Any) -> Event:
        return self.acknowledge(name, generation=generation, owned=owned, **fields)

    def settled(self, generation: int, **owned: list[int]) -> list[Event]:
        """Return one report per member, which has owned these partitions of ``t`` for two seconds."""
        return [self.ack(generation, name, {"t": numbers}, held_ms=2000) for name, numbers in owned.items()]

    def events_of_two_members(self, **fields: Any) -> list[Event]:
        """Return the events of a group at generation 3 in which c1 and c2 own two partitions each."""
        first = [self.join("c1", **fields), *self.acks(3, c1=[0, 1]), self.join("c2", **fields)]
        return [*first, *self.acks(3, c2=[2, 3]), *self.settled(3, c1=[0, 1], c2=[2, 3])]


@pytest.fixture
def log() -> ReportedGroup:
    return ReportedGroup()


def after(events: list[Event]) -> GroupState:
    state, _ = play(events)
    assert state is not None
    return state


@pytest.fixture
def state(log: ReportedGroup) -> GroupState:
    """Return the state of a group at generation 3 with two members."""
    return after(log.events_of_two_members())


def test_members_joining_together_are_one_round() -> None:
    (diff,) = diffs(play(ReportedGroup().events_of_two_members())[1])
    assert diff.members == {"c1": change(assigned={"t": [0, 1]}), "c2": change(assigned={"t": [2, 3]})}
    assert (diff.generation, diff.round, diff.protocol, diff.assignor) == (3, 1, "classic", COOPERATIVE)
    assert (diff.cause.kind, diff.cause.member_ids, diff.timestamp) == ("member.joined", ["c1", "c2"], 2000)
    assert diff.cause.evidence[0] == REPORTED_BY_MEMBERS
    assert (diff.unassigned, diff.violations) == ({}, [])


def test_ownership_must_last_a_while_to_be_a_round(log: ReportedGroup) -> None:
    assert play([log.join("c1"), *log.acks(1, c1=[0])])[1] == []


def test_member_of_the_group_is_awaited(log: ReportedGroup, state: GroupState) -> None:
    state, outputs = play([*log.acks(4, c1=[0, 1]), *log.settled(4, c1=[0, 1])], state)
    assert outputs == []
    (diff,) = diffs(play(log.acks(4, c2=[2, 3]), state)[1])
    assert (diff.generation, partitions_after(diff)) == (4, {"c1": {"t": [0, 1]}, "c2": {"t": [2, 3]}})


def test_late_member_keeps_what_no_other_member_has(log: ReportedGroup, state: GroupState) -> None:
    events = [*log.acks(4, c1=[0, 1, 2]), log.ack(4, "c1", {"t": [0, 1, 2]}, held_ms=10_000)]
    (diff,) = diffs(play(events, state)[1])
    assert partitions_after(diff) == {"c1": {"t": [0, 1, 2]}, "c2": {"t": [3]}}
    check_diff_algebra(diff)


def test_awaited_member_is_removed_when_its_end_is_reported(log: ReportedGroup, state: GroupState) -> None:
    late = [*log.acks(4, c1=[0, 1, 2, 3]), log.ack(4, "c1", {"t": [0, 1, 2, 3]}, held_ms=10_000), log.fence("c2")]
    rounds = diffs(play(late, state)[1])
    assert [(diff.generation, diff.round, diff.cause.kind, partitions_after(diff)) for diff in rounds] == [
        (4, 1, "group.observed", {"c1": {"t": [0, 1, 2, 3]}, "c2": {}}),
        (4, 2, "member.fenced", {"c1": {"t": [0, 1, 2, 3]}, "c2": {}}),
    ]
    assert not rounds[1].members["c2"].present


def test_cooperative_rounds_reported_in_any_order_are_both_found(log: ReportedGroup) -> None:
    first = [log.join("c1"), *log.acks(1, c1=[0, 1]), *log.settled(1, c1=[0, 1])]
    # c1 has reported both generations before c2's first event.
    later = [*log.acks(2, c1=[0]), *log.acks(3, c1=[0]), log.join("c2"), log.ack(2, "c2", {}), *log.acks(3, c2=[1])]
    outputs = play([*first, *later, *log.settled(3, c1=[0], c2=[1])])[1]
    rounds = diffs(outputs)
    assert [(diff.generation, diff.round, diff.cause.kind, diff.moved, diff.unassigned) for diff in rounds] == [
        (1, 1, "member.joined", 0, {}),
        (2, 1, "member.joined", 0, {"t": [1]}),
        (3, 2, "member.joined", 1, {}),
    ]
    assert [partitions_after(diff) for diff in rounds[1:]] == [
        {"c1": {"t": [0]}, "c2": {}},
        {"c1": {"t": [0]}, "c2": {"t": [1]}},
    ]
    assert len({output.id for output in outputs if isinstance(output, DiffOutput)}) == 3


def test_generation_reported_by_one_member_only_gives_no_round(log: ReportedGroup, state: GroupState) -> None:
    events = [*log.acks(4, c1=[0]), *log.acks(5, c2=[1, 2, 3]), *log.acks(5, c1=[0]), *log.settled(5, c1=[0])]
    (diff,) = diffs(play(events, state)[1])
    assert (diff.generation, partitions_after(diff)) == (5, {"c1": {"t": [0]}, "c2": {"t": [1, 2, 3]}})
    assert diff.cause.evidence[-1].reason == "generations 4 to 4 were not seen"


def test_acknowledgement_without_a_generation_changes_nothing(log: ReportedGroup, state: GroupState) -> None:
    assert play([log.ack(-1, "c1", {})], state) == (state, [])


def test_member_that_left_is_absent_from_the_next_generation(log: ReportedGroup, state: GroupState) -> None:
    state, outputs = play([log.leave("c2", reason="closed")], state)
    assert outputs == []
    (diff,) = diffs(play([*log.acks(4, c1=[0, 1, 2, 3]), *log.settled(4, c1=[0, 1, 2, 3])], state)[1])
    assert (diff.cause.kind, diff.cause.member_ids, diff.moved) == ("member.left", ["c2"], 2)
    assert not diff.members["c2"].present


def test_crashed_member_does_not_hold_up_the_generation(log: ReportedGroup, state: GroupState) -> None:
    state, outputs = play([*log.acks(4, c1=[0, 1, 2, 3]), *log.settled(4, c1=[0, 1, 2, 3])], state)
    assert outputs == []
    (diff,) = diffs(play([log.fence("c2", reason="session timeout")], state)[1])
    assert (diff.cause.kind, diff.cause.member_ids) == ("member.fenced", ["c2"])


def test_last_leaver_leaves_an_empty_group_that_restarts(log: ReportedGroup, state: GroupState) -> None:
    state, outputs = play([log.leave("c1"), log.leave("c2")], state)
    (diff,) = diffs(outputs)
    assert (diff.generation, diff.cause.kind, partitions_after(diff)) == (4, "member.left", {"c1": {}, "c2": {}})
    again = [log.join("c3"), *log.acks(1, c3=[0]), *log.settled(1, c3=[0])]
    (diff,) = diffs(play(again, state)[1])
    assert (diff.generation, diff.round, partitions_after(diff)) == (1, 1, {"c3": {"t": [0]}})


def test_last_leaver_of_highest_generation_empties_the_group() -> None:
    """After the highest possible generation the next one is 1, not a larger number."""
    log, highest_generation = ReportedGroup(), MAX_INT32
    joined = [log.join("c1"), *log.acks(highest_generation, c1=[0]), *log.settled(highest_generation, c1=[0])]
    *_, last = diffs(play([*joined, log.leave("c1", acknowledges=True)])[1])
    assert (last.generation, last.members["c1"].revoked) == (1, {"t": [0]})


def test_leaving_member_is_in_the_round_that_it_reported(log: ReportedGroup) -> None:
    rounds = diffs(play([log.join("c1"), *log.acks(1, c1=[0]), log.leave("c1")])[1])
    assert [(diff.generation, partitions_after(diff)) for diff in rounds] == [(1, {"c1": {"t": [0]}}), (2, {"c1": {}})]


def test_repeated_newest_state_changes_nothing(log: ReportedGroup, state: GroupState) -> None:
    again = [log.join("c1"), *log.acks(3, c1=[0, 1]), *log.settled(3, c1=[0, 1])]
    repeated, outputs = play(again, state)
    assert (outputs, structs.replace(repeated, applied=b"")) == ([], structs.replace(state, applied=b""))


def test_wrongly_fenced_member_returns_without_a_round(log: ReportedGroup, state: GroupState) -> None:
    state, outputs = play([log.fence("c2"), log.join("c2"), *log.acks(3, c2=[2, 3])], state)
    assert outputs == []
    (diff,) = diffs(play([*log.acks(4, c1=[0, 1], c2=[2, 3]), *log.settled(4, c1=[0, 1])], state)[1])
    assert diff.cause.kind == "group.observed"


def test_late_report_is_one_more_round_of_its_generation(log: ReportedGroup) -> None:
    first = [log.join("c1"), *log.acks(3, c1=[0, 1]), *log.settled(3, c1=[0, 1])]
    late = [log.join("c2"), *log.acks(3, c2=[2, 3]), *log.settled(3, c2=[2, 3])]
    rounds = diffs(play([*first, *late])[1])
    assert [(diff.generation, diff.round, partitions_after(diff)) for diff in rounds] == [
        (3, 1, {"c1": {"t": [0, 1]}}),
        (3, 2, {"c1": {"t": [0, 1]}, "c2": {"t": [2, 3]}}),
    ]


def test_returning_static_member_keeps_its_identity(log: ReportedGroup) -> None:
    state = after([log.join("a1", group_instance_id="i"), *log.acks(1, a1=[0]), *log.settled(1, a1=[0])])
    back = [log.join("a2", group_instance_id="i"), *log.acks(1, a2=[0]), *log.settled(1, a2=[0])]
    state, outputs = play(back, state)
    assert diffs(outputs) == []
    (latest,) = assignments(outputs)
    assert latest.assignment.members == {"a2": {"t": [0]}}


def test_late_static_member_was_not_in_the_generation_between(log: ReportedGroup) -> None:
    events = [log.join("c1"), *log.acks(1, c1=[0]), log.join("a1", group_instance_id="i"), *log.acks(1, a1=[1])]
    state = after([*events, *log.settled(1, c1=[0])])
    without = [*log.acks(2, c1=[0, 1]), log.join("a2", group_instance_id="i"), *log.acks(3, a2=[1], c1=[0])]
    rounds = diffs(play([*without, *log.settled(3, c1=[0])], state)[1])
    assert [(diff.generation, {name: diff.members[name].present for name in diff.members}) for diff in rounds] == [
        (2, {"c1": True, "a1": False}),
        (3, {"c1": True, "a2": True}),
    ]
    assert [diff.moved for diff in rounds] == [1, 1]


def test_changed_subscription_is_the_cause(log: ReportedGroup, state: GroupState) -> None:
    events = [log.subscribe("c1", "t", "u"), *log.acks(4, c1=[0, 1], c2=[2, 3]), *log.settled(4, c1=[0, 1])]
    (diff,) = diffs(play(events, state)[1])
    assert (diff.cause.kind, diff.cause.member_ids) == ("member.subscription_changed", ["c1"])


def test_reported_steps_of_an_epoch_are_rounds() -> None:
    log, modern = ReportedGroup(), {"group_protocol": "consumer", "assignors": []}
    events = [log.join("c1", **modern), *log.acks(2, c1=[0, 1]), *log.settled(2, c1=[0, 1])]
    events += [log.join("c2", **modern), log.ack(3, "c2", {}), log.ack(3, "c2", {}, held_ms=2000)]
    # c2 reports its new partitions before c1 reports their revocation.
    events += [*log.acks(3, c2=[1]), *log.settled(3, c2=[1]), *log.acks(2, c1=[0]), *log.settled(3, c1=[0])]
    rounds = diffs(play(events)[1])
    assert [(diff.group_epoch, diff.round, partitions_after(diff)) for diff in rounds] == [
        (2, 1, {"c1": {"t": [0, 1]}}),
        (3, 1, {"c1": {"t": [0, 1]}, "c2": {}}),
        (3, 2, {"c1": {"t": [0]}, "c2": {"t": [1]}}),
    ]
    assert {diff.assignor for diff in rounds} == {"uniform"}


def test_a_leave_of_a_consumer_group_is_an_epoch_at_once() -> None:
    log, modern = ReportedGroup(), {"group_protocol": "consumer", "assignors": []}
    state = after(log.events_of_two_members(**modern))
    events = [log.leave("c2"), *log.acks(4, c1=[0, 1, 2, 3]), *log.settled(4, c1=[0, 1, 2, 3])]
    rounds = diffs(play(events, state)[1])
    assert [(diff.group_epoch, diff.round, partitions_after(diff)) for diff in rounds] == [
        (4, 1, {"c1": {"t": [0, 1]}, "c2": {}}),
        (4, 2, {"c1": {"t": [0, 1, 2, 3]}}),
    ]


def test_reports_are_only_evidence_once_a_snapshot_is_observed(log: ReportedGroup, state: GroupState) -> None:
    # Reports of the same or the next generation are evidence, whether early or late.
    snapshot = log.observe(3, {"c1": {"t": [0, 1]}, "c2": {"t": [2, 3]}, "x": {"t": [4]}}, protocol=COOPERATIVE)
    state, outputs = play([snapshot, *log.acks(4, c1=[0, 1]), *log.settled(4, c1=[0, 1]), log.leave("c2")], state)
    assert diffs(outputs) == []
    (diff,) = diffs(play([log.observe(4, {"c1": {"t": [0, 1, 2, 3]}}, protocol=COOPERATIVE)], state)[1])
    assert (diff.generation, diff.cause.kind, diff.cause.member_ids) == (4, "member.left", ["c2"])


def test_polled_snapshot_ahead_of_the_reports_gives_the_round(log: ReportedGroup, state: GroupState) -> None:
    fields = {"protocol": COOPERATIVE, "evidence": [POLLING_EVIDENCE]}
    behind, ahead = (log.observe(number, {"c1": {"t": [0, 1, 2, 3]}}, **fields) for number in (3, 4))
    same, outputs = play([behind], state)
    assert (same.reports, outputs) == (state.reports, [])
    state, outputs = play([ahead], state)
    assert (state.reports, len(diffs(outputs))) == (None, 1)


def test_events_from_a_collector_are_no_hints_for_later_causes(log: ReportedGroup) -> None:
    state = after([log.observe(1, {"c1": {"t": [0]}}), log.join("c1"), log.leave("c0", acknowledges=True)])
    assert state.hints == ()


def test_silent_members_are_not_awaited(log: ReportedGroup) -> None:
    (diff,) = diffs(play([log.join("c1"), Log.join(log, "x"), *log.acks(1, c1=[0]), *log.settled(1, c1=[0])])[1])
    assert partitions_after(diff) == {"c1": {"t": [0]}}


def test_the_state_is_the_same_after_a_restart_at_any_point(log: ReportedGroup) -> None:
    events = [*log.events_of_two_members(), log.join("c3"), *log.acks(4, c1=[0], c3=[]), *log.settled(4, c1=[0])]
    events += [*log.acks(4, c2=[2]), log.leave("c3"), *log.acks(5, c1=[0, 1], c2=[2, 3]), *log.settled(5, c1=[0, 1])]
    state_without_restart, restarted_state = None, None
    for event in events:
        state_without_restart, outputs = apply(state_without_restart, event)
        restarted_state, again = apply(_pack_and_unpack(restarted_state), event)
        assert (again, restarted_state) == (outputs, state_without_restart)


def _pack_and_unpack(state: GroupState | None) -> GroupState | None:
    bucket = Bucket()
    bucket.get("g").state = state
    bucket.commit("g")
    return Bucket(bucket.pack()).get("g").state
