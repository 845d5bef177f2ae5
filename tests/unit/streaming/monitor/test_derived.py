"""Derived groups (known only from member events): each event that changes the group starts a rebalance, as in Kafka."""

import pytest

from assignors.errors import BadInput
from streaming.monitor.group import ContradictoryTopic, apply
from streaming.protocols.vocabulary import InconsistentGroupProtocol
from streaming.records.diffs import Cause
from streaming.records.events import (
    MAX_INT32,
    MAX_PARTITIONS,
    Evidence,
    MemberJoined,
    PartitionsChanged,
    SubscriptionChanged,
    TopicMetadata,
)
from tests.support.histories import Log, assignments, change, check_diff_algebra, diffs, partitions_after, play, sample

COOPERATIVE = {"assignors": ["cooperative-sticky"]}


def test_each_event_of_an_eager_group_is_one_round(log: Log) -> None:
    events = [log.topics(t=3), log.join("c1"), log.join("c2"), log.leave("c2", reason="closed"), log.leave("c1")]
    state, outputs = play(events)
    first, joined, left, empty = diffs(outputs)
    assert first == sample()
    assert joined.members == {
        "c1": change(owned={"t": [0, 1, 2]}, revoked={"t": [2]}, kept={"t": [0, 1]}),
        "c2": change(assigned={"t": [2]}),
    }
    assert (joined.generation, joined.round, joined.moved) == (2, 1, 1)
    assert left.members == {
        "c1": change(owned={"t": [0, 1]}, assigned={"t": [2]}, kept={"t": [0, 1]}),
        "c2": change(owned={"t": [2]}, revoked={"t": [2]}, present=False),
    }
    evidence = Evidence(source="test", reason="closed", member_ids=["c2"], kind="member.left")
    assert left.cause == Cause(kind="member.left", member_ids=["c2"], evidence=[evidence])
    assert (empty.generation, empty.assignor, empty.unassigned) == (4, None, {})
    assert empty.members == {"c1": change(owned={"t": [0, 1, 2]}, revoked={"t": [0, 1, 2]}, present=False)}
    assert assignments(outputs)[-1].assignment is not None
    assert (state.members, state.generation) == ((), 4)
    # Partitions move if another member than their last owner gets them.
    assert [diff.moved for diff in diffs(play([log.join("c3")], state)[1])] == [3]
    assert [diff.moved for diff in diffs(play([log.join("c1")], state)[1])] == [0]


def test_cooperative_rounds_follow_until_none_revokes(log: Log) -> None:
    """The published walkthrough: c3 joins two members, each of which owns three partitions of topic p."""
    events = [log.topics(p=6), log.join("c1", "p", **COOPERATIVE), log.join("c2", "p", **COOPERATIVE)]
    state, _ = play(events)
    _, outputs = play([log.join("c3", "p", **COOPERATIVE)], state)
    first, second = diffs(outputs)
    assert partitions_after(first) == {"c1": {"p": [0, 1]}, "c2": {"p": [3, 4]}, "c3": {}}
    assert partitions_after(second) == {"c1": {"p": [0, 1]}, "c2": {"p": [3, 4]}, "c3": {"p": [2, 5]}}
    assert first.unassigned == {"p": [2, 5]}
    assert second.unassigned == {}
    assert (first.moved, second.moved) == (0, 2)
    assert (first.generation, first.round, second.generation, second.round) == (4, 1, 5, 2)
    assert second.cause == first.cause
    assert outputs[0].id != outputs[1].id


def test_eager_client_with_cooperative_sticky_gives_up_all() -> None:
    """A client with [cooperative-sticky, range] runs EAGER, so its JoinGroup lists no owned partitions."""
    mixed_assignors = {"assignors": ["cooperative-sticky", "range"]}
    log = Log()
    _, outputs = play([log.topics(t=4), log.join("c1", **mixed_assignors), log.join("c2", **mixed_assignors)])
    assert [(diff.assignor, diff.round) for diff in diffs(outputs)] == [("cooperative-sticky", 1)] * 2
    assert diffs(outputs)[-1].unassigned == {}


