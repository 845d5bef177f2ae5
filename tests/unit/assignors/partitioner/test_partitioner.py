from __future__ import annotations

from itertools import islice

import pytest

from assignors.errors import BadInput
from assignors.partitioner import BuiltInPartitioner, round_robin


def test_round_robin_wraps_around() -> None:
    assert [*islice(round_robin(3), 4)] == [0, 1, 2, 0]
    assert [*islice(round_robin(3, 2), 2)] == [2, 0]


def test_the_counter_wraps_as_an_atomic_integer() -> None:
    assert [*islice(round_robin(10, 2**31 - 1), 3)] == [(2**31 - 1) % 10, 0, 1]
    assert [*islice(round_robin(10, -1), 2)] == [(2**31 - 1) % 10, 0]


def test_built_in_switches_after_the_batch_size() -> None:
    sticky = BuiltInPartitioner(3, 100, iter([0, 1, -1]).__next__)
    assert [sticky.append(60) for _ in range(5)] == [0, 0, 1, 1, (2**31 - 1) % 3]


def test_built_in_refuses_an_empty_batch() -> None:
    with pytest.raises(BadInput, match="batch_size: 0"):
        BuiltInPartitioner(1, 0, int)
