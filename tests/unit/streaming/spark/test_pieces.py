"""Rows go to Python in pieces of some MB."""

from __future__ import annotations

from streaming.spark.pieces import Pieces

MB = 1 << 20


def test_it_begins_with_few_rows_where_records_may_be_long() -> None:
    assert [Pieces(longest).value for longest in (10 * MB, MB, 1_000, 1 << 40)] == [12, 128, 4096, 1]


def test_a_full_batch_of_short_events_lets_it_take_more() -> None:
    pieces = Pieces(10 * MB)
    pieces.heard(9_999, 9_999 * 500)
    assert not pieces.moved()
    pieces.heard(10_000, 10_000 * 500)
    assert (pieces.moved(), pieces.value) == (True, 4096)
    assert not pieces.moved()


def test_little_more_is_not_worth_a_restart() -> None:
    pieces = Pieces(MB)
    pieces.heard(20_000, 20_000 * 100_000)
    assert (pieces.moved(), pieces.value) == (False, 128)


def test_long_events_have_it_take_fewer_however_few_there_are() -> None:
    pieces = Pieces(1_000)
    pieces.heard(10, 10 * 20_000)
    assert not pieces.moved()
    pieces.heard(10, 10 * 200_000)
    assert (pieces.moved(), pieces.value) == (True, 83)


def test_a_batch_without_events_says_nothing() -> None:
    pieces = Pieces(10 * MB)
    pieces.heard(0, 0)
    assert not pieces.moved()
