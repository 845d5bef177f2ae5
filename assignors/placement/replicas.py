"""Kafka's placement of the replicas of new partitions.

``assign_replicas`` is ``AdminUtils.assignReplicasToBrokers`` of ZooKeeper-era clusters (server-common, to 4.0). Leaders
are assigned round-robin over the broker list. Followers are assigned round-robin from the leader's neighbour plus a
shift, which grows by one each time the leaders wrap. With racks, every partition is in as many racks as it has
replicas.

``place_striped`` is ``StripedReplicaPlacer`` of KRaft controllers (kafka-metadata 4.3). Racks are used in turn from a
random rack on, and brokers of a rack in turn from a random broker on. Each partition advances both positions by one.
After as many partitions as there are unfenced brokers, racks and brokers are shuffled. Fenced brokers come last and are
never leaders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from assignors.errors import BadInput
from assignors.java import JavaRandom, hash_order, in_string_order, shuffle, string_hash, string_key

#: ``{partition: broker ids}``; the first of a partition's brokers is its preferred leader.
Placement = dict[int, list[int]]
#: The largest number of replicas in one call: more than any cluster has, and few enough for a machine's memory.
MAX_REPLICAS = 20_000_000
_MAX_INT = 2**31 - 1


class InvalidPlacement(BadInput):
    """The brokers, partitions or replicas contradict each other."""


class InvalidReplicationFactor(InvalidPlacement):
    """The replication factor can't be met."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker; if ``fenced``, it is registered but not in service (KRaft)."""

    id: int
    rack: str | None = None
    fenced: bool = False


def check_brokers(brokers: Sequence[Broker]) -> None:
    """Raise InvalidPlacement for an empty list of brokers, and for negative or repeated broker ids."""
    if not brokers:
        raise InvalidPlacement("brokers: missing; give at least one broker")
    seen: set[int] = set()
    for broker in brokers:
        if broker.id < 0:
            raise InvalidPlacement(f"brokers: id {broker.id} is negative")
        if broker.id in seen:
            raise InvalidPlacement(f"brokers: id {broker.id} is listed twice")
        seen.add(broker.id)


def _check_arguments(brokers: Sequence[Broker], partitions: int, replication_factor: int, start_partition: int) -> None:
    check_brokers(brokers)
    if partitions < 1:
        raise InvalidPlacement(f"partitions: {partitions}; must be larger than 0")
    if start_partition < 0:
        raise InvalidPlacement(f"start_partition: {start_partition} is negative")
    if start_partition + partitions - 1 > _MAX_INT:
        last = start_partition + partitions - 1
        raise InvalidPlacement(f"start_partition: the last partition would be {last}; the limit is {_MAX_INT}")
    if replication_factor < 1:
        raise InvalidReplicationFactor(f"replication_factor: {replication_factor}; must be larger than 0")
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"replication_factor: {replication_factor} is larger than the number of brokers, {len(brokers)}; "
            "add brokers or lower it"
        )
    if partitions * replication_factor > MAX_REPLICAS:
        raise InvalidPlacement(
            f"partitions: {partitions} × replication_factor {replication_factor} is over the limit of "
            f"{MAX_REPLICAS} replicas an answer"
        )


def assign_replicas(
    brokers: Sequence[Broker],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int | None = None,
    shift: int | None = None,
    start_partition: int = 0,
    random: JavaRandom | None = None,
) -> Placement:
    """Return ``{partition: brokers}`` by AdminUtils, from ``start_partition`` to ``start_partition + partitions − 1``.

    Brokers without racks are used in the order of ``brokers``. ``start_index``: position of partition 0's leader.
    ``shift``: the shift of the first followers, by default equal to a given ``start_index``. ``random`` draws missing
    values, the start index first.
    """
    _check_arguments(brokers, partitions, replication_factor, start_partition)
    without = [str(broker.id) for broker in brokers if broker.rack is None]
    is_rack_aware = len(without) < len(brokers)
    if is_rack_aware and without:
        raise InvalidPlacement(f"brokers: {', '.join(without)} have no rack, but others do; give all a rack, or none")
    ordered = alternate_racks(brokers) if is_rack_aware else list(brokers)
    start, shift = _start_positions(len(brokers), start_index, shift, random)
    placement: Placement = {}
    for partition in range(start_partition, start_partition + partitions):
        if partition > 0 and partition % len(ordered) == 0:
            shift += 1
        leader = (partition + start) % len(ordered)
        followers = _spread_over_racks if is_rack_aware else _followers
        placement[partition] = followers(ordered, leader, replication_factor, shift)
    return placement


