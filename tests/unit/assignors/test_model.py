"""Tests that members and topics accept lists in place of tuples."""

from typing import Any

import pytest

from assignors.errors import InvalidGroup
from assignors.model import Member, Topic
from assignors.registry import find, names, protocols


def test_lists_of_topics_equal_tuples() -> None:
    listed: Any = ["t", "u"]
    racks: Any = [["a", "b"], ()]
    assert Member("c", listed) == Member("c", ("t", "u"))
    assert Topic("t", 2, racks) == Topic("t", 2, (("a", "b"), ()))


def test_member_and_topic_keep_the_given_tuples() -> None:
    topics = ("t",)
    racks = (("a",),)
    assert Member("c", topics).topics is topics
    assert Topic("t", 1, racks).racks is racks


def test_string_is_rejected_as_topic_list() -> None:
    text: Any = "t0"
    with pytest.raises(InvalidGroup, match="topics: 't0' is one text; give a sequence of names"):
        Member("c", text)


@pytest.mark.parametrize(
    ("protocol", "name"), [(protocol, name) for protocol in protocols() for name in names(protocol)]
)
def test_assignors_accept_lists_in_place_of_tuples(protocol: str, name: str) -> None:
    listed: Any = ["t"]
    racks: Any = [["a"], ["b"], []]
    topics = {"t": Topic("t", 3, racks, "AAAAAAAAAAAAAAAAAAAAAQ")}
    members = [Member(c, listed, rack_id="a", streams={"t": 1}) for c in ("c1", "c2")]
    answer = find(protocol, name).assign(topics, members)
    assert sorted(p for share in answer.values() for p in share["t"]) == [0, 1, 2]
