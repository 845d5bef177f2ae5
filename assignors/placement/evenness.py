"""Evenness of an existing placement of replicas, and moves towards an even one.

Goals, in order: every partition is in as many racks as it has replicas; brokers have equally many replicas; brokers are
preferred leader equally often (which moves no data). Moves are greedy, and each move improves the placement;
O((moves + 1) × replicas).
"""

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assignors.placement.replicas import Broker, InvalidPlacement, check_brokers

#: Key of a partition: an int, or ``(topic, partition)``.
Partition = Hashable


class Move(NamedTuple):
    """Move of a replica's data, or of a partition's preferred leadership, from one broker to another."""

    partition: Partition
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Evenness:
    """Counts of a placement, and the moves to a better one.

    ``leaders`` and ``replicas``: number of preferred leaders and of replicas by broker, including brokers with 0.
    ``rack_gaps``: partitions with two replicas in one rack and no replica in another rack. ``after``: the placement
    after all moves.
    """

    leaders: dict[int, int]
    replicas: dict[int, int]
    rack_gaps: list[Partition]
    moves: list[Move]
    leader_changes: list[Move]
    after: dict[Partition, list[int]]

    @property
    def is_even(self) -> bool:
        """True if the placement is even: no move improves it."""
        return not self.moves and not self.leader_changes


def check_placement(brokers: Sequence[Broker], placement: Mapping[Partition, Sequence[int]]) -> Evenness:
    """Return the evenness of ``placement`` (leader first in each list) over ``brokers``, and moves to improve it."""
    check_brokers(brokers)
    racks = {broker.id: broker.rack for broker in brokers}
    for partition, replicas in placement.items():
        where = f"placement: partition {partition}"
        if not replicas:
            raise InvalidPlacement(f"{where} has no replicas")
        if len(set(replicas)) != len(replicas):
            raise InvalidPlacement(f"{where} lists a broker twice: {list(replicas)}")
        if unknown := [broker for broker in replicas if broker not in racks]:
            raise InvalidPlacement(f"{where} is on broker {unknown[0]}, which is not in brokers")
    balancer = _ImprovedPlacement(racks, placement)
    leaders, held = dict(balancer.leaders), {broker: len(ids) for broker, ids in balancer.held.items()}
    partitions_with_gaps = [partition for partition in placement if balancer.has_rack_gap(partition)]
    for partition in partitions_with_gaps:
        balancer.close_gap(partition)
    while balancer.move_replica():
        pass
    moves = [  # Several steps of one replica count as one move.
        Move(partition, source, target)
        for partition, replicas in placement.items()
        for source, target in zip(replicas, balancer.lists[partition], strict=True)
        if source != target
    ]
    changes = balancer.balance_leaders()
    return Evenness(leaders, held, partitions_with_gaps, moves, changes, balancer.lists)


class _ImprovedPlacement:
    """A placement that becomes more even step by step."""

    def __init__(self, racks: Mapping[int, str | None], placement: Mapping[Partition, Sequence[int]]) -> None:
        self.racks = racks
        self.all_racks = {rack for rack in racks.values() if rack is not None}
        self.lists = {partition: list(replicas) for partition, replicas in placement.items()}
        #: Ordered sets, so that the result does not depend on Python's hash seed.
        self.held: dict[int, dict[Partition, None]] = {broker: {} for broker in racks}
        self.leaders = dict.fromkeys(racks, 0)
        for partition, replicas in self.lists.items():
            self.leaders[replicas[0]] += 1
            for broker in replicas:
                self.held[broker][partition] = None

    def has_rack_gap(self, partition: Partition) -> bool:
        racks_in_use = [self.racks[broker] for broker in self.lists[partition]]
        return len({rack for rack in racks_in_use if rack is not None}) < min(len(racks_in_use), len(self.all_racks))

    def close_gap(self, partition: Partition) -> None:
        while self.has_rack_gap(partition):
            replicas = self.lists[partition]
            count = Counter(self.racks[broker] for broker in replicas)
            movable_from = [b for b in replicas if self.racks[b] is None or count[self.racks[b]] > 1]
            free = [b for b, rack in self.racks.items() if rack is not None and count[rack] == 0]
            source = max(movable_from, key=lambda broker: len(self.held[broker]))
            self._move_replica(partition, source, min(free, key=lambda broker: len(self.held[broker])))

    def move_replica(self) -> bool:
        """Move a replica between brokers whose counts differ by two or more, if its partition loses no rack."""
        brokers_by_load = sorted(self.held, key=lambda broker: len(self.held[broker]))
        for source in reversed(brokers_by_load):
            for target in brokers_by_load:
                if len(self.held[source]) - len(self.held[target]) < 2:  # noqa: PLR2004 - one is even enough
                    break
                for partition in self.held[source]:
                    if partition not in self.held[target] and self._keeps_racks(partition, source, target):
                        self._move_replica(partition, source, target)
                        return True
        return False

    def _keeps_racks(self, partition: Partition, source: int, target: int) -> bool:
        if self.racks[source] == self.racks[target]:
            return True
        count = Counter(self.racks[broker] for broker in self.lists[partition])
        return count[self.racks[target]] == 0 or count[self.racks[source]] > count[self.racks[target]]

    def _move_replica(self, partition: Partition, source: int, target: int) -> None:
        replicas = self.lists[partition]
        if replicas[0] == source:
            self.leaders[source] -= 1
            self.leaders[target] += 1
        replicas[replicas.index(source)] = target
        del self.held[source][partition]
        self.held[target][partition] = None

    def balance_leaders(self) -> list[Move]:
        """Move leadership along chains of replicas from brokers with the most leaders to those with the fewest."""
        first = {partition: replicas[0] for partition, replicas in self.lists.items()}
        led_partitions: dict[int, dict[Partition, None]] = defaultdict(dict)
        for partition, leader in first.items():
            led_partitions[leader][partition] = None
        candidates = list(self.leaders)
        while candidates:
            source = max(candidates, key=self.leaders.__getitem__)
            leader_moves = self._leadership_moves(source, led_partitions)
            if not leader_moves:
                candidates.remove(source)
            for partition, target in leader_moves:
                replicas = self.lists[partition]
                at, leader = replicas.index(target), replicas[0]
                replicas[0], replicas[at] = target, leader
                led_partitions[target][partition] = led_partitions[leader].pop(partition)
                self.leaders[leader] -= 1
                self.leaders[target] += 1
        changed = [(partition, leader) for partition, leader in first.items() if self.lists[partition][0] != leader]
        return [Move(partition, leader, self.lists[partition][0]) for partition, leader in changed]

    def _leadership_moves(
        self, source: int, led_partitions: Mapping[int, Iterable[Partition]]
    ) -> list[tuple[Partition, int]]:
        """Return a shortest chain of leadership moves, last first, to a broker with at least two leaderships fewer."""
        moves_by_broker: dict[int, list[tuple[Partition, int]]] = {source: []}
        queue = deque([source])
        while queue:
            broker = queue.popleft()
            for partition in led_partitions[broker]:
                for replica in self.lists[partition]:
                    if replica in moves_by_broker:
                        continue
                    moves_by_broker[replica] = [(partition, replica), *moves_by_broker[broker]]
                    if self.leaders[source] - self.leaders[replica] >= 2:  # noqa: PLR2004 - one is even enough
                        return moves_by_broker[replica]
                    queue.append(replica)
        return []
