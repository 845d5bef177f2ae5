"""The bound of a batch follows the time that batches take."""

from __future__ import annotations

from streaming.spark.bound import Bound


def test_a_slow_batch_halves_it_down_to_a_part_of_what_was_asked_for() -> None:
    bound = Bound(6400, 20)
    bound.heard(6400, 21)
    assert (bound.moved(), bound.value) == (True, 3200)
    assert not bound.moved()
    bound.heard(400, 50)
    assert (bound.moved(), bound.value) == (True, 200)
    bound.heard(150, 50)
    assert (bound.moved(), bound.value) == (True, 100)
    bound.heard(100, 50)
    assert (bound.moved(), bound.value) == (False, 100)


def test_quick_full_batches_double_it_up_to_what_was_asked_for() -> None:
    bound = Bound(100, 20)
    bound.heard(100, 30)
    assert (bound.moved(), bound.value) == (True, 50)
    bound.heard(20, 0.1)  # not full: nothing is waiting
    bound.heard(50, 10)  # not quick
    assert not bound.moved()
    bound.heard(45, 2)
    assert (bound.moved(), bound.value) == (True, 100)
    bound.heard(100, 1)
    assert not bound.moved()


def test_a_batch_planned_before_the_bound_fell_says_nothing_new() -> None:
    bound = Bound(100, 20)
    bound.heard(100, 30)
    assert bound.moved()
    bound.heard(100, 30)
    assert not bound.moved()


def test_without_a_bound_nothing_adapts() -> None:
    bound = Bound(None, 20)
    bound.heard(10**6, 1000)
    assert (bound.moved(), bound.value) == (False, None)
