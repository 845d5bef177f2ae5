"""Claims, as AbstractStickyAssignor.allSubscriptionsEqual settles them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assignors.classic.group import read_group
from assignors.classic.owned import Owned, read_owned
from assignors.errors import InvalidGroup
from assignors.model import Member, Topic

TOPICS = {"t": Topic("t", 4), "empty": Topic("empty", 0)}


def read(*claims: tuple[int, dict[str, Sequence[int]]]) -> Owned:
    members = [
        Member(f"c{place}", ("t", "empty"), owned=owned, generation=generation)
        for place, (generation, owned) in enumerate(claims)
    ]
    return read_owned(read_group(TOPICS, members), members)


def test_clean_claims_are_shares() -> None:
    owned = read((3, {"t": range(2)}), (3, {"t": [3]}))
    assert owned == Owned([{"t": [0, 1]}, {"t": [3]}], [2, 1], {"t": [0, 1, 3]})


def test_unknown_topics_and_empty_claims_are_dropped() -> None:
    assert read((3, {"t": [2, 0], "empty": [1], "unknown": [0]}), (3, {"t": []})).shares == [{"t": [0, 2]}, {}]


@pytest.mark.parametrize(
    "claimed", [[1], [0, 1], [1, 0], [0, 2, 1], [2, 0, 1], [2, 1, 0], range(2, -1, -1), range(3), (3, 1)]
)
def test_a_share_is_ascending_however_it_was_claimed(claimed: Sequence[int]) -> None:
    (share,) = read((3, {"t": claimed})).shares
    assert [*share["t"]] == sorted(claimed)


def test_the_higher_generation_wins() -> None:
    owned = read((2, {"t": [0, 1]}), (3, {"t": [1, 2]}))
    assert (owned.shares, owned.sizes, owned.doubly) == ([{"t": [0]}, {"t": [1, 2]}], [1, 2], set())
    assert owned.contested == {"t": {1: [0, 1]}}


def test_two_claims_of_one_generation_leave_no_owner() -> None:
    owned = read((3, {"t": [1]}), (3, {"t": [1, 2]}))
    assert (owned.shares, owned.doubly) == ([{}, {"t": [2]}], {("t", 1)})
    assert owned.partitions == {"t": [2]}


def test_third_claim_of_a_higher_generation_wins() -> None:
    owned = read((3, {"t": [1]}), (3, {"t": [1]}), (4, {"t": [1]}))
    assert (owned.shares, owned.doubly) == ([{}, {}, {"t": [1]}], {("t", 1)})


def test_rival_below_generation_minus_one_counts_as_without() -> None:
    owned = read((-5, {"t": [1]}), (-1, {"t": [1]}))  # -1 against none: equal
    assert (owned.shares, owned.doubly) == ([{}, {}], {("t", 1)})
    owned = read((-1, {"t": [1]}), (-5, {"t": [1]}))  # -5 against -1: lower
    assert (owned.shares, owned.doubly) == ([{"t": [1]}, {}], set())


def test_a_negative_partition() -> None:
    with pytest.raises(InvalidGroup, match=r"members\.c1\.owned\.t: partition -1 is negative"):
        read((3, {"t": [0]}), (3, {"t": [-1]}))


def test_partition_that_does_not_exist_is_read_as_in_java() -> None:
    owned = read((3, {"t": [0]}), (3, {"t": [4]}))
    assert (owned.shares, owned.beyond) == ([{"t": [0]}, {"t": [4]}], {"t"})


def test_two_claims_without_a_generation_are_of_one_generation() -> None:
    for plain in (Member("c0", ("t",), owned={"t": [0, 1]}), Member("c0", ("t",), owned={"t": [0, 1]}, generation=-1)):
        members = [plain, Member("c1", ("t",), owned={"t": [1, 2]})]
        owned = read_owned(read_group(TOPICS, members), members)
        assert owned.shares == [{"t": [0]}, {"t": [2]}]
        assert owned.doubly == {("t", 1)}