def test_cooperative_unsubscribe_causes_no_second_round(log: Log) -> None:
    state, _ = play([log.topics(a=1, b=1), log.join("c1", "a", "b", **COOPERATIVE)])
    _, outputs = play([log.subscribe("c1", "a")], state)
    (only_diff,) = diffs(outputs)
    assert only_diff.members == {"c1": change(owned={"a": [0], "b": [0]}, revoked={"b": [0]}, kept={"a": [0]})}


def test_kip_848_revokes_before_it_assigns_within_one_epoch(log: Log) -> None:
    consumer = {"group_protocol": "consumer"}
    state, _ = play([log.topics(t=4), log.join("c1", **consumer)])
    _, outputs = play([log.join("c2", **consumer)], state)
    first, second = diffs(outputs)
    assert (first.protocol, first.assignor, first.generation) == ("consumer", "uniform", None)
    assert (first.group_epoch, first.round, second.group_epoch, second.round) == (2, 1, 2, 2)
    assert len(first.unassigned["t"]) == 2
    assert first.members["c2"] == change()
    assert second.members["c2"] == change(assigned=first.unassigned)
    assert second.moved == 2


def test_kip_848_assigns_a_leavers_partitions_at_once(log: Log) -> None:
    consumer = {"group_protocol": "consumer", "assignors": ["range"]}
    state, _ = play([log.topics(t=4), log.join("c1", **consumer), log.join("c2", **consumer)])
    _, outputs = play([log.leave("c1")], state)
    (only_diff,) = diffs(outputs)
    assert only_diff.assignor == "range"
    assert partitions_after(only_diff) == {"c2": {"t": [0, 1, 2, 3]}, "c1": {}}


def test_consumer_members_convert_a_classic_group_and_back(log: Log) -> None:
    joins = [log.topics(t=4), log.join("c1"), log.join("c2", group_protocol="consumer")]
    _, outputs = play([*joins, log.leave("c2")])
    assert [(diff.protocol, diff.assignor, diff.generation, diff.group_epoch) for diff in diffs(outputs)] == [
        ("classic", "range", 1, None),
        ("consumer", "uniform", None, 2),
        ("consumer", "uniform", None, 2),
        ("classic", "range", 3, None),
    ]


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        ([[], []], "range"),
        ([["roundrobin"], ["roundrobin", "range"]], "roundrobin"),
        ([["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin", "range"]], "roundrobin"),
        ([["sticky", "range"], ["range"], []], "range"),
    ],
)
def test_assignor_is_chosen_by_the_votes_of_the_members(log: Log, lists: list[list[str]], chosen: str) -> None:
    events = [log.join(f"c{position}", assignors=names) for position, names in enumerate(lists)]
    assert diffs(play([log.topics(t=1), *events])[1])[-1].assignor == chosen


def test_member_without_common_assignor_is_refused(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.join("c1", assignors=["range"])])
    with pytest.raises(InconsistentGroupProtocol, match=r"c1: range; c2: sticky"):
        apply(state, log.join("c2", assignors=["sticky"]))


def test_a_repeated_join_with_the_same_metadata_changes_nothing(log: Log) -> None:
    state, _ = play([log.topics(a=1, b=1), log.join("c1", "a", "b", rack_id="r", assignors=["range"])])
    _, outputs = play([log.join("c1", "b", "a", rack_id="r", assignors=["range"], generation=9)], state)
    assert outputs == []


@pytest.mark.parametrize("fields", [{"rack_id": "r2"}, {"assignors": ["roundrobin"]}])
def test_a_join_with_other_metadata_is_a_rebalance(log: Log, fields: dict[str, object]) -> None:
    state, _ = play([log.topics(t=1), log.join("c1")])
    (only_diff,) = diffs(play([log.join("c1", **fields)], state)[1])
    assert only_diff.cause.kind == "member.joined"


def test_static_member_returns_under_new_id_without_rebalance(log: Log) -> None:
    state, _ = play([log.topics(t=2), log.join("a-1", group_instance_id="a"), log.join("c")])
    state, outputs = play([log.join("a-2", group_instance_id="a")], state)
    assert diffs(outputs) == []
    (latest,) = assignments(outputs)
    assert latest.assignment.members == {"a-2": {"t": [0]}, "c": {"t": [1]}}
    assert latest.assignment.generation == 2
    _, outputs = play([log.leave("a-2")], state)
    assert diffs(outputs)[0].members["a-2"] == change(
        owned={"t": [0]}, revoked={"t": [0]}, present=False, group_instance_id="a"
    )


