import pytest

from streaming.protocols import vote
from streaming.protocols.vocabulary import InconsistentGroupProtocol


@pytest.mark.parametrize(
    ("lists", "chosen"),
    [
        ({"a": ["range"]}, "range"),
        ({"a": ["range", "roundrobin"], "b": ["roundrobin", "range"], "c": ["roundrobin", "range"]}, "roundrobin"),
        ({"a": ["cooperative-sticky", "range"], "b": ["range"]}, "range"),
        ({"a": ["cooperative-sticky", "range"], "b": ["cooperative-sticky"]}, "cooperative-sticky"),
    ],
)
def test_most_voted_assignor_is_chosen(lists: dict[str, list[str]], chosen: str) -> None:
    assert vote.select(lists) == chosen


def test_tied_assignor_votes_follow_hash_map_order() -> None:
    from assignors.java import in_hash_order

    tied_votes = {"a": ["range", "sticky"], "b": ["sticky", "range"]}
    assert vote.select(tied_votes) == in_hash_order(["range", "sticky"])[0]


def test_no_common_assignor_is_refused_with_each_members_list() -> None:
    with pytest.raises(InconsistentGroupProtocol, match="a: range; b: sticky"):
        vote.select({"a": ["range"], "b": ["sticky"]})


@pytest.mark.parametrize(
    ("assignors", "keeps"),
    [
        (["cooperative-sticky"], True),
        (["cooperative-sticky", "range"], False),
        (["range"], False),
        (["my.own.Assignor"], False),
    ],
)
def test_client_is_cooperative_if_all_its_assignors_are(assignors: list[str], keeps: bool) -> None:
    assert vote.cooperative(tuple(assignors)) is keeps