def alternate_racks(brokers: Sequence[Broker]) -> list[Broker]:
    """Return the brokers alternating between racks, with ascending ids in each rack: 0:a 1:a 2:b → 0, 2, 1."""
    racks: dict[str, list[Broker]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    rounds = zip_longest(*(racks[rack] for rack in in_string_order(racks)))
    return [broker for brokers_of_round in rounds for broker in brokers_of_round if broker is not None]


def _start_positions(count: int, start: int | None, shift: int | None, random: JavaRandom | None) -> tuple[int, int]:
    for name, value in (("start_index", start), ("shift", shift)):
        if value is not None and not 0 <= value <= _MAX_INT:
            raise InvalidPlacement(f"{name}: {value}; must be between 0 and {_MAX_INT}")
    if start is not None:
        return start, start if shift is None else shift
    if random is None:
        raise InvalidPlacement("start_index: missing; give it, or a random number generator")
    random_start = random.next_int(count)
    return random_start, random.next_int(count) if shift is None else shift


def _followers(brokers: Sequence[Broker], leader: int, replicas: int, shift: int) -> list[int]:
    count, shift_modulus = len(brokers), max(len(brokers) - 1, 1)
    places = [leader, *((leader + 1 + (shift + follower) % shift_modulus) % count for follower in range(replicas - 1))]
    return [brokers[place].id for place in places]


def _spread_over_racks(brokers: Sequence[Broker], leader: int, replicas: int, shift: int) -> list[int]:
    count, racks = len(brokers), len({broker.rack for broker in brokers})
    chosen, used_racks, candidate_count = [brokers[leader].id], {brokers[leader].rack}, 0
    while len(chosen) < replicas:
        candidate = brokers[(leader + 1 + (shift * racks + candidate_count) % (count - 1)) % count]
        candidate_count += 1
        # No broker is used twice, as the replication factor is at most the number of brokers.
        if candidate.id in chosen or (candidate.rack in used_racks and len(used_racks) < racks):
            continue
        chosen.append(candidate.id)
        used_racks.add(candidate.rack)
    return chosen


def place_striped(
    brokers: Sequence[Broker], partitions: int, replication_factor: int, random: JavaRandom, *, start_partition: int = 0
) -> Placement:
    """Return KRaft's placement of ``partitions`` partitions from ``start_partition`` on, as ``{partition: brokers}``.

    Brokers without a rack together form one more rack. ``random`` draws offsets and shuffles: with ``JavaRandom(seed)``
    the result equals that of Kafka's placer with ``new Random(seed)``.
    """
    _check_arguments(brokers, partitions, replication_factor, start_partition)
    if all(broker.fenced for broker in brokers):
        raise InvalidReplicationFactor("brokers: all of them are fenced; a leader must be in service")
    racks = _RackList(brokers, random)
    numbers = range(start_partition, start_partition + partitions)
    return {partition: racks.place(replication_factor) for partition in numbers}


class _BrokerList:
    __slots__ = ("brokers", "epoch", "index", "offset")

    def __init__(self, brokers: list[int], random: JavaRandom) -> None:
        self.brokers = sorted(brokers)
        self.index = 0
        self.epoch = 0
        self.offset = random.next_int(len(brokers)) if brokers else 0

    def next_broker(self, epoch: int) -> int:
        count = len(self.brokers)
        if count and self.epoch != epoch:
            self.epoch = epoch
            self.index = 0
            self.offset = (self.offset + 1) % count
        if self.index >= count:
            return -1
        self.index += 1
        return self.brokers[(self.index - 1 + self.offset) % count]


class _RackList:
    def __init__(self, brokers: Sequence[Broker], random: JavaRandom) -> None:
        self._random = random
        brokers_by_rack: dict[str | None, list[Broker]] = {}
        for broker in brokers:
            brokers_by_rack.setdefault(broker.rack, []).append(broker)
        names = list(brokers_by_rack)
        # Offsets are drawn, and brokers shuffled, in the order of a HashMap<Optional<String>, Rack>.
        hashes = [0 if name is None else string_hash(name) for name in names]
        in_hash_order = [names[position] for position in hash_order(hashes)]
        # Two broker lists per rack: its fenced and its unfenced brokers.
        self._racks = {
            name: tuple(
                _BrokerList([broker.id for broker in brokers_by_rack[name] if broker.fenced is fenced], random)
                for fenced in (True, False)
            )
            for name in in_hash_order
        }
        self._names = sorted(names, key=lambda name: (name is not None, string_key(name or "")))
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._epoch = 0
        self._rack_offset = random.next_int(len(names))

    def place(self, replication_factor: int) -> list[int]:
        if self._epoch == self._unfenced_count and self._unfenced_count > 1:
            shuffle(self._names, self._random)
            for lists in self._racks.values():
                for broker_list in lists:
                    shuffle(broker_list.brokers, self._random)
            self._epoch = 0
        self._rack_offset %= len(self._names)
        leader_rack, leader = self._leader()
        brokers = [leader, *self._followers(replication_factor - 1, leader_rack)]
        self._epoch += 1
        self._rack_offset += 1
        return brokers

    # Both loops end. After a shuffle the epoch is 0 again, so a list last used in the previous epoch 0 is not reset and
    # may return no broker. The epochs in between found enough brokers without such a list, so this epoch does, too.

    def _leader(self) -> tuple[int, int]:
        position = self._rack_offset
        while (broker := self._racks[self._names[position]][1].next_broker(self._epoch)) < 0:
            position = (position + 1) % len(self._names)
        return position, broker

    def _followers(self, count: int, leader_rack: int) -> list[int]:
        chosen: list[int] = []
        position = self._rack_offset
        while len(chosen) < count:
            if position == leader_rack:
                leader_rack = -1  # The leader's rack is skipped once, as it already has a replica.
            else:
                fenced, unfenced_brokers = self._racks[self._names[position]]
                broker = unfenced_brokers.next_broker(self._epoch)
                if broker < 0:
                    broker = fenced.next_broker(self._epoch)
                if broker >= 0:
                    chosen.append(broker)
            position = (position + 1) % len(self._names)
        return chosen