def test_static_member_with_other_topics_rebalances(log: Log) -> None:
    state, _ = play([log.topics(t=2, u=1), log.join("a-1", group_instance_id="a")])
    _, outputs = play([log.join("a-2", "t", "u", group_instance_id="a")], state)
    (only_diff,) = diffs(outputs)
    assert only_diff.members == {
        "a-2": change(owned={"t": [0, 1]}, assigned={"u": [0]}, kept={"t": [0, 1]}, group_instance_id="a")
    }


def test_a_static_member_leaves_by_its_instance_id(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.join("a-1", group_instance_id="a")])
    _, outputs = play([log.leave("unknown", group_instance_id="a")], state)
    assert diffs(outputs)[0].cause.member_ids == ["a-1"]


def test_claims_of_a_new_member_exclude_owned_partitions(log: Log) -> None:
    state, _ = play([log.topics(t=3), log.join("c1", owned={"t": [0, 1]}, generation=4)])
    _, outputs = play([log.join("c2", owned={"t": [1, 2]}, generation=4)], state)
    (only_diff,) = diffs(outputs)
    assert only_diff.generation == 6
    # c1 got all three partitions, so c2's claim is empty before the round.
    assert only_diff.members["c2"] == change(assigned={"t": [2]})


def test_joining_member_keeps_the_partitions_that_it_declares(log: Log) -> None:
    _, outputs = play([log.topics(t=2), log.join("c1", assignors=["sticky"], owned={"t": [1]}, generation=7)])
    (only_diff,) = diffs(outputs)
    assert only_diff.generation == 8
    assert only_diff.members == {"c1": change(owned={"t": [1]}, assigned={"t": [0]}, kept={"t": [1]})}


def test_changed_partition_counts_give_rounds(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.join("c1"), log.join("c2")])
    state, grown = play([log.topics(t=4, other=9)], state)
    (diff,) = diffs(grown)
    assert diff.cause == Cause(
        kind="topic.partitions_changed",
        evidence=[Evidence(source="test", reason="t: 1 → 4 partitions", kind="topic.partitions_changed")],
    )
    assert partitions_after(diff) == {"c1": {"t": [0, 1]}, "c2": {"t": [2, 3]}}
    state, outputs_of_removed_partitions = play([log.topics(t=1)], state)
    (diff,) = diffs(outputs_of_removed_partitions)
    assert partitions_after(diff) == {"c1": {"t": [0]}, "c2": {}}
    _, gone = play([log.topics(t=0)], state)
    assert partitions_after(diffs(gone)[0]) == {"c1": {}, "c2": {}}
    assert diffs(gone)[0].unassigned == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"assignors": ["sticky"]},
        {"assignors": ["cooperative-sticky"]},
        {"group_protocol": "consumer", "assignors": ["uniform"]},
        {"group_protocol": "consumer", "assignors": ["range"]},
    ],
)
def test_topic_recreated_smaller_takes_partitions_from_owners(log: Log, fields: dict[str, object]) -> None:
    state, _ = play([log.topics(t=6), log.join("c1", **fields), log.join("c2", **fields)])
    state, outputs = play([log.topics(t=2)], state)
    after = partitions_after(diffs(outputs)[-1])
    assert sorted(p for share in after.values() for p in share.get("t", ())) == [0, 1]
    for diff in diffs(outputs):
        check_diff_algebra(diff)
    # A claim for a partition that does not exist or has another owner is ignored.
    state, outputs = play([log.join("c3", owned={"t": [0, 5]}, generation=99, **fields)], state)
    assert diffs(outputs)
    for diff in diffs(outputs):
        check_diff_algebra(diff)


def test_event_without_a_change_gives_no_diff(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.join("c1")])
    events = [
        log.topics(t=1),
        log.topics(other=3),
        log.beat("c1"),
        log.beat("nobody"),
        log.acknowledge("c1", owned={"t": [0]}, generation=1),
        log.leave("nobody"),
        log.fence("nobody"),
        log.subscribe("nobody", "t"),
        log.subscribe("c1", "t"),
    ]
    after, outputs = play(events, state)
    assert outputs == []
    assert (after.members, after.generation) == (state.members, state.generation)


