from __future__ import annotations

from collections.abc import Callable

import pytest

from assignors.errors import BadInput
from assignors.partitioner import (
    BuiltInPartitioner,
    CountingPartitioner,
    InvalidPartition,
    StickyPartitioner,
    TopicView,
    explicit_partition,
    partition_for_key,
)


def draws(*numbers: int) -> Callable[[], int]:
    return iter(numbers).__next__


def test_explicit_partition() -> None:
    assert explicit_partition(7) == 7
    with pytest.raises(InvalidPartition, match="partition: -1"):
        explicit_partition(-1)


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(InvalidPartition, match="partitions: 0"):
        TopicView(0)


def test_counter_from_a_random_start_over_the_available() -> None:
    era = CountingPartitioner(draws(5))
    view = TopicView(4, available=[1, 3])
    assert [era.partition("t", None, view) for _ in range(4)] == [3, 1, 3, 1]


def test_counter_over_all_when_none_is_available() -> None:
    era = CountingPartitioner(draws(5))
    assert [era.partition("t", None, TopicView(4, available=[])) for _ in range(3)] == [1, 2, 3]


def test_one_counter_a_topic() -> None:
    era = CountingPartitioner(draws(0, 10))
    view = TopicView(3)
    assert [era.partition(t, None, view) for t in ("a", "b", "a", "b")] == [0, 1, 1, 2]


def test_the_counter_wraps_as_an_atomic_integer() -> None:
    era = CountingPartitioner(draws(2**31 - 1))
    view = TopicView(10)
    assert [era.partition("t", None, view) for _ in range(3)] == [(2**31 - 1) % 10, 0, 1]
    below = CountingPartitioner(draws(-1))
    assert [below.partition("t", None, view) for _ in range(2)] == [(2**31 - 1) % 10, 0]


def test_an_empty_key_is_hashed_a_null_key_is_not() -> None:
    view = TopicView(10, available=[4])
    assert CountingPartitioner().partition("t", b"", view) == partition_for_key(b"", 10)
    assert CountingPartitioner().partition("t", None, view) == 4
    assert StickyPartitioner(draws(0)).partition("t", b"", view) == partition_for_key(b"", 10)
    assert BuiltInPartitioner(1, draws(0)).partition(b"", view) == partition_for_key(b"", 10)


def test_round_robin_partitioner_counts_keys_too() -> None:
    era = CountingPartitioner(ignore_keys=True)
    assert [era.partition("t", b"same", TopicView(3)) for _ in range(4)] == [0, 1, 2, 0]


def test_sticky_stays_until_its_batch_closes() -> None:
    era = StickyPartitioner(draws(1, 1, 2))
    view = TopicView(3)
    assert [era.partition("t", None, view) for _ in range(3)] == [1, 1, 1]
    assert era.on_new_batch("t", view, 0) == 1  # a keyed record filled a batch elsewhere
    assert era.on_new_batch("t", view, 1) == 2  # never the same again: the first draw is thrown away
    assert era.partition("t", None, view) == 2


def test_sticky_with_one_or_no_available_partition() -> None:
    assert StickyPartitioner(draws()).partition("t", None, TopicView(3, available=[2])) == 2
    era = StickyPartitioner(draws(7, 4))
    view = TopicView(3, available=[])
    assert era.partition("t", None, view) == 1
    assert era.on_new_batch("t", view, 1) == 1


def test_built_in_switches_after_the_batch_size() -> None:
    era = BuiltInPartitioner(100, draws(0, 1, 2))
    view = TopicView(3)
    seen = []
    for size in (60, 60, 60, 60):
        seen.append(era.partition(None, view))
        era.appended(size, view)
    assert [*seen, era.partition(None, view)] == [0, 0, 1, 1, 2]


def test_builtin_waits_for_unready_batch_up_to_twice_its_size() -> None:
    era = BuiltInPartitioner(100, draws(0, 1))
    view = TopicView(3)
    seen = []
    for _ in range(4):
        seen.append(era.partition(None, view))
        era.appended(60, view, enable_switch=False)
    assert [*seen, era.partition(None, view)] == [0, 0, 0, 0, 1]


def test_built_in_weighs_by_inverted_queue_size() -> None:
    era = BuiltInPartitioner(1, draws(*range(8)))
    era.update_load([0, 3, 1], [10, 20, 30])
    assert era.cumulative_frequencies == [4, 5, 8]
    view = TopicView(40)
    seen = []
    for _ in range(7):
        seen.append(era.partition(None, view))
        era.appended(1, view)
    assert [*seen, era.partition(None, view)] == [10, 10, 10, 10, 20, 30, 30, 30]


@pytest.mark.parametrize(("queues", "length"), [(None, -1), ([4], -1), ([2, 2, 2], -1), ([1, 2], 0)], ids=str)
def test_built_in_stays_uniform(queues: list[int] | None, length: int) -> None:
    era = BuiltInPartitioner(1, draws())
    era.update_load(queues, [0, 1, 2][: len(queues or ())], length)
    assert era.cumulative_frequencies is None


def test_built_in_leaves_slow_partitions_out() -> None:
    era = BuiltInPartitioner(1, draws())
    era.update_load([2, 2, 9], [0, 1, 2], 2)
    assert era.cumulative_frequencies == [1, 2]


def test_built_in_refuses_an_empty_batch() -> None:
    with pytest.raises(BadInput, match="batch_size: 0"):
        BuiltInPartitioner(0, draws())
