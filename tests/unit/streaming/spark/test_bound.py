"""The bound of a batch follows the time that batches take."""

from __future__ import annotations

from streaming.spark.bound import Bound

MB = 1 << 20


def test_a_slow_batch_halves_it_down_to_a_part_of_what_was_asked_for() -> None:
    bound = Bound(6400, 20)
    bound.heard(6400, 21, 0)
    assert (bound.moved(), bound.value) == (True, 3200)
    assert not bound.moved()
    bound.heard(400, 50, 0)
    assert (bound.moved(), bound.value) == (True, 200)
    bound.heard(150, 50, 0)
    assert (bound.moved(), bound.value) == (True, 100)
    bound.heard(100, 50, 0)
    assert (bound.moved(), bound.value) == (False, 100)


def test_quick_full_batches_double_it_up_to_what_was_asked_for() -> None:
    bound = Bound(100, 20)
    bound.heard(100, 30, 0)
    assert (bound.moved(), bound.value) == (True, 50)
    bound.heard(20, 0.1, 0)  # not full: nothing is waiting
    bound.heard(50, 10, 0)  # not quick
    assert not bound.moved()
    bound.heard(45, 2, 0)
    assert (bound.moved(), bound.value) == (True, 100)
    bound.heard(100, 1, 0)
    assert not bound.moved()


def test_a_batch_planned_before_the_bound_fell_says_nothing_new() -> None:
    bound = Bound(100, 20)
    bound.heard(100, 30, 0)
    assert bound.moved()
    bound.heard(100, 30, 0)
    assert not bound.moved()


def test_without_a_bound_nothing_adapts() -> None:
    bound = Bound(None, 20)
    bound.heard(10**6, 1000, 0)
    assert (bound.moved(), bound.value) == (False, None)


def test_a_batch_of_too_many_bytes_has_as_many_events_as_have_room() -> None:
    bound = Bound(6400, 20)
    bound.heard(6400, 1, 6400 * MB)
    assert (bound.moved(), bound.value) == (True, 192)
    bound.heard(192, 30, 192 * MB)  # it is slow, and few enough
    assert (bound.moved(), bound.value) == (True, 100)
    bound.heard(100, 1, 250 * MB)  # twice as many would have too many
    assert not bound.moved()
    bound.heard(100, 1, 100 * MB)
    assert (bound.moved(), bound.value) == (True, 200)
    bound.heard(1, 1, 1000 * MB)
    assert (bound.moved(), bound.value) == (True, 1)
