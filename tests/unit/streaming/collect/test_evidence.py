"""Evidence from offset commits, and evidence about probing rebalances."""

from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from streaming.collect.evidence import UNSURE_CAUSE, departure_evidence, probing_rebalance, unexplained_evidence
from streaming.collect.partition_owners import PartitionOwners
from streaming.records.events import Evidence, GroupObserved, ObservedMember

#: With the brokers' defaults sessions are at least 45 s, and heartbeats at most 15 s apart.
DEFAULT_SESSION_MS = 30_000


def view(
    at: int, shares: dict[str, list[int]], number: int = 1, *, protocol: Any = "classic", **fields: Any
) -> GroupObserved:
    if protocol == "classic":
        fields = {"session_timeout_ms": 10_000} | fields
    members = [
        ObservedMember(member_id=member, topics=["t"], assigned={"t": partitions}, **fields)
        for member, partitions in shares.items()
    ]
    count = {"generation" if protocol == "classic" else "group_epoch": number}
    return GroupObserved(group_id="g", timestamp=at, members=members, group_protocol=protocol, **count)


def owners(snapshot: GroupObserved, *commits: tuple[int, int]) -> PartitionOwners:
    """Return the owners of the partitions of ``snapshot``, after commits (partition, time)."""
    owners = PartitionOwners()
    owners.observe(snapshot)
    for partition, committed in commits:
        owners.commit("t", partition, committed, 7)
    return owners


def ended(
    last_commit: int, departed_at: int, max_silence_ms: int | None = DEFAULT_SESSION_MS, **fields: Any
) -> tuple[str | None, str] | None:
    """Return kind and reason of the evidence about member b, which commits until ``last_commit``, then departs."""
    before, now = view(1000, {"a": [0], "b": [1]}, **fields), view(departed_at, {"a": [0, 1]}, 2, **fields)
    evidence = departure_evidence(before, now, owners(before, (1, last_commit)), max_silence_ms)
    assert all(item.member_ids == ["b"] for item in evidence)
    return (evidence[0].kind, evidence[0].reason) if evidence else None


CONSUMER: dict[str, Any] = {"protocol": "consumer"}
#: A member of the classic protocol in a group that migrates names its session timeout.
MIGRATING: dict[str, Any] = {"protocol": "consumer", "session_timeout_ms": 10_000, "max_silence_ms": None}


@pytest.mark.parametrize(
    ("silence_ms", "fields", "expected"),
    [
        (0, {}, "member.left"),
        (6666, {}, "member.left"),
        (6667, {}, UNSURE_CAUSE),  # the last heartbeat may be up to a third of the session timeout before the commit
        (9999, {}, UNSURE_CAUSE),
        (10_000, {}, "member.fenced"),
        (20_000, {}, "member.fenced"),
        (1, {"max_silence_ms": None}, "member.left"),
        (29_999, CONSUMER, "member.left"),
        (30_000, CONSUMER, UNSURE_CAUSE),
        (44_917, CONSUMER, UNSURE_CAUSE),  # observed for a killed member that sent a heartbeat shortly before
        (45_100, CONSUMER, UNSURE_CAUSE),
        (500_000, CONSUMER, UNSURE_CAUSE),
        (1, CONSUMER | {"max_silence_ms": None}, UNSURE_CAUSE),  # the brokers' settings are unknown
        (6000, MIGRATING, "member.left"),
        (7000, MIGRATING, UNSURE_CAUSE),
    ],
)
def test_last_commit_age_decides_if_a_member_left(silence_ms: int, fields: dict[str, Any], expected: str) -> None:
    departure = ended(2000, 2000 + silence_ms, **fields)
    assert departure is not None
    assert departure[0] == expected


def test_idle_consumer_gives_no_evidence_of_its_departure() -> None:
    assert ended(2000, 22_001) is None


def test_unknown_cause_is_stated() -> None:
    assert ended(2000, 46_917, protocol="consumer") == (
        UNSURE_CAUSE,
        "last offset commit 44917 ms before it was gone: can't tell a crash from a leave",
    )


def test_member_with_partitions_to_release_may_be_fenced() -> None:
    departure = ended(2000, 2001, protocol="consumer", pending_revocation={"t": [2]})
    assert departure is not None
    assert departure[0] == UNSURE_CAUSE
    assert departure[1].endswith("it still had partitions to give up: can't tell a crash from a leave")


