from collections.abc import Callable

import pytest

from streaming.records.episodes import Episode
from streaming.records.events import Evidence
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import episodes

THREE_MEMBERS = ("a@h1#1", "b@h2#1", "c@h3#1")
RESTARTED_MEMBERS = ("a@h1#2", "b@h2#2", "c@h3#2")
PARTITIONS_CHANGED = "topic.partitions_changed"
DELETED = (Evidence(source="metadata", reason="t: 4 → 0 partitions", kind=PARTITIONS_CHANGED),)
COMMITS_ENDED = Evidence(source="offset-commits", reason="r", member_ids=["a@h1#1"], kind="member.fenced")
SUBSCRIBED = Evidence(source="comparison", reason="r", member_ids=["a@h1#1"], kind="member.subscription_changed")
MOVED = Evidence(source="coordinator-log", reason="moved", kind="coordinator.moved")


def started(*ids: str, **options: object) -> DiffBuilder:
    """Return a group of these members whose first episode, the members' joins, has ended."""
    builder = DiffBuilder(**options)  # type: ignore[arg-type]
    builder.join(*(ids or THREE_MEMBERS))
    builder.now += 3_600_000
    return builder


def last(builder: DiffBuilder) -> Episode:
    return episodes("g", builder.diffs)[-1]


def restart_one_by_one(builder: DiffBuilder, *ids: str, seconds: float = 10) -> DiffBuilder:
    for member_id in ids:
        name, _, number = member_id.partition("#")
        builder.leave(member_id, after=seconds).join(f"{name}#{int(number) + 1}", after=seconds)
    return builder


def replace(builder: DiffBuilder, *ids: str) -> DiffBuilder:
    for member_id in ids:
        builder.remove_without_cause(member_id, after=10).join(member_id.replace("#1", "#2"))
    return builder


def leave_by_member_events(builder: DiffBuilder) -> DiffBuilder:
    """Let all three members leave a group that is known only from member events."""
    reported_leaves = tuple(
        Evidence(source="listener", reason="closed", kind="member.left", member_ids=[member_id])
        for member_id in THREE_MEMBERS
    )
    listener_evidence = Evidence(source="listener", reason="as its members report it themselves")
    return builder.round("member.left", gone=THREE_MEMBERS, evidence=(listener_evidence, *reported_leaves))


def storm(builder: DiffBuilder) -> DiffBuilder:
    for number in range(1, 5):
        builder.fence(f"a@h1#{number}", after=20).join(f"a@h1#{number + 1}", after=0.5)
    return builder


def migrate(builder: DiffBuilder) -> DiffBuilder:
    builder.protocol = "consumer"
    return restart_one_by_one(builder, *THREE_MEMBERS)


def change_assignor(builder: DiffBuilder) -> DiffBuilder:
    builder.assignor = "sticky"
    return restart_one_by_one(builder, *THREE_MEMBERS)


def connectors(builder: DiffBuilder) -> DiffBuilder:
    builder.kind = "connect"
    shares = {member_id: {"t": [number, 20 + number]} for number, member_id in enumerate(THREE_MEMBERS)}
    return builder.round("group.observed", who=(), shares=shares)


def delete_connector(builder: DiffBuilder) -> DiffBuilder:
    """Delete a connector: its tasks are revoked in one round and not assigned in the next."""
    builder.kind = "connect"
    shares = {**builder.members, THREE_MEMBERS[2]: {"t": [8, 9, 10]}}
    builder.round("group.observed", who=(), shares=shares, unassigned={"t": [11]})
    return builder.round("group.observed", who=(), shares=shares, number=2)


