"""``StripedReplicaPlacer``: how KRaft controllers place replicas (kafka-metadata 4.3).

Goals, in order: replicas even over racks; even over brokers, with other sets of brokers from partition to
partition; unfenced brokers before fenced ones, which never lead. Racks are taken in turn from a random one, brokers
within a rack from a random one; each partition moves both on by one, and after as many partitions as there are
unfenced brokers everything is shuffled. O(partitions × (replicas + racks)).
"""

from __future__ import annotations

from collections.abc import Sequence

from assignors.java import JavaRandom, hash_order, shuffle, string_hash, string_key
from assignors.placement.model import Broker, InvalidReplicationFactor, Placement, check_question


def place_striped(
    brokers: Sequence[Broker], partitions: int, replication_factor: int, random: JavaRandom, *, start_partition: int = 0
) -> Placement:
    """Brokers of the partitions ``start_partition`` … ``start_partition + partitions − 1``.

    Brokers without a rack are a rack of their own. ``random`` draws offsets and shuffles: ``JavaRandom(seed)``
    answers as the placer with ``new Random(seed)``.
    """
    check_question(brokers, partitions, replication_factor, start_partition)
    if all(broker.fenced for broker in brokers):
        raise InvalidReplicationFactor("brokers: all of them are fenced; a leader must be in service")
    racks = _RackList(brokers, random)
    return {
        partition: racks.place(replication_factor) for partition in range(start_partition, start_partition + partitions)
    }


class _BrokerList:
    __slots__ = ("brokers", "epoch", "index", "offset")

    def __init__(self, brokers: list[int], random: JavaRandom) -> None:
        self.brokers = sorted(brokers)
        self.index = 0
        self.epoch = 0
        self.offset = random.next_int(len(brokers)) if brokers else 0

    def next(self, epoch: int) -> int:
        count = len(self.brokers)
        if count == 0:
            return -1
        if self.epoch != epoch:
            self.epoch = epoch
            self.index = 0
            self.offset = (self.offset + 1) % count
        if self.index >= count:
            return -1
        broker = self.brokers[(self.index + self.offset) % count]
        self.index += 1
        return broker


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: list[Broker], random: JavaRandom) -> None:
        self.fenced = _BrokerList([broker.id for broker in brokers if broker.fenced], random)
        self.unfenced = _BrokerList([broker.id for broker in brokers if not broker.fenced], random)

    def next(self, epoch: int) -> int:
        broker = self.unfenced.next(epoch)
        return broker if broker >= 0 else self.fenced.next(epoch)


class _RackList:
    def __init__(self, brokers: Sequence[Broker], random: JavaRandom) -> None:
        self._random = random
        by_rack: dict[str | None, list[Broker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        names = list(by_rack)
        # Offsets are drawn, and brokers shuffled, in the order of a HashMap<Optional<String>, Rack>.
        hashes = [0 if name is None else string_hash(name) for name in names]
        in_order = [names[position] for position in hash_order(hashes)]
        self._racks = {name: _Rack(by_rack[name], random) for name in in_order}
        self._names = sorted(names, key=lambda name: (name is not None, string_key(name or "")))
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._epoch = 0
        self._offset = random.next_int(len(names))

    def place(self, replication_factor: int) -> list[int]:
        if self._epoch == self._unfenced and self._unfenced > 1:
            self._shuffle()
            self._epoch = 0
        if self._offset == len(self._names):
            self._offset = 0
        leader_rack, leader = self._leader()
        answer = [leader, *self._followers(replication_factor - 1, leader_rack)]
        self._epoch += 1
        self._offset += 1
        return answer

    # Both loops end. Lists that take themselves for empty after a shuffle (last asked in the epoch 0 before it)
    # were not asked in the epoch in between either, which found enough brokers without them.

    def _leader(self) -> tuple[int, int]:
        position = self._offset
        while (broker := self._racks[self._names[position]].unfenced.next(self._epoch)) < 0:
            position = (position + 1) % len(self._names)
        return position, broker

    def _followers(self, count: int, leader_rack: int) -> list[int]:
        chosen: list[int] = []
        position = self._offset
        while len(chosen) < count:
            if position == leader_rack:
                leader_rack = -1  # the leader's rack had its turn, once
            else:
                broker = self._racks[self._names[position]].next(self._epoch)
                if broker >= 0:
                    chosen.append(broker)
            position = (position + 1) % len(self._names)
        return chosen

    def _shuffle(self) -> None:
        shuffle(self._names, self._random)
        for rack in self._racks.values():
            shuffle(rack.fenced.brokers, self._random)
            shuffle(rack.unfenced.brokers, self._random)
