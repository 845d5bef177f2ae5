import pytest

from assignors.classic.sticky import assign, equal_subscriptions
from assignors.errors import InvalidGroup
from assignors.model import Member, Topic
from tests.support.groups import assignment_lists, topic_partitions


@pytest.mark.parametrize(
    ("subscriptions", "equal"),
    [
        ([("t", "u"), ("u", "t")], True),
        ([("t",), ("t", "u")], False),
        ([(), ("t",), ("t",)], True),  # Kafka replaces the reference subscription while it is empty
        ([("t",), ()], False),
        ([("t", "t"), ("t", "t")], False),  # Kafka compares the sizes of lists
        ([("t", "t")], True),
        ([("t", "u"), ("t", "t")], True),
        ([("t",), ("u",)], False),
        ([("t",), ("t",), ("t", "u")], False),
    ],
)
def test_subscriptions_in_another_order_are_equal(subscriptions: list[tuple[str, ...]], equal: bool) -> None:
    members = [Member(f"c{place}", topics) for place, topics in enumerate(subscriptions)]
    assert equal_subscriptions(members) is equal


def test_partition_without_near_replica_moves_to_a_near_member() -> None:
    """KIP-881: an owned partition moves if its owner's rack has no replica and another member's rack has a replica."""
    topics = {"t": Topic("t", 4, (("r1",), ("r1",), ("r2",), ("r2",)))}
    members = [
        Member("c1", ("t",), rack_id="r1", owned={"t": [0, 2]}, generation=1),
        Member("c2", ("t",), rack_id="r2", owned={"t": [1, 3]}, generation=1),
    ]
    assert assignment_lists(assign(topics, members)) == {"c1": {"t": [0, 1]}, "c2": {"t": [2, 3]}}


def test_endless_reassignment_of_kafka_is_cut_off() -> None:
    topics = {name: Topic(name, count) for name, count in {"t7": 40, "t0": 6, "t3": 3, "t4": 2}.items()}
    three_topics, repeated_topics = ("t4", "t3", "t0"), ("t0", "t7", "t4", "t7")
    members = [
        Member("c2", three_topics, owned={"t0": [0, 2, 4], "t3": [1], "t4": [0]}, generation=1),
        Member("c0", three_topics, owned={"t0": [1, 3, 5], "t3": [0, 2], "t4": [1]}, generation=1),
        Member("c4", repeated_topics, owned={"t7": range(40)}, generation=1),
        Member("c5", repeated_topics),
    ]
    answer = assignment_lists(assign(topics, members))
    assert topic_partitions(answer.values()) == sorted((t, p) for t in topics for p in range(topics[t].partitions))
    sizes = {member: sum(map(len, share.values())) for member, share in answer.items()}
    assert sizes["c4"] - sizes["c5"] <= 1


def test_sticky_without_owned_partitions_is_round_robin() -> None:
    """Each topic starts at the member after the previous topic's last one, so no member is always first."""
    topics = {name: Topic(name, 3) for name in ("t0", "t1", "t2")}
    members = [Member(name, tuple(topics)) for name in ("d", "a", "c", "b")]
    assert assignment_lists(assign(topics, members)) == {
        "a": {"t0": [0], "t1": [1], "t2": [2]},
        "b": {"t0": [1], "t1": [2]},
        "c": {"t0": [2], "t2": [0]},
        "d": {"t1": [0], "t2": [1]},
    }


def test_a_negative_partition_is_refused() -> None:
    members = [Member("c0", ("t",), owned={"t": [0]}), Member("c1", ("t",), owned={"t": [-1]})]
    with pytest.raises(InvalidGroup, match=r"members\.c1\.owned\.t: partition -1 is negative"):
        assign({"t": Topic("t", 4)}, members)
