import pytest

from assignors.errors import BadInput
from streaming.simulation.live_group import LiveGroup, LiveMember
from streaming.simulation.what_if import apply_change
from streaming.simulation.what_if_query import parse_query, what_if_document


@pytest.fixture
def empty() -> LiveGroup:
    return LiveGroup("g", "consumer", "classic", "range", 5, 9, (), {})


_LONG_NUMBER = "9" * 5000


@pytest.mark.parametrize("word", [_LONG_NUMBER, "0", "0" * 5000, "10001", "٣", "３", "१०"])
def test_number_of_added_members_is_1_to_10000(empty: LiveGroup, word: str) -> None:
    with pytest.raises(BadInput, match=r"^--add .{1,60}: give a member name, or a number from 1 to 10000$"):
        parse_query(empty, add=[word])


@pytest.mark.parametrize("text", [f"t={_LONG_NUMBER}", "t=0", "t=1000001", "t=٣", "t=", "=3", "t=-1", "t=+3", "t= 3"])
def test_partition_counts_are_ascii_and_bounded(empty: LiveGroup, text: str) -> None:
    with pytest.raises(BadInput, match=r"^--partitions .{1,60}: give TOPIC=N, N from 1 to 1000000$"):
        parse_query(empty, partitions=[text])


def test_add_option_takes_counts_and_names_of_members(empty: LiveGroup) -> None:
    assert parse_query(empty, add=["2", "new-1", "x"]).changes.add == ("new-1", "new-2", "x")
    assert parse_query(empty, partitions=["a=b=24"]).changes.partitions == {"a=b": 24}


def test_documents_name_new_members_in_the_order_of_options(empty: LiveGroup) -> None:
    group = empty._replace(members=(LiveMember(member_id="a"),))
    change = apply_change(group, parse_query(group, add=["x", "5", "y"]).changes)
    document = what_if_document(change, [], None)
    assert list(document["names"].values()) == ["a", "x", "new-1", "new-2", "new-3", "new-4", "new-5", "y"]
    assert list(document["names"])[1:] == document["added"]
