"""Downtime of moved partitions, from offset commits; ``test_commits`` covers members that commits prove alive."""

from typing import Any

import pytest

from streaming.collect.partition_owners import CoordinatorActivity, PartitionOwners
from streaming.records.events import MAX_TIMESTAMP, GroupObserved, ObservedMember, Stop


def view(at: int, number: int, shares: dict[str, list[int]], protocol: str | None = "range") -> GroupObserved:
    members = [
        ObservedMember(member_id=member, topics=["t"], assigned={"t": partitions} if partitions else {})
        for member, partitions in shares.items()
    ]
    is_classic = protocol != "uniform"
    kind: dict[str, Any] = (
        {"generation": number} if is_classic else {"group_epoch": number, "group_protocol": "consumer"}
    )
    return GroupObserved(group_id="g", timestamp=at, members=members, protocol=protocol, **kind)


def stop(partitions: list[int], before: int, committed: int | None = None, **after: Any) -> Stop:
    """Return a ``Stop`` of these partitions; ``committed``: the committed offset of each of them, None if unknown."""
    offsets = {} if committed is None else {"committed": {"t": {str(number): committed for number in partitions}}}
    return Stop(partitions={"t": partitions}, resumed_before=before, **offsets, **after)


def committed(owners: PartitionOwners, *commits: tuple[int, int, int]) -> list[bool]:
    """Commit each (partition, time, offset); return for each whether its partition is proven to be consumed again."""
    return [
        owners.commit("t", partition, at, offset, min_sent_at=at if 0 <= at <= MAX_TIMESTAMP else None)
        for partition, at, offset in commits
    ]


def holding(protocol: str | None = "range") -> PartitionOwners:
    """Return the owners of two partitions, each with two commits; only the second commit proves consumption."""
    partition_owners = PartitionOwners()
    partition_owners.observe(view(1000, 1, {"a": [0], "b": [1]}, protocol))
    assert committed(partition_owners, (0, 2000, 10), (1, 2100, 10)) == [False, False]
    assert committed(partition_owners, (0, 3000, 20), (1, 3100, 20)) == [True, True]
    assert partition_owners.resumed() == {1: [stop([0], 3000), stop([1], 3100)]}  # a and b have begun to consume
    return partition_owners


@pytest.mark.parametrize("protocol", ["range", None, "my-own"])
def test_commit_after_an_eager_round_bounds_every_partition(protocol: str | None) -> None:
    owners = holding(protocol)
    owners.observe(view(4000, 2, {"a": [0], "b": [1]}, protocol))
    assert committed(owners, (0, 4500, 20)) == [False]
    assert committed(owners, (0, 5000, 25), (1, 5000, 25), (0, 6000, 30)) == [True, True, False]
    assert owners.resumed() == {2: [stop([0], 5000, 20, stopped_after=3000), stop([1], 5000, 20, stopped_after=3100)]}
    assert owners.resumed() == {}


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "uniform"])
def test_moved_partition_resumes_at_the_commit_of_its_new_owner(protocol: str) -> None:
    owners = holding(protocol)
    owners.observe(view(4000, 2, {"a": [], "b": [1]}, protocol))
    assert committed(owners, (0, 4010, 22)) == [False]  # the previous owner's commit during its revocation
    owners.observe(view(4100, 3, {"a": [], "b": [1, 0]}, protocol))
    assert committed(owners, (1, 5000, 90), (0, 5000, 25)) == [False, True]
    assert owners.resumed() == {3: [stop([0], 5000, 22, stopped_after=4010)]}


def test_later_round_without_the_partition_has_no_effect() -> None:
    owners = holding("uniform")
    owners.observe(view(4000, 2, {"b": [0, 1]}, "uniform"))
    owners.observe(view(4100, 3, {"b": [0, 1], "c": []}, "uniform"))
    assert committed(owners, (0, 5000, 25)) == [True]
    assert owners.resumed() == {2: [stop([0], 5000, 20, stopped_after=3000)]}


def test_static_member_with_a_new_id_had_stopped() -> None:
    owners = holding()
    owners.observe(view(4000, 1, {"a-2": [0], "b": [1]}))
    assert committed(owners, (1, 5000, 25), (0, 5000, 25)) == [False, True]
    assert owners.resumed() == {1: [stop([0], 5000, 20, stopped_after=3000)]}


def test_two_rounds_without_a_commit_between_are_one_stop() -> None:
    owners = holding()
    owners.observe(view(4000, 2, {"a": [0, 1]}))
    owners.observe(view(4100, 3, {"a": [0], "b": [1]}))
    committed(owners, (0, 5000, 25))
    assert owners.resumed() == {3: [stop([0], 5000, 20, stopped_after=3000)]}


