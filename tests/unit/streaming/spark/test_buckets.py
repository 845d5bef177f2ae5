"""Numbers of buckets."""

from __future__ import annotations

from collections import Counter

import pytest

from streaming.spark.buckets import bucket_numbers, murmur3


def test_murmur3_is_sparks() -> None:
    # SELECT hash(0), hash(1), hash(-1), hash(2147483647)
    assert [murmur3(number) for number in (0, 1, -1, 2147483647)] == [
        933211791,
        -559580957,
        -1604776387,
        133916647,
    ]


@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 12, 16, 64, 256])
def test_every_task_gets_as_many(buckets: int) -> None:
    numbers = bucket_numbers(buckets)
    assert len(set(numbers)) == buckets
    for tasks in (tasks for tasks in range(1, buckets + 1) if buckets % tasks == 0):
        assert set(Counter(murmur3(number) % tasks for number in numbers).values()) == {buckets // tasks}


def test_many_buckets_are_numbered_as_they_come() -> None:
    assert bucket_numbers(300) == list(range(300))
