import random
from typing import Any

import pytest

from assignors.placement.evenness import Evenness, Move, check_placement
from assignors.placement.replicas import Broker, InvalidPlacement, assign_replicas

THREE_BROKERS = [Broker(0), Broker(1), Broker(2)]


def max_replica_difference(evenness: Evenness) -> int:
    return max(evenness.replicas.values()) - min(evenness.replicas.values())


def test_placement_of_admin_utils_is_even() -> None:
    evenness = check_placement(THREE_BROKERS, assign_replicas(THREE_BROKERS, 6, 3, start_index=2))
    assert evenness.is_even
    assert (evenness.leaders, evenness.replicas) == ({0: 2, 1: 2, 2: 2}, {0: 6, 1: 6, 2: 6})
    assert evenness.rack_gaps == []


def test_leaders_on_one_broker_are_spread_without_moving_data() -> None:
    evenness = check_placement(THREE_BROKERS, {0: [0, 1], 1: [0, 2], 2: [0, 1], 3: [1, 2], 4: [2, 1], 5: [0, 2]})
    assert evenness.leaders == {0: 4, 1: 1, 2: 1}
    assert evenness.moves == []
    assert sorted(evenness.leader_changes) == [Move(0, 0, 1), Move(1, 0, 2)]


def test_leadership_moves_along_a_chain_of_brokers() -> None:
    # Broker 2 leads no partition and shares none with broker 0; broker 1 has to pass on the leadership that it gets.
    evenness = check_placement(THREE_BROKERS, {0: [0, 1], 1: [0], 2: [1, 2]})
    assert evenness.leader_changes == [Move(0, 0, 1), Move(2, 1, 2)]


def test_empty_broker_gets_its_share_of_replicas() -> None:
    evenness = check_placement([*THREE_BROKERS, Broker(3)], {p: [p % 3, (p + 1) % 3] for p in range(6)})
    assert evenness.replicas == {0: 4, 1: 4, 2: 4, 3: 0}
    assert len(evenness.moves) == 3
    assert {move.target for move in evenness.moves} == {3}


def test_a_rack_without_a_replica_is_used() -> None:
    brokers = [Broker(0, "a"), Broker(1, "a"), Broker(2, "b"), Broker(3, "b")]
    evenness = check_placement(brokers, {0: [0, 1], 1: [2, 3]})
    assert evenness.rack_gaps == [0, 1]
    assert len(evenness.moves) == 2
    for replicas in evenness.after.values():
        assert {brokers[broker].rack for broker in replicas} == {"a", "b"}


@pytest.mark.parametrize("seed", range(30))
def test_improved_placement_has_no_violations_left(seed: int) -> None:
    rng = random.Random(seed)
    racks = rng.choice([[None], ["a", "b"], ["a", "b", "c"]])
    brokers = [Broker(i, rng.choice(racks)) for i in range(rng.randint(2, 8))]
    placement = {("t", p): rng.sample(range(len(brokers)), rng.randint(1, min(3, len(brokers)))) for p in range(40)}
    evenness = check_placement(brokers, placement)
    again = check_placement(brokers, evenness.after)
    assert again.is_even
    assert again.rack_gaps == []
    assert max_replica_difference(again) <= max_replica_difference(evenness) or evenness.rack_gaps
    if racks == [None]:
        assert max_replica_difference(again) <= 1
    assert {p: len(r) for p, r in evenness.after.items()} == {p: len(r) for p, r in placement.items()}
    moved = sum(len(set(placement[p]) - set(evenness.after[p])) for p in placement)
    assert len(evenness.moves) == moved


@pytest.mark.parametrize(
    ("brokers", "placement", "message"),
    [
        ([], {0: [0]}, "brokers: missing"),
        (THREE_BROKERS, {0: []}, "placement: partition 0 has no replicas"),
        (THREE_BROKERS, {0: [1, 1]}, "placement: partition 0 lists a broker twice"),
        (THREE_BROKERS, {4: [9]}, "placement: partition 4 is on broker 9"),
    ],
)
def test_invalid_input_is_refused(brokers: Any, placement: Any, message: str) -> None:
    with pytest.raises(InvalidPlacement, match=message):
        check_placement(brokers, placement)
