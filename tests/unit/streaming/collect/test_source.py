"""Where a partition goes on; reading itself is in the integration tests."""

from __future__ import annotations

from streaming.collect.fold import Fold, Found, Row
from streaming.collect.source import _Partition
from tests.support.offsets_topic import assignment, group_key, group_value, subscription


def partition(start: int) -> _Partition:
    return _Partition(Fold("s", 4, str), start)


def generation(offset: int) -> Row:
    members = {"m": (subscription(["t"]), assignment({"t": [0]}))}
    return Row(4, offset, offset * 1000, group_key("g"), group_value(offset + 1, members))


def read(one: _Partition, row: Row) -> list[int]:
    one.following = row.offset + 1
    return [item.row.offset for item in one.new(one.fold.add(row)) if isinstance(item, Found)]


def test_nothing_moves_while_the_past_is_read_again() -> None:
    one = partition(3)
    assert one.place == 3
    assert [read(one, generation(offset)) for offset in range(3)] == [[], [], []]
    assert one.place == 3


def test_what_was_published_before_is_not_handed_out_again() -> None:
    one = partition(2)
    found = [read(one, generation(offset)) for offset in range(5)]
    assert found == [[], [], [], [2], [3]]


def test_the_place_is_before_a_run_that_is_not_complete() -> None:
    one = partition(0)
    read(one, generation(0))
    assert one.place == 0
    read(one, generation(1))
    assert one.place == 1
    assert [item.row.offset for item in one.new(one.fold.settle())] == [1]
    assert one.place == 2