def test_single_earlier_commit_gives_no_stop_time() -> None:
    partition_owners = PartitionOwners()
    partition_owners.observe(view(1000, 1, {"a": [0, 1]}))
    committed(partition_owners, (0, 2000, 10))
    partition_owners.observe(view(3000, 2, {"a": [0, 1]}))
    assert committed(partition_owners, (0, 4000, 11), (1, 4000, 5), (1, 5000, 6)) == [True, False, True]
    assert partition_owners.resumed() == {2: [stop([0], 4000), stop([1], 5000)]}


def test_backward_commit_is_the_new_base() -> None:
    owners = holding()
    owners.observe(view(4000, 2, {"a": [0], "b": [1]}))
    assert committed(owners, (0, 5000, 3), (0, 6000, 3), (0, 7000, 4)) == [False, False, True]


def test_removed_commit_is_no_evidence() -> None:
    owners = holding()
    assert not owners.commit("t", 0, None)
    owners.observe(view(4000, 2, {"a": [0], "b": [1]}))
    assert committed(owners, (0, 5000, 3), (0, 6000, 4)) == [False, True]
    assert owners.resumed() == {2: [stop([0], 6000)]}


@pytest.mark.parametrize("timestamp", [-1, MAX_TIMESTAMP + 1])
def test_time_out_of_range_is_not_evidence(timestamp: int) -> None:
    owners = holding()
    assert committed(owners, (1, timestamp, 30)) == [False]
    owners.observe(view(4000, 2, {"a": [0], "b": [1]}))
    assert committed(owners, (0, timestamp, 99), (1, 5000, 31)) == [False, True]
    assert owners.resumed() == {2: [stop([1], 5000, 30, stopped_after=3100)]}


def test_commits_without_an_owner_count_for_no_member() -> None:
    owners = holding()
    assert not owners.commit("t", 7, 5000, 1)
    owners.observe(view(4000, 2, {}))
    assert committed(owners, (0, 5000, 99)) == [False]


def test_first_commit_after_a_collector_restart_is_no_evidence() -> None:
    """A restarted collector reads an old generation, and commits only from the restart on."""
    partition_owners = PartitionOwners()
    partition_owners.observe(view(1000, 1, {"a": [0], "b": [1]}))
    assert committed(partition_owners, (0, 900_000, 10), (0, 905_000, 20), (0, 910_000, 30)) == [False, False, False]
    partition_owners.observe(view(920_000, 2, {"a": [0], "b": [1]}))
    assert committed(partition_owners, (0, 925_000, 40)) == [True]
    assert partition_owners.resumed() == {2: [stop([0], 925_000, 30, stopped_after=910_000)]}


def test_late_commit_proves_consumption_until_it_was_sent() -> None:
    """A commit that was sent before a broker outage (3.2 s to 33 s) arrives after the outage."""
    owners = holding()
    assert owners.commit("t", 0, 33_000, 25, min_sent_at=3100) is False
    owners.observe(view(33_500, 2, {"a": [0], "b": [1]}))
    assert committed(owners, (0, 34_000, 30)) == [True]
    assert owners.resumed() == {2: [stop([0], 34_000, 25, stopped_after=3100)]}


def test_offsets_set_for_an_empty_group_prove_nothing() -> None:
    owners = holding()
    owners.observe(view(4000, 2, {}))
    assert committed(owners, (0, 20_000, 500)) == [False]
    owners.observe(view(32_000, 3, {"c": [0, 1]}))
    assert committed(owners, (0, 33_000, 510)) == [True]
    assert owners.resumed() == {3: [stop([0], 33_000, 500, stopped_after=3000)]}


@pytest.mark.parametrize(
    ("writes", "min_sent_at"),
    [
        ([*range(0, 5000, 200)], 4600),  # a busy coordinator
        ([0, 5000], 0),  # the commit may have waited during the pause
        ([*range(0, 5000, 200), 35_000], 4800),
        ([*range(0, 5000, 200), 35_000, 35_010, 35_100], 4800),
        ([0, *range(30_000, 32_001, 200)], 31_800),  # the coordinator has caught up
        ([5000], None),
        ([0, 5000, 5000], 0),
    ],
)
def test_previous_write_bounds_the_send_time_of_a_commit(writes: list[int], min_sent_at: int | None) -> None:
    coordinator_activity = CoordinatorActivity()
    for at in writes:
        coordinator_activity.record_write(at)
    assert coordinator_activity.min_sent_at(writes[-1]) == min_sent_at