def test_backward_timestamps_have_no_effect(log: Log) -> None:
    events = [log.topics(t=2), log.join("c1"), log.join("c2")]
    log.count = 0
    late = log.leave("c1")
    _, outputs = play([*events, type(late)(late.source, "late", late.data)])
    assert [diff.timestamp for diff in diffs(outputs)] == [2000, 3000, 1000]


def test_deleted_group_loses_its_partitions_and_starts_over(log: Log) -> None:
    join = log.join("c1")
    state, _ = play([log.topics(t=1), join])
    state, outputs = play([log.delete(reason="expired")], state)
    (diff,) = diffs(outputs)
    assert diff.cause.kind == "group.deleted"
    assert diff.members == {"c1": change(owned={"t": [0]}, revoked={"t": [0]}, present=False)}
    assert assignments(outputs)[-1].assignment is None
    assert play([join], state)[1] == []
    _, outputs = play([log.join("c2")], state)
    assert diffs(outputs)[0].generation == 1


def test_deleting_an_unknown_group_writes_a_tombstone_only() -> None:
    _, outputs = play([Log().delete()])
    assert [type(output).__name__ for output in outputs] == ["AssignmentOutput"]


def test_forgotten_group_has_no_state_unless_a_member_rejoined(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.join("c1")])
    assert play([log.delete(forget=True)], state)[1] == []
    empty, _ = play([log.leave("c1")], state)
    assert play([log.delete(forget=True)], empty)[0] is None


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_generations_start_over_past_kafkas_int32(log: Log, assignor: str) -> None:
    events = [
        log.topics(t=2),
        log.join("c1", assignors=[assignor], generation=MAX_INT32 - 1),
        log.join("c2", assignors=[assignor]),
        log.delete(),
    ]
    numbers = [diff.generation for diff in diffs(play(events)[1])]
    assert numbers == [MAX_INT32, *([1, 2, 3] if assignor == "cooperative-sticky" else [1, 2])]


def test_more_partitions_than_clusters_hold_are_refused(log: Log) -> None:
    state, _ = play([log.topics(t=MAX_PARTITIONS)])
    with pytest.raises(ContradictoryTopic, match="topics: 2000001 partitions"):
        apply(state, log.topics(u=1))


@pytest.mark.parametrize(
    ("to", "rounds"), [(["a", "b"], 0), (["b", "a"], 0), (["a", "b", "c"], 1), (["a"], 1), (["c"], 1), ([], 1)]
)
def test_different_topics_are_another_subscription(log: Log, to: list[str], rounds: int) -> None:
    state, _ = play([log.topics(a=1, b=1, c=1), log.join("c1", "a", "b")])
    assert len(diffs(play([log.event(SubscriptionChanged, member_id="c1", topics=to)], state)[1])) == rounds
    state, outputs = play([log.event(MemberJoined, member_id="c1", topics=to)], state)
    assert len(diffs(outputs)) == rounds


@pytest.mark.parametrize(("count", "refused"), [(1, True), (2, False), (3, True)])
def test_topic_has_racks_for_all_partitions_or_none(log: Log, count: int, refused: bool) -> None:
    event = log.event(PartitionsChanged, topics={"t": TopicMetadata(partitions=2, racks=[["r"]] * count)})
    if refused:
        with pytest.raises(BadInput, match=r"topics\.t\.racks"):
            apply(None, event)
        return
    (diff,) = diffs(play([event, log.join("c1")])[1])
    assert diff.members["c1"].assigned == {"t": [0, 1]}


@pytest.mark.parametrize("alias", ["a", "t"])
def test_topic_id_of_two_topics_is_refused(alias: str) -> None:
    topic_metadata = TopicMetadata(partitions=1, topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    log = Log()
    state, _ = apply(None, log.event(PartitionsChanged, topics={"s": topic_metadata}))
    with pytest.raises(BadInput, match=rf"topics\.{alias}\.topicId: AAAAAAAAAAAAAAAAAAAAAg is also that of s"):
        apply(state, log.event(PartitionsChanged, topics={alias: topic_metadata}))
    assert apply(state, log.event(PartitionsChanged, topics={"s": topic_metadata}))[1] == ()
