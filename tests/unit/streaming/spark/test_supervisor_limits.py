"""The batch size limit adapts to the size of the batches."""

from streaming.spark.supervisor import BatchLimit

MEGABYTE = 1 << 20


def test_a_batch_of_too_many_bytes_lowers_the_limit() -> None:
    limit = BatchLimit(6400)
    limit.add_batch(6400, 6400 * MEGABYTE)
    assert (limit.has_changed(), limit.value) == (True, 192)
    limit.add_batch(192, 250 * MEGABYTE)  # a batch of twice as many records would have too many bytes
    assert not limit.has_changed()
    limit.add_batch(1, 1000 * MEGABYTE)
    assert (limit.has_changed(), limit.value) == (True, 1)


def test_full_small_batches_double_the_lowered_limit() -> None:
    limit = BatchLimit(300)
    limit.add_batch(300, 600 * MEGABYTE)
    assert (limit.has_changed(), limit.value) == (True, 96)
    limit.add_batch(40, MEGABYTE)  # the batch is not full, so no record is waiting
    assert not limit.has_changed()
    for expected_limit in (192, 300):
        limit.add_batch(limit.value or 0, MEGABYTE)
        assert (limit.has_changed(), limit.value) == (True, expected_limit)
    limit.add_batch(300, MEGABYTE)
    assert not limit.has_changed()


def test_a_batch_planned_before_the_limit_fell_changes_nothing() -> None:
    limit = BatchLimit(100)
    limit.add_batch(100, 1000 * MEGABYTE)
    assert limit.has_changed()
    limit.add_batch(100, 1000 * MEGABYTE)
    assert not limit.has_changed()
