"""The alarm clock ticks when a bucket's timer is due, and no more often than batches can answer."""

from __future__ import annotations

from streaming.spark.clock import Clock


def test_the_first_tick_asks_every_bucket() -> None:
    clock = Clock()
    assert clock.ticks(1000.0)
    assert not clock.ticks(1000.4)
    assert not clock.ticks(2000.0)


def test_it_ticks_when_the_earliest_timer_is_due() -> None:
    clock = Clock()
    clock.ticks(0.0)
    clock.heard({0: 50_000, 1: 20_000, 2: 0})
    assert not clock.ticks(19.9)
    assert clock.ticks(20.0)
    clock.heard({1: 0})
    assert not clock.ticks(21.0)
    assert clock.ticks(50.0)


def test_it_asks_again_until_a_batch_has_answered() -> None:
    clock = Clock()
    clock.ticks(0.0)
    clock.heard({0: 1000})
    assert [clock.ticks(at) for at in (1.0, 1.2, 1.4, 1.6, 2.2)] == [True, False, False, True, True]
