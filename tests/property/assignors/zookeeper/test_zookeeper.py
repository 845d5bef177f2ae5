"""Each partition of a subscribed topic has one owner, a subscriber's thread; ranges are contiguous and even."""

from hypothesis import given
from hypothesis import strategies as st

from assignors.errors import InvalidGroup
from assignors.zookeeper import assign_range, assign_round_robin, threads_by_topic
from tests.support.groups import group_of, topic_partitions
from tests.support.zookeeper_cases import ZookeeperGroups


@given(st.integers(0, 2**32), st.sampled_from(["0.8.2", "0.11", "1.1"]), st.booleans())
def test_every_partition_has_one_owner(seed: int, version: str, equal: bool) -> None:
    topics, members = group_of(ZookeeperGroups(seed, equal=equal).fresh())
    threads = threads_by_topic(topics, members)
    for assign in (assign_range, assign_round_robin):
        try:
            answer = assign(topics, members, kafka_version=version)
        except InvalidGroup:
            assert assign is assign_round_robin
            assert version == "0.8.2"
            continue
        wanted = sorted((name, p) for name in threads if name in topics for p in range(topics[name].partitions))
        assert topic_partitions(answer.values()) == wanted
        assert all(thread in threads[name] for thread, share in answer.items() for name in share)


@given(st.integers(0, 2**32))
def test_ranges_are_contiguous_and_even(seed: int) -> None:
    topics, members = group_of(ZookeeperGroups(seed).fresh())
    answer = assign_range(topics, members)
    for name, ids in threads_by_topic(topics, members).items():
        if name in topics:
            shares = [list(answer[thread].get(name, [])) for thread in ids]
            assert [p for share in shares for p in share] == list(range(topics[name].partitions))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
