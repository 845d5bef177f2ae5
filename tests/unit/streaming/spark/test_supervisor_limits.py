"""The batch size limit adapts to the size of the batches."""

from __future__ import annotations

from streaming.spark.supervisor import BatchLimit

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
