import pytest

from assignors.classic.group import in_map_order, read_group
from assignors.errors import InvalidGroup
from assignors.model import Member, Topic
from assignors.registry import find, names

T = {"t": Topic("t", 2)}


def test_only_subscribed_topics_with_partitions_are_assigned() -> None:
    topics = {"t": Topic("t", 2), "empty": Topic("empty", 0), "unused": Topic("unused", 3)}
    assert read_group(topics, [Member("a", ("t", "empty", "unknown"))]).counts == {"t": 2}


@pytest.mark.parametrize(
    ("topics", "members", "message"),
    [
        (T, [Member("a"), Member("a")], r"members\[1\]\.memberId: 'a' is listed twice"),
        ({"t": Topic("t", -1)}, [Member("a", ("t",))], r"topics\.t\.partitions: -1 is below 0"),
        ({"t": Topic("t", 2, (("r",),))}, [Member("a", ("t",))], r"topics\.t\.racks: 1 entries for 2 partitions"),
    ],
)
@pytest.mark.parametrize("name", names("classic"))
def test_contradictory_group_is_rejected(
    name: str, topics: dict[str, Topic], members: list[Member], message: str
) -> None:
    with pytest.raises(InvalidGroup, match=message):
        find("classic", name).assign(topics, members)


@pytest.mark.parametrize("name", names("classic"))
def test_group_without_members_or_topics_has_empty_shares(name: str) -> None:
    assert find("classic", name).assign(T, []) == {}
    assert find("classic", name).assign({}, [Member("a", ("t",)), Member("b")]) == {"a": {}, "b": {}}


def test_members_are_ordered_as_in_a_java_hash_map() -> None:
    ids = ["c1", "c2", "c3", "new"]
    assert [member.member_id for member in in_map_order([Member(name) for name in ids])] == ["c3", "new", "c1", "c2"]
