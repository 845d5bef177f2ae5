"""A tick is due when a bucket's timer is due, and no more often than batches can answer."""

from __future__ import annotations

from streaming.spark.timers import Timers


def test_the_first_tick_asks_every_bucket() -> None:
    timers = Timers()
    assert timers.due(1000.0)
    assert not timers.due(1000.4)
    assert not timers.due(2000.0)


def test_it_ticks_when_the_earliest_timer_is_due() -> None:
    timers = Timers()
    timers.due(0.0)
    timers.heard({0: 50_000, 1: 20_000, 2: 0})
    assert not timers.due(19.9)
    assert timers.due(20.0)
    timers.heard({1: 0})
    assert not timers.due(21.0)
    assert timers.due(50.0)


def test_it_asks_again_until_a_batch_has_answered() -> None:
    timers = Timers()
    timers.due(0.0)
    timers.heard({0: 1000})
    assert [timers.due(at) for at in (1.0, 1.2, 1.4, 1.6, 2.2)] == [True, False, False, True, True]
