"""Set operations on assignments, compared with sets of ``(topic, partition)``."""

from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import assignment
from assignors.assignment import common, subtract, union
from assignors.model import TopicPartitions
from tests.support.groups import topic_partitions
from tests.support.histories import change

TOPICS = ("t0", "t1", "t2")


def _share(numbers: dict[str, set[int]]) -> TopicPartitions:
    """Return partitions as a range if the numbers have no gaps, else as a list: the code under test accepts both."""
    share: dict[str, list[int] | range] = {}
    for topic, partitions in numbers.items():
        ascending_partitions = sorted(partitions)
        whole = range(ascending_partitions[0], ascending_partitions[-1] + 1)
        share[topic] = whole if len(whole) == len(ascending_partitions) else ascending_partitions
    return share


def partition_set(share: Mapping[str, Iterable[int]]) -> set[tuple[str, int]]:
    return {*topic_partitions([share])}


SHARES = st.dictionaries(st.sampled_from(TOPICS), st.sets(st.integers(0, 5), min_size=1)).map(_share)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [(subtract, set.difference), (common, set.intersection), (union, set.union)],
    ids=["minus", "common", "union"],
)
@settings(max_examples=40)
@given(left=SHARES, right=SHARES)
def test_operations_on_shares_equal_set_operations(
    operation: Callable[[TopicPartitions, TopicPartitions], TopicPartitions],
    expected: Callable[[set[tuple[str, int]], set[tuple[str, int]]], set[tuple[str, int]]],
    left: TopicPartitions,
    right: TopicPartitions,
) -> None:
    before = assignment.normalize(left), assignment.normalize(right)
    result = operation(left, right)
    assert partition_set(result) == expected(partition_set(left), partition_set(right))
    assert all(list(partitions) == sorted(set(partitions)) and partitions for partitions in result.values())
    assert (assignment.normalize(left), assignment.normalize(right)) == before


@settings(max_examples=40)
@given(share=SHARES, topics=st.lists(st.sampled_from(TOPICS), unique=True))
def test_select_topics_returns_only_the_given_topics(share: TopicPartitions, topics: list[str]) -> None:
    assert assignment.select_topics(share, tuple(topics)) == {topic: share[topic] for topic in share if topic in topics}


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abc"), SHARES))
def test_collect_sets_contains_all_owned_partitions(shares: dict[str, TopicPartitions]) -> None:
    assert partition_set(assignment.collect_partition_sets(shares)) == {*topic_partitions(shares.values())}


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ({}, {}),
        ({"t0": range(2)}, {"t0": [0, 1]}),
        ({"t0": ()}, {}),
        ({"t1": [3], "t0": range(0), "t2": (1, 2)}, {"t1": [3], "t2": [1, 2]}),
        ({"t2": [1], "t1": [0]}, {"t1": [0], "t2": [1]}),
    ],
)
def test_normalized_share_has_sorted_lists(share: TopicPartitions, expected: dict[str, list[int]]) -> None:
    normalized = assignment.normalize(share)
    assert (normalized, list(normalized)) == (expected, list(expected))
    assert all(isinstance(partitions, list) for partitions in normalized.values())


@settings(max_examples=40)
@given(claim=SHARES, shares=st.dictionaries(st.sampled_from("abc"), SHARES))
def test_claim_loses_partitions_that_other_members_own(
    claim: TopicPartitions, shares: dict[str, TopicPartitions]
) -> None:
    others = [share for name, share in shares.items() if name != "a"]
    expected = partition_set(claim) - {*topic_partitions(others)}
    claims_in_reverse_order = {topic: [*reversed(partitions), partitions[0]] for topic, partitions in claim.items()}
    unclaimed_share = assignment.subtract_other_owners(claims_in_reverse_order, "a", shares)
    assert partition_set(unclaimed_share) == expected
    assert all(partitions == sorted(set(partitions)) for partitions in unclaimed_share.values())


@settings(max_examples=40)
@given(shares=st.dictionaries(st.sampled_from("abc"), SHARES), wanted=st.sets(st.sampled_from(TOPICS)))
def test_wanted_partitions_without_owner_are_unassigned(shares: dict[str, TopicPartitions], wanted: set[str]) -> None:
    owned = assignment.collect_lists(shares.values())
    assert sum(map(len, owned.values())) == len(topic_partitions(shares.values()))
    counts = dict.fromkeys(TOPICS[:2], 6)
    free = assignment.unassigned(wanted, counts, owned)
    existing = {(topic, p) for topic in wanted & counts.keys() for p in range(6)}
    assert partition_set(free) == existing - partition_set(owned)
    assert list(free) == sorted(free)


def test_partition_given_up_and_reassigned_has_moved() -> None:
    members = {"a": change({"t": [0, 1]}, revoked={"t": [1]}), "b": change(assigned={"t": [1, 2]})}
    assert assignment.track_owners({}, members) == ({}, {"t": [1]})


def test_unassigned_partition_keeps_its_last_owner() -> None:
    members = {"a": change({"t": [0, 1]}, revoked={"t": [1]})}
    assert assignment.track_owners({"u": {0: "b"}}, members) == ({"t": {1: "a"}, "u": {0: "b"}}, {})


def test_partition_returned_to_its_last_owner_has_not_moved() -> None:
    free = {"t": {0: "a", 1: "gone"}}
    assert assignment.track_owners(free, {"a": change(assigned={"t": [0, 1]})}) == ({}, {"t": [1]})
    assert free == {"t": {0: "a", 1: "gone"}}