TIMEOUT = "explicit `LeaveGroup` request; client reason: consumer poll timeout has expired."
#: The story of each history, up to its date; the history; the kind of its last episode.
CASES: list[tuple[str, Callable[[], DiffBuilder], str]] = [
    ("Scaled out from 3 to 4 members (d joined)", lambda: started().join("d@h4#1"), "scale-out"),
    ("Scaled in from 3 to 1 member (a and b left)", lambda: started().leave("a@h1#1", "b@h2#1"), "scale-in"),
    ("Shut down (all 3 members left)", lambda: started().leave(*THREE_MEMBERS), "shutdown"),
    ("Cause unknown (a, b and c departed)", lambda: started().remove_without_cause(*THREE_MEMBERS), "unknown"),
    ("Rolling restart of 3 members", lambda: restart_one_by_one(started(), *THREE_MEMBERS), "rolling-restart"),
    ("Restart of all 3 members at once", lambda: started().leave(*THREE_MEMBERS).join(*RESTARTED_MEMBERS), "restart"),
    ("Restart of a", lambda: restart_one_by_one(started(), "a@h1#1"), "restart"),
    ("Probably a restart of a", lambda: started().remove_without_cause("a@h1#1").join("a@h1#2"), "restart"),
    ("Crash of a", lambda: started().fence("a@h1#1"), "crash"),
    # It ends, and the member comes back.
    ("Crash of a (came back)", lambda: started().fence("a@h1#1").join("a@h1#2"), "crash"),
    # It is back before its session ends.
    ("Crash of a (came back)", lambda: started().join("a@h1#2").fence("a@h1#1"), "crash"),
    # One is gone, nobody knows how.
    ("Cause unknown (a departed)", lambda: started().remove_without_cause("a@h1#1"), "unknown"),
    # One is gone without a reason.
    ("Cause unknown (a departed)", lambda: started().round("member.left", gone=("a@h1#1",)), "unknown"),
    (
        "Probably a crash of a",
        lambda: started().round("member.fenced", gone=("a@h1#1",), evidence=(COMMITS_ENDED,)),
        "crash",
    ),
    ("Cause unknown (x joined, a left)", lambda: started().leave("a@h1#1").join("x@h9#1"), "unknown"),
    ("Removed a after max.poll.interval.ms", lambda: started().leave("a@h1#1", reason=TIMEOUT), "poll-timeout"),
    ("Rebalanced 8 times in 1 minute because of a (4 times, about every 20 s)", lambda: storm(started()), "storm"),
    (
        "Changed subscriptions",
        lambda: started().round("member.subscription_changed", who=("a@h1#1",)),
        "subscription-change",
    ),
    # A subscription, which the leader sees as new topics.
    (
        "Changed subscriptions",
        lambda: started().round(PARTITIONS_CHANGED, evidence=(SUBSCRIBED,)),
        "subscription-change",
    ),
    ("Changed partition counts", lambda: started().round("topic.partitions_changed"), "partition-growth"),
    # A deleted topic, which the second round's cause names.
    (
        "Lost the partitions of a deleted topic",
        lambda: started().round("group.observed").round(PARTITIONS_CHANGED, evidence=DELETED, number=2),
        "topic-deleted",
    ),
    # A deleted topic, and a rebalance without counts.
    (
        "Lost the partitions of a deleted topic",
        lambda: started().round(PARTITIONS_CHANGED, evidence=DELETED).round(PARTITIONS_CHANGED),
        "topic-deleted",
    ),
    ("Changed the assignor to sticky", lambda: change_assignor(started()), "assignor-change"),
    ("Migrated to the consumer protocol", lambda: migrate(started()), "protocol-migration"),
    ("Moved to another coordinator", lambda: started().round("group.observed", evidence=(MOVED,)), "coordinator-move"),
    ("Changed connectors or tasks", lambda: connectors(started()), "connector-change"),
    # A connector is deleted.
    ("Changed connectors or tasks", lambda: delete_connector(started()), "connector-change"),
    ("Cause unknown", lambda: started().round("group.observed"), "unknown"),
    ("Probably a rolling restart of 3 members", lambda: replace(started(), *THREE_MEMBERS), "rolling-restart"),
    (
        "Cause unknown (a, b and c departed and came back)",
        lambda: started().remove_without_cause(*THREE_MEMBERS).join(*RESTARTED_MEMBERS),
        "unknown",
    ),
    (
        "Probably a restart of all 3 members at once",
        lambda: leave_by_member_events(started()).join(*RESTARTED_MEMBERS),
        "restart",
    ),
    (
        "Probably removed a after max.poll.interval.ms (left and came back)",
        lambda: started(protocol="consumer").leave("a@h1#1").join("a@h1#1"),
        "poll-timeout",
    ),
    (
        "Cause unknown (a departed and came back)",
        lambda: started(protocol="consumer").remove_without_cause("a@h1#1").join("a@h1#1"),
        "unknown",
    ),
    # The session of a client ends, and it is back (KIP-848).
    ("Crash of a (came back)", lambda: started(protocol="consumer").fence("a@h1#1").join("a@h1#1"), "crash"),
    # A later round says why.
    (
        "Changed partition counts",
        lambda: started().round("group.observed").round("topic.partitions_changed", number=2),
        "partition-growth",
    ),
    ("Cause unknown (d joined, d left)", lambda: started().join("d@h4#1").leave("d@h4#1"), "unknown"),
    ("Crash of d", lambda: started().join("d@h4#1").fence("d@h4#1"), "crash"),
    (
        "Probably a rolling restart of 2 of 3 members",
        lambda: (
            started("rdkafka@h1#1", "rdkafka@h2#1", "rdkafka@h3#1")
            .leave("rdkafka@h1#1")
            .join("rdkafka@h7#1")
            .leave("rdkafka@h2#1")
            .join("rdkafka@h8#1")
        ),
        "rolling-restart",
    ),
]


