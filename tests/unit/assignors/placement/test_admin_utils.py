"""The worked examples of AdminUtils and of its tests, and a few recorded results of the Java class."""

from typing import Any

import pytest

from assignors.java import JavaRandom
from assignors.placement import replicas
from assignors.placement.replicas import Broker, assign_replicas

BROKERS_WITHOUT_RACKS = [Broker(number) for number in range(5)]
SIX_BROKERS = [Broker(i, rack) for i, rack in enumerate(["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"])]


def _placement_lists(*args: Any, **kwargs: Any) -> list[list[int]]:
    return list(assign_replicas(*args, **kwargs).values())


def test_brokers_alternate_between_racks() -> None:
    assert [b.id for b in replicas.alternate_racks(SIX_BROKERS)] == [0, 3, 1, 5, 4, 2]
    assert [b.id for b in replicas.alternate_racks(SIX_BROKERS[:5])] == [0, 3, 1, 4, 2]
    nine_brokers = [Broker(i, f"rack{i // 3}") for i in range(9)]
    assert [b.id for b in replicas.alternate_racks(nine_brokers)] == [0, 3, 6, 1, 4, 7, 2, 5, 8]


def test_replicas_alternate_over_racks() -> None:
    assert _placement_lists(SIX_BROKERS, 7, 3, start_index=0) == [
        [0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3], [0, 4, 2],
    ]  # fmt: skip # one row per line


def test_brokers_without_racks_take_turns() -> None:
    assert _placement_lists(BROKERS_WITHOUT_RACKS, 10, 3, start_index=0) == [
        [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1],
        [0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2],
    ]  # fmt: skip # one row per line


def test_racks_of_different_sizes_share_replicas() -> None:
    brokers = [Broker(i, rack) for i, rack in enumerate("abcaa")]
    assert _placement_lists(brokers, 6, 4, start_index=2) == [
        [2, 0, 1, 3], [3, 1, 2, 4], [4, 2, 1, 3], [0, 1, 2, 3], [1, 4, 2, 3], [2, 4, 1, 3],
    ]  # fmt: skip # one row per line


def test_added_partitions_continue_the_placement() -> None:
    assert assign_replicas(BROKERS_WITHOUT_RACKS, 6, 3, start_index=2, start_partition=4) == {
        4: [1, 4, 0], 5: [2, 1, 3], 6: [3, 2, 4], 7: [4, 3, 0], 8: [0, 4, 1], 9: [1, 0, 2],
    }  # fmt: skip # one row per line


@pytest.mark.parametrize(
    ("shift", "expected"),
    [
        (0, [[2, 0, 1], [0, 1, 2], [1, 2, 0], [2, 1, 0], [0, 2, 1], [1, 0, 2]]),
        (1, [[2, 1, 0], [0, 2, 1], [1, 0, 2], [2, 0, 1], [0, 1, 2], [1, 2, 0]]),
    ],
)
def test_placement_shift_moves_the_follower_replicas(shift: int, expected: list[list[int]]) -> None:
    assert _placement_lists(BROKERS_WITHOUT_RACKS[:3], 6, 3, start_index=2, shift=shift) == expected


def test_shift_defaults_to_the_start_index() -> None:
    explicit = _placement_lists(BROKERS_WITHOUT_RACKS, 6, 3, start_index=2, shift=2)
    assert _placement_lists(BROKERS_WITHOUT_RACKS, 6, 3, start_index=2) == explicit


def test_random_placement_draws_start_and_then_shift() -> None:
    random = JavaRandom(42)
    start, shift = random.next_int(5), random.next_int(5)
    assert _placement_lists(BROKERS_WITHOUT_RACKS, 9, 3, random=JavaRandom(42)) == _placement_lists(
        BROKERS_WITHOUT_RACKS, 9, 3, start_index=start, shift=shift
    )


def test_single_broker_gets_every_replica() -> None:
    assert assign_replicas([Broker(7)], 2, 1, start_index=3) == {0: [7], 1: [7]}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], 1, 1), replicas.InvalidPlacement, "brokers: missing"),
        (([Broker(1), Broker(1)], 1, 1), replicas.InvalidPlacement, "brokers: id 1 is listed twice"),
        (([Broker(-1)], 1, 1), replicas.InvalidPlacement, "brokers: id -1 is negative"),
        ((BROKERS_WITHOUT_RACKS, 0, 1), replicas.InvalidPlacement, "partitions: 0"),
        ((BROKERS_WITHOUT_RACKS, 1, 0), replicas.InvalidReplicationFactor, "replication_factor: 0"),
        (
            (BROKERS_WITHOUT_RACKS, 1, 6),
            replicas.InvalidReplicationFactor,
            "replication_factor: 6 is larger than the number of brokers, 5",
        ),
        ((BROKERS_WITHOUT_RACKS, 10**9, 3), replicas.InvalidPlacement, "over the limit"),
        (([Broker(0, "a"), Broker(1), Broker(2)], 1, 1), replicas.InvalidPlacement, "brokers: 1, 2 have no rack"),
    ],
)
def test_impossible_placement_is_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        assign_replicas(*arguments, start_index=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"start_index": -1}, "start_index"), ({"start_index": 2**31}, "start_index"), ({}, "start_index")),
        *(({"start_index": 0, "shift": -1}, "shift"), ({"shift": 1}, "start_index")),
        ({"start_index": 0, "start_partition": -1}, "start_partition: -1"),
    ],
)
def test_start_index_or_shift_out_of_range_is_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(replicas.InvalidPlacement, match=message):
        assign_replicas(BROKERS_WITHOUT_RACKS, 1, 1, **options)
