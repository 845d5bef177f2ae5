"""``__consumer_offsets`` records of KIP-848 groups as a coordinator writes them, without running members.

As a coordinator does, :class:`SimulatedConsumerGroup` writes all changes of one heartbeat with one timestamp. The
restart of a member consists of:

* the member's leave: tombstones of the member's records, a new epoch, and a target for each member that gets one of its
  partitions;
* a write for each member that gets a partition, and one for each unchanged member, which only advances its epoch;
* the member's rejoin under a new id: a new epoch, and a target for each member that revokes a partition;
* a write for each member that revokes a partition, for the new member, and for each unchanged member.
"""

import base64
import uuid
from collections.abc import Iterator
from random import Random
from struct import pack

from tests.support.offsets_topic import (
    EPOCH,
    MEMBER_STATE,
    METADATA,
    TARGET,
    TARGET_EPOCH,
    compact_bytes,
    elements,
    string,
    topic_partitions,
)

#: Key and value of a record.
Record = tuple[bytes, bytes | None]
#: The records that the coordinator appends in one batch.
CoordinatorBatch = list[Record]

_STABLE = 0
_HOST = "/10.0.%d.%d"
_TIMEOUT_MS = 300_000


def topic_ids(count: int, random: Random) -> list[str]:
    """Return ids of topics in Kafka's text format."""
    return [_random_member_id(random) for _ in range(count)]


class SimulatedConsumerGroup:
    """One KIP-848 group, and the records that the coordinator writes when the group changes.

    Args:
        group_id: the group id.
        members: number of members.
        topics: topic id → number of partitions; every member subscribes to all topics.
        names: topic id → topic name.
        seed: determines the member ids.
    """

    def __init__(
        self, group_id: str, members: int, topics: dict[str, int], names: dict[str, str], seed: int = 1
    ) -> None:
        self.group_id, self.epoch = group_id, 1
        self._topics = [names[topic] for topic in topics]
        self._random = Random(seed)
        self.held: dict[str, set[tuple[str, int]]] = {self._member(): set() for _ in range(members)}
        self._epochs = dict.fromkeys(self.held, 1)
        ids = list(self.held)
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        for number, place in enumerate(places):
            self.held[ids[number % members]].add(place)

    def start(self) -> CoordinatorBatch:
        """Return the records that a coordinator writes at once for a new group with all members."""
        records = [self._metadata(member, place) for place, member in enumerate(self.held)]
        records.append(self._record(EPOCH, pack(">hib", 0, self.epoch, 0)))
        records += [self._target(member) for member in self.held]
        records.append(self._target_epoch())
        return records + [self._current(member) for member in self.held]

    def restart_member(self, place: int, unchanged: int | None = None) -> Iterator[CoordinatorBatch]:
        """Yield the coordinator's writes when one member leaves and joins again.

        Args:
            place: the member's place in the order of joining.
            unchanged: number of unchanged members that advance to the new epoch; None: all.
        """
        leaving = list(self.held)[place]
        freed = sorted(self.held.pop(leaving))
        del self._epochs[leaving]
        receivers = sorted(self.held, key=lambda member: len(self.held[member]))[: len(freed)]
        moves = list(zip([receivers[index % len(receivers)] for index in range(len(freed))], freed, strict=True))
        for receiver, partition in moves:
            self.held[receiver].add(partition)
        self.epoch += 1
        departed: CoordinatorBatch = [(self._key(kind, leaving), None) for kind in (MEMBER_STATE, TARGET, METADATA)]
        yield [*departed, self._epoch(), *map(self._target, dict.fromkeys(receivers)), self._target_epoch()]
        yield from self._follow(list(dict.fromkeys(receivers)), unchanged)

        joining = self._member()
        self.held[joining] = set(freed)
        for receiver, partition in moves:
            self.held[receiver].discard(partition)
        self.epoch += 1
        self._epochs[joining] = self.epoch
        changed = [*map(self._target, [*dict.fromkeys(receivers), joining])]
        yield [self._metadata(joining, place), self._epoch(), *changed, self._target_epoch()]
        yield from self._follow([*dict.fromkeys(receivers), joining], unchanged)

    def _follow(self, first: list[str], unchanged: int | None) -> Iterator[CoordinatorBatch]:
        rest = [member for member in self.held if member not in set(first)]
        for member in [*first, *rest[: len(rest) if unchanged is None else unchanged]]:
            before, self._epochs[member] = self._epochs[member], self.epoch
            yield [self._current(member, before)]

    def _member(self) -> str:
        return _random_member_id(self._random)

    def _key(self, kind: int, member: str | None = None) -> bytes:
        return pack(">h", kind) + string(self.group_id) + (b"" if member is None else string(member))

    def _record(self, kind: int, value: bytes, member: str | None = None) -> Record:
        return self._key(kind, member), value

    def _epoch(self) -> Record:
        return self._record(EPOCH, pack(">hib", 0, self.epoch, 0))

    def _target_epoch(self) -> Record:
        return self._record(TARGET_EPOCH, pack(">hib", 0, self.epoch, 0))

    def _metadata(self, member: str, place: int) -> Record:
        value = pack(">h", 0) + compact_bytes(None) + compact_bytes(None) + compact_bytes(f"app-{place}")
        value += compact_bytes(_HOST % (place // 250, place % 250)) + elements(*map(compact_bytes, self._topics))
        return self._record(
            METADATA, value + compact_bytes(None) + pack(">i", _TIMEOUT_MS) + compact_bytes(None) + b"\0", member
        )

    def _target(self, member: str) -> Record:
        return self._record(TARGET, pack(">h", 0) + self._share(member) + b"\0", member)

    def _current(self, member: str, before: int = 0) -> Record:
        begin = pack(">hiib", 0, self.epoch, before or self.epoch, _STABLE)
        return self._record(MEMBER_STATE, begin + self._share(member) + elements() + b"\0", member)

    def _share(self, member: str) -> bytes:
        return topic_partitions(sorted(self.held[member]))


def _random_member_id(random: Random) -> str:
    raw = uuid.UUID(int=random.getrandbits(128), version=4).bytes
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