@pytest.mark.parametrize(("story", "make", "kind"), CASES, ids=[case[0] for case in CASES])
def test_history_gives_this_story_and_kind(story: str, make: Callable[[], DiffBuilder], kind: str) -> None:
    builder = make()
    records = episodes("g", builder.diffs)
    assert [record.kind for record in records] == ["first-start", kind]
    assert records[-1].story.partition(", 2023")[0] == story
    assert records[-1].sure is not story.startswith(("Probably", "Cause unknown"))
    assert records[-1].rounds == [diff_id for diff_id, _ in builder.diffs[1:]]


def pods(replica_set: str, *names: str) -> tuple[str, ...]:
    """Return the ids of members that belong to one ReplicaSet, each in its own pod."""
    return tuple(f"pay-{replica_set}-{name}@h{name}#1" for name in names)


OLD_PODS = pods("7c9d8f6b5", "b2kfx", "9xvlz", "tq4mz")
NEW_PODS = pods("6f8b9d7c4", "mm2xk", "q9zwd", "f5kvt")
BLUE_MEMBERS = ("blue-1@h1#1", "blue-2@h2#1")


def surge_rollout(builder: DiffBuilder) -> DiffBuilder:
    for new, old in zip(NEW_PODS, OLD_PODS, strict=True):
        builder.join(new, after=10).leave(old, after=2)
    return builder


@pytest.mark.parametrize(
    ("make", "kind", "story"),
    [
        (lambda: surge_rollout(started(*OLD_PODS)), "surge", "Rolling update of 3 members, each after its"),
        (
            lambda: started(*OLD_PODS).join(*NEW_PODS, after=10).leave(*OLD_PODS, after=60),
            "fleet-replaced",
            "Replaced all 3 members (3 others joined first), ",
        ),
        (
            lambda: started(*BLUE_MEMBERS).join("green-1@h3#1", "green-2@h4#1").leave(*BLUE_MEMBERS),
            "fleet-replaced",
            "Replaced all 2 members (2 others joined first), ",
        ),
        (
            lambda: started(*OLD_PODS).leave(*OLD_PODS).join(*NEW_PODS),
            "recreate",
            "Recreated all 3 members (all left, then all joined), ",
        ),
        (
            lambda: restart_one_by_one(started(*OLD_PODS), *OLD_PODS),
            "rolling-restart",
            "Rolling restart of 3 members, ",
        ),
        (
            lambda: started(*OLD_PODS).join(*NEW_PODS, after=10).fence(*OLD_PODS, after=60),
            "crash",
            "Probably a crash of pay-6f8b9d7c4-mm2xk, ",
        ),
        (lambda: started(*OLD_PODS).join(*NEW_PODS[:1], after=10).leave(*OLD_PODS[:1]), "restart", "Restart of "),
        (
            lambda: started(*BLUE_MEMBERS).join("x@h3#1", "y@h4#1").leave(*BLUE_MEMBERS),
            "unknown",
            "Cause unknown (x and y joined, blue-1 and blue-2 left), ",
        ),
    ],
)
def test_order_of_joins_and_leaves_gives_rollout_kind(make: Callable[[], DiffBuilder], kind: str, story: str) -> None:
    episode = last(make())
    assert (episode.kind, episode.story[: len(story)]) == (kind, story)