def test_departure_evidence_uses_the_latest_commit() -> None:
    before, now = view(1000, {"b": [0, 1, 2]}), view(20_000, {}, 2)
    holdings = owners(before, (0, 19_000), (1, 3000), (2, 12_000))
    assert holdings.last_commit(before.members[0]) == 19_000
    assert [item.kind for item in departure_evidence(before, now, holdings, None)] == ["member.left"]


def test_last_commit_counts_only_the_owned_partitions() -> None:
    holdings = PartitionOwners()
    holdings.commit("t", 0, 500, 7)  # no member owns partition 0 yet
    holdings.observe(view(1000, {"a": [0]}))
    [a] = view(1000, {"a": [0]}).members
    assert holdings.last_commit(a) is None
    holdings.commit("t", 0, 999, 7)  # commit by the partition's previous owner
    assert holdings.last_commit(a) is None
    holdings.commit("t", 0, 1500, 7)
    holdings.commit("t", 0, None)  # a tombstone is not a commit
    assert holdings.last_commit(a) is None
    holdings.commit("t", 0, 1500, 7)
    holdings.observe(view(2000, {"a": [0]}, 2))  # member a keeps partition 0
    assert holdings.last_commit(a) == 1500
    holdings.observe(view(3000, {"b": [0]}, 3))  # partition 0 moves to member b
    assert holdings.last_commit(view(3000, {"b": [0]}).members[0]) is None
    assert holdings.last_commit(a) is None


def test_unread_generation_in_between_is_not_evidence() -> None:
    before = view(1000, {"b": [0]})
    holdings = owners(before, (0, 2000))
    assert departure_evidence(before, view(2500, {}, 3), holdings, None) == []
    assert len(departure_evidence(before, view(2500, {}, 2), holdings, None)) == 1


def test_static_member_with_a_new_id_has_not_left() -> None:
    before, now = (view(1000 * n, {f"b-{n}": [0]}, n, group_instance_id="i") for n in (1, 2))
    assert departure_evidence(before, now, owners(before, (0, 1500)), None) == []


def test_broker_evidence_precedes_commit_evidence() -> None:
    def evidence(member: str, ended: str | None) -> Evidence:
        return Evidence(source="s", reason="r", member_ids=[member], kind=ended)

    inferred_evidence = [evidence("a", "member.left"), evidence("b", None), evidence("c", None)]
    logged = [evidence("b", "member.fenced"), evidence("c", "member.joined")]

    assert unexplained_evidence(inferred_evidence, logged) == [inferred_evidence[0], inferred_evidence[2]]


def test_commits_give_no_evidence_about_streams_tasks() -> None:
    member = ObservedMember(member_id="m", topics=["t"], assigned={"0": [0]})
    snapshot = GroupObserved(group_id="g", timestamp=1, members=[member], group_epoch=1, group_protocol="streams")
    holdings = owners(snapshot)
    holdings.commit("0", 0, 5, 7)
    assert holdings.last_commit(member) is None


def scheduled_snapshot(at: int, next_rebalance_ms: int | UnsetType = UNSET) -> GroupObserved:
    member = ObservedMember(member_id="m", topics=["t"], assigned={}, next_rebalance_ms=next_rebalance_ms)
    return GroupObserved(group_id="g", timestamp=at, members=[member], generation=1, kind="streams")


def test_a_scheduled_generation_is_a_probing_rebalance() -> None:
    assert probing_rebalance(scheduled_snapshot(1000, 5000), scheduled_snapshot(5000)) == [
        Evidence(
            source="assignment-info",
            reason="probing rebalance: scheduled for 5000 ms, when warm-up tasks may have caught up",
            member_ids=["m"],
            kind="streams.probing_rebalance",
        )
    ]


@pytest.mark.parametrize("next_rebalance_ms", [UNSET, 0, 5001])
def test_unscheduled_generation_is_not_a_probing_rebalance(next_rebalance_ms: int | UnsetType) -> None:
    assert probing_rebalance(scheduled_snapshot(1000, next_rebalance_ms), scheduled_snapshot(5000)) == []
