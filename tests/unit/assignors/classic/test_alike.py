from __future__ import annotations

import pytest

from assignors.classic.alike import give

PARTS = [range(2), range(2, 3)]


@pytest.mark.parametrize("count", [1, 3, 4, 40])
def test_everyone_gets_the_same_of_each_topic_beside_what_it_has(count: int) -> None:
    names = [f"t{number}" for number in range(count)]
    shares = [{}, {}, {"other": range(1)}]
    give(shares, [2, 0], PARTS, names)
    assert shares == [
        dict.fromkeys(names, range(2, 3)),
        {},
        {"other": range(1)} | dict.fromkeys(names, range(2)),
    ]
    assert list(shares[2]) == ["other", *names]


def test_who_comes_after_the_last_part_gets_nothing() -> None:
    shares = [{}, {}, {}]
    give(shares, [0, 1, 2], PARTS, ["t"])
    assert shares == [{"t": range(2)}, {"t": range(2, 3)}, {}]


def test_shares_are_not_one_object() -> None:
    shares = [{}, {}]
    give(shares, [0, 1], [range(1), range(1)], ["a", "b", "c", "d"])
    shares[0]["a"] = range(5)
    assert shares[1]["a"] == range(1)
