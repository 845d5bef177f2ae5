"""The batch size limit follows the duration of batches; a tick is due when a bucket's timer is due."""

from __future__ import annotations

from streaming.spark.supervisor import BatchLimit, Timers

MB = 1 << 20


def test_a_batch_of_too_many_bytes_lowers_the_limit() -> None:
    limit = BatchLimit(6400)
    limit.add_batch(6400, 6400 * MB)
    assert (limit.has_changed(), limit.value) == (True, 192)
    limit.add_batch(192, 250 * MB)  # a batch of twice as many records would have too many bytes
    assert not limit.has_changed()
    limit.add_batch(1, 1000 * MB)
    assert (limit.has_changed(), limit.value) == (True, 1)


def test_full_small_batches_double_the_limit_again() -> None:
    limit = BatchLimit(300)
    limit.add_batch(300, 600 * MB)
    assert (limit.has_changed(), limit.value) == (True, 96)
    limit.add_batch(40, MB)  # the batch is not full, so no record is waiting
    assert not limit.has_changed()
    for doubled in (192, 300):
        limit.add_batch(limit.value or 0, MB)
        assert (limit.has_changed(), limit.value) == (True, doubled)
    limit.add_batch(300, MB)
    assert not limit.has_changed()


def test_a_batch_planned_before_the_limit_fell_changes_nothing() -> None:
    limit = BatchLimit(100)
    limit.add_batch(100, 1000 * MB)
    assert limit.has_changed()
    limit.add_batch(100, 1000 * MB)
    assert not limit.has_changed()


def test_the_first_tick_is_due_at_once() -> None:
    timers = Timers()
    assert timers.is_due(1000.0)
    assert not timers.is_due(1000.4)
    assert not timers.is_due(2000.0)


def test_tick_is_due_with_the_earliest_timer() -> None:
    timers = Timers()
    timers.is_due(0.0)
    timers.due |= {0: 50_000, 1: 20_000, 2: 0}
    assert not timers.is_due(19.9)
    assert timers.is_due(20.0)
    timers.due |= {1: 0}
    assert not timers.is_due(21.0)
    assert timers.is_due(50.0)


def test_ticks_continue_until_a_batch_has_reported() -> None:
    timers = Timers()
    timers.is_due(0.0)
    timers.due |= {0: 1000}
    assert [timers.is_due(at) for at in (1.0, 1.2, 1.4, 1.6, 2.2)] == [True, False, False, True, True]