def test_streams_member_without_leave_stopped_or_crashed(builder: DiffBuilder) -> None:
    builder.kind = "streams"
    episode = last(builder.fence("a@h1#1"))
    assert (episode.kind, episode.sure) == ("unknown", False)
    assert episode.story.startswith("Cause unknown (a stopped or crashed: Kafka Streams does not leave the group), ")


def test_first_joins_are_a_first_start_episode() -> None:
    (record,) = episodes("g", DiffBuilder().join("a@h#1").join("b@h#1").diffs)
    assert (record.kind, record.sure, record.members.joined) == ("first-start", True, ["a@h#1", "b@h#1"])


def test_first_observation_midway_gives_an_unknown_kind() -> None:
    first_observation = Evidence(source="comparison", reason="first observation, at generation 7")
    builder = DiffBuilder().round("member.joined", joined=THREE_MEMBERS, evidence=(first_observation,))
    (record,) = episodes("g", builder.diffs)
    assert (record.kind, record.sure, record.members.joined, record.members.before) == ("unknown", False, [], 3)
    (record,) = episodes("g", restart_one_by_one(builder, *THREE_MEMBERS).diffs)
    assert (record.kind, record.sure) == ("rolling-restart", True)


def test_a_start_that_crashes_at_once_is_a_crash() -> None:
    first, record = episodes("g", DiffBuilder().join("a@h#1").fence("a@h#1").diffs)
    assert (first.kind, record.kind, record.sure) == ("first-start", "crash", True)


def test_all_members_killed_in_turn_and_restarted(builder: DiffBuilder) -> None:
    for member_id in THREE_MEMBERS:
        builder.fence(member_id, after=10).join(member_id.replace("#1", "#2"), after=10)
    assert (last(builder).kind, last(builder).sure) == ("rolling-restart", False)


def test_members_killed_and_back_before_sessions_end_crashed() -> None:
    builder = started(protocol="consumer").join("a@h1#2", "b@h2#2", "c@h3#2").fence("a@h1#1").fence("b@h2#1", "c@h3#1")
    assert (last(builder).kind, last(builder).sure) == ("crash", False)


def test_crash_with_missing_evidence_is_unsure() -> None:
    for builder in (
        started().fence("a@h1#1").remove_without_cause("b@h2#1"),
        started().fence("a@h1#1").remove_without_cause("b@h2#1", "c@h3#1"),
        started().fence("a@h1#1").remove_without_cause("b@h2#1").join("a@h1#2", "b@h2#2"),
    ):
        record = last(builder)
        assert (record.kind, record.sure) == ("crash", False)
        assert record.evidence[-1].reason == "no evidence shows how some of the members departed"


def test_unknown_kind_states_why() -> None:
    evidence = last(started().leave("a@h1#1").join("x@h9#1")).evidence[-1]
    assert evidence == Evidence(
        source="episode", reason="1 joined and 1 departed; no evidence shows which member replaced which"
    )


@pytest.mark.parametrize(
    "reason",
    [
        "failed to transition from epoch 3 within 300000ms",
        "did not join again in time",
        "max.poll.interval.ms exceeded",
    ],
)
def test_fence_with_a_poll_reason_is_a_poll_timeout(reason: str) -> None:
    assert last(started().fence("a@h1#1", reason=reason)).kind == "poll-timeout"
