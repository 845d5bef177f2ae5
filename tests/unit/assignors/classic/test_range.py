import pytest

from assignors.assignment import even_ranges
from assignors.classic.range import assign
from assignors.model import Member, Topic
from tests.support.groups import assignment_lists


@pytest.mark.parametrize(
    ("count", "members", "ranges"),
    [
        (5, 2, [range(3), range(3, 5)]),
        (4, 2, [range(2), range(2, 4)]),
        (2, 3, [range(1), range(1, 2)]),
        (1, 1, [range(1)]),
    ],
)
def test_partitions_are_split_into_even_ranges(count: int, members: int, ranges: list[range]) -> None:
    assert even_ranges(count, members) == ranges


def test_static_members_come_first_in_order_of_their_instance() -> None:
    members = [Member("a", ("t",)), Member("z", ("t",), "i1"), Member("y", ("t",), "i2")]
    answer = assignment_lists(assign({"t": Topic("t", 3)}, members))
    assert answer == {"a": {"t": [2]}, "z": {"t": [0]}, "y": {"t": [1]}}


def test_range_of_one_topic_matches_racks_of_members() -> None:
    topics = {"t": Topic("t", 4, (("r1",), ("r0",), ("r0",), ("r1",)))}
    members = [Member("a", ("t",), rack_id="r0"), Member("b", ("t",), rack_id="r1")]
    assert assignment_lists(assign(topics, members)) == {"a": {"t": [1, 2]}, "b": {"t": [0, 3]}}


def test_co_partitioned_topics_match_racks_together() -> None:
    topics = {"t": Topic("t", 2, (("r1",), ("r0",))), "u": Topic("u", 2, (("r1", "r0"), ("r0",)))}
    members = [Member("a", ("t", "u"), rack_id="r0"), Member("b", ("t", "u"), rack_id="r1")]
    assert assignment_lists(assign(topics, members)) == {"a": {"t": [1], "u": [1]}, "b": {"t": [0], "u": [0]}}


def test_range_ignores_racks_that_every_partition_has() -> None:
    topics = {"t": Topic("t", 2, (("r0", "r1"), ("r1", "r0")))}
    members = [Member("a", ("t",), rack_id="r1"), Member("b", ("t",), rack_id="r0")]
    assert assignment_lists(assign(topics, members)) == {"a": {"t": [0]}, "b": {"t": [1]}}


def test_rack_matched_members_share_the_remainder() -> None:
    topics = {"t": Topic("t", 4, (("r0",), ("r0",), ("r1",), ("r1",)))}
    members = [Member(name, ("t",), rack_id=rack) for name, rack in (("a", "r0"), ("b", "r1"), ("c", "r2"))]
    assert assignment_lists(assign(topics, members)) == {"a": {"t": [0, 1]}, "b": {"t": [2]}, "c": {"t": [3]}}
