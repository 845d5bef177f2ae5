"""The old consumer's assignors: published examples, ordering, Kafka releases, and rejected input."""

import pytest

from assignors.errors import BadInput, InvalidGroup
from assignors.java import string_hash
from assignors.model import Member, Topic
from assignors.registry import find
from assignors.zookeeper import assign_range, assign_round_robin, partitions_in_hash_order


def topics(**sizes: int) -> dict[str, Topic]:
    return {name: Topic(name, size) for name, size in sizes.items()}


def consumers(**streams: dict[str, int]) -> list[Member]:
    return [Member(name, streams=by_topic) for name, by_topic in streams.items()]


def test_zookeeper_range_sorts_threads_as_strings() -> None:
    answer = assign_range(topics(t=12), [Member("c", streams={"t": 11})])
    assert [answer[name]["t"] for name in ("c-0", "c-10", "c-9")] == [range(2), range(3, 4), range(11, 12)]


def test_zookeeper_range_follows_the_order_of_threads() -> None:
    assert assign_range(topics(t=5, u=2), consumers(c1={"t": 2, "u": 1}, c2={"t": 2})) == {
        "c1-0": {"t": range(2), "u": range(2)},
        "c1-1": {"t": range(2, 3)},
        "c2-0": {"t": range(3, 4)},
        "c2-1": {"t": range(4, 5)},
    }


def test_round_robin_order_follows_signed_hashes() -> None:
    assert string_hash("[t,10]") == -1581226645
    assert string_hash("[t,11]") == -1581226614
    assert string_hash("[topic-1,0]") == -1196313087
    assert string_hash("[t,0]") == 87540032
    assert partitions_in_hash_order({"t": 12, "topic-1": 3}, has_dash=False) == [
        ("t", 10),
        ("t", 11),
        *(("topic-1", number) for number in range(3)),
        *(("t", number) for number in range(10)),
    ]


def test_equal_hashes_keep_the_order_of_names() -> None:
    assert partitions_in_hash_order({"Aa": 2, "BB": 2}, has_dash=False) == [("Aa", 0), ("BB", 0), ("Aa", 1), ("BB", 1)]


def test_round_robin_follows_hash_order() -> None:
    assert assign_round_robin(topics(t=12), consumers(c1={"t": 2}, c2={"t": 1})) == {
        "c1-0": {"t": [1, 4, 7, 10]},
        "c1-1": {"t": [2, 5, 8, 11]},
        "c2-0": {"t": [0, 3, 6, 9]},
    }


def test_zookeeper_round_robin_order_changed_with_kafka_1_0() -> None:
    streams = {"t": 1, "topic-1": 1}
    group = {"t": Topic("t", 1), "topic-1": Topic("topic-1", 2)}, consumers(c1=streams, c2=streams)
    brackets, dash_order = (assign_round_robin(*group, kafka_version=v) for v in ("0.11.0.3", "1.1"))
    assert brackets == {"c1-0": {"topic-1": [0], "t": [0]}, "c2-0": {"topic-1": [1]}}
    assert brackets == find("zookeeper", "roundrobin").assign(*group)
    assert dash_order == {"c1-0": {"t": [0], "topic-1": [1]}, "c2-0": {"topic-1": [0]}}
    assert dash_order == assign_round_robin(*group, kafka_version="1.0.2")


def test_round_robin_skips_consumers_without_the_topic() -> None:
    answer = assign_round_robin(topics(t=4, u=2), consumers(c1={"t": 1}, c2={"t": 1, "u": 1}))
    assert answer == {"c1-0": {"t": [0, 2]}, "c2-0": {"t": [1, 3], "u": [0, 1]}}


@pytest.mark.parametrize("version", ["0.8.2", "0.9.0.1", "0.10.1"])
def test_unequal_threads_before_kafka_0_10_2_are_refused(version: str) -> None:
    unequal_group = topics(t=4, u=2), consumers(c1={"t": 2}, c2={"t": 1, "u": 1})
    with pytest.raises(InvalidGroup) as refused:
        assign_round_robin(*unequal_group, kafka_version=version)
    for part in ("members.streams", "Topic u has", "{c2-0}", "topic t has", "{c1-0, c1-1, c2-0}"):
        assert part in str(refused.value)
    equal = topics(t=4, u=2), consumers(c1={"t": 2, "u": 2}, c2={"t": 1, "u": 1})
    assert assign_round_robin(*equal, kafka_version=version) == assign_round_robin(*equal)


def test_consumers_without_topics_or_metadata_get_nothing() -> None:
    members = consumers(c1={"none": 1, "empty": 1})
    for assign in (assign_range, assign_round_robin):
        assert assign(topics(empty=0), members) == {"c1-0": {}}
        assert assign(topics(t=1), consumers(c1={}), kafka_version="0.8.2") == {}


@pytest.mark.parametrize(
    ("sizes", "members", "message"),
    [
        ({"t": 1}, [Member("c", streams={"t": 0})], r"members\[0\].streams.t: 0 is not a number of threads"),
        ({"t": 1}, [Member("c", streams={"t": -1})], r"members\[0\].streams.t: -1 is not a number of threads"),
        ({"t": 1}, [Member("c", ("t",))], r"members\[0\].streams: missing"),
        ({"t": 1}, [Member("c", streams={}), Member("c", streams={})], r"members\[1\].memberId: 'c' is listed twice"),
        ({"t": -1}, [Member("c", streams={"t": 1})], r"topics.t.partitions: -1 is below 0"),
    ],
)
def test_invalid_groups_are_refused(sizes: dict[str, int], members: list[Member], message: str) -> None:
    for assign in (assign_range, assign_round_robin):
        with pytest.raises(InvalidGroup, match=message):
            assign(topics(**sizes), members)


@pytest.mark.parametrize("version", ["", "new", "0.8.1", "2.0", "1.x", "0.8.2.2.2"])
def test_invalid_kafka_version_is_refused_by_zookeeper_assignors(version: str) -> None:
    for assign in (assign_range, assign_round_robin):
        with pytest.raises(BadInput, match="kafkaVersion"):
            assign(topics(t=1), consumers(c={"t": 1}), kafka_version=version)
