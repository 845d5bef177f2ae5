"""Writes the records that a coordinator would write for a KIP-848 group, without a cluster.

:class:`EpochLog` simulates the coordinator: members join, send heartbeats and leave. Each write is a batch of records
with one timestamp, in Kafka's encoding. Members reconcile as Kafka's ``CurrentAssignmentBuilder`` does: a member
revokes partitions outside its target, then advances to the new epoch, then gets partitions that others have revoked.
"""

from dataclasses import dataclass, field
from struct import pack

from streaming.collect.coordinator.records import RawRecord
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

Place = tuple[str, int]
_STABLE, _UNREVOKED, _UNRELEASED = 0, 1, 2


def topic_id(name: str) -> str:
    """Return the id of a topic in Kafka's text format."""
    return (name.encode().hex() + "A" * 22)[:21] + "A"


@dataclass
class _Member:
    epoch: int = 0
    previous: int = 0
    state: int = _STABLE
    held: set[Place] = field(default_factory=set)
    revoking: set[Place] = field(default_factory=set)
    target: set[Place] = field(default_factory=set)
    instance: str | None = None


class EpochLog:
    """The records of the KIP-848 group ``g`` in one partition of the offsets topic.

    ``topics``: number of partitions by topic name; every member subscribes to all topics.
    """

    def __init__(self, topics: dict[str, int]) -> None:
        self._topics = topics
        self.places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        self.names = {topic_id(topic): topic for topic in topics}
        self.members: dict[str, _Member] = {}
        self._owner_by_partition: dict[Place, str] = {}
        self._epoch = 1
        self._offset, self.now = 0, 1_700_000_000_000
        self._run: list[RawRecord] = []

    def join(self, *member_ids: str, instance: str | None = None) -> list[RawRecord]:
        """Add members to the simulated group in one write; return the written records."""
        for member_id in member_ids:
            self.members[member_id] = _Member(instance=instance)
            self._put_metadata(member_id)
        self._assign()
        for member_id in member_ids:
            self._reconcile(member_id)
        return self._take_records()

    def leave(self, *member_ids: str) -> list[RawRecord]:
        """Remove members from the simulated group in one write; return the written records."""
        for member_id in member_ids:
            gone = self.members.pop(member_id)
            for place in gone.held | gone.revoking:
                self._owner_by_partition.pop(place, None)
            for kind in (MEMBER_STATE, TARGET, METADATA):
                self._append_record(kind, None, member_id)
        self._assign()
        return self._take_records()

    def away(self, member_id: str) -> list[RawRecord]:
        """Let a static member leave temporarily; the member keeps its assignment."""
        member = self.members[member_id]
        progress = pack(">iib", -2, member.epoch, _STABLE)
        self._append_record(MEMBER_STATE, progress + _assignment(member.held) + _assignment(set()), member_id)
        return self._take_records()

    def back(self, member_id: str, new_member_id: str) -> list[RawRecord]:
        """Let a static member rejoin under a new member id, which takes over the assignment of the old id."""
        member = self.members.pop(member_id)
        for kind in (MEMBER_STATE, TARGET, METADATA):
            self._append_record(kind, None, member_id)
        self.members[new_member_id] = member
        self._owner_by_partition.update(dict.fromkeys(member.held, new_member_id))
        self._put_metadata(new_member_id)
        self._append_record(TARGET, _assignment(member.target), new_member_id)
        progress = pack(">iib", member.epoch, member.previous, member.state)
        self._append_record(
            MEMBER_STATE, progress + _assignment(member.held) + _assignment(member.revoking), new_member_id
        )
        return self._take_records()

    def beat(self, member_id: str) -> list[RawRecord]:
        """Send a heartbeat: the member confirms revoked partitions and gets its next assignment, if there is one."""
        self._reconcile(member_id)
        return self._take_records()

    def _has_pending_step(self, member: _Member) -> bool:
        return member.epoch != self._epoch or member.state != _STABLE

    def _assign(self) -> None:
        """Start a new epoch whose target assignments move as few partitions as possible."""
        self._epoch += 1
        self._append_record(EPOCH, pack(">i", self._epoch))
        names = sorted(self.members)
        assigned_partitions: set[Place] = set()
        targets: dict[str, list[Place]] = {name: [] for name in names}
        quota, more = divmod(len(self.places), len(names)) if names else (0, 0)
        for name in names:
            most = quota + (more > 0)
            kept = sorted(self.members[name].target - assigned_partitions)[:most]
            more -= len(kept) > quota
            targets[name] = kept
            assigned_partitions.update(kept)
        free = iter([place for place in self.places if place not in assigned_partitions])
        for name in names:
            while len(targets[name]) < quota and (place := next(free, None)) is not None:
                targets[name].append(place)
        for name in names:
            if len(targets[name]) == quota and (place := next(free, None)) is not None:
                targets[name].append(place)
        for name in names:
            member = self.members[name]
            if member.target != set(targets[name]) or not member.epoch:
                member.target = set(targets[name])
                self._append_record(TARGET, _assignment(member.target), name)
        self._append_record(TARGET_EPOCH, pack(">i", self._epoch))

    def _reconcile(self, member_id: str) -> None:
        member = self.members[member_id]
        if not self._has_pending_step(member):
            return
        for place in member.revoking:
            self._owner_by_partition.pop(place, None)
        member.revoking = set()
        surplus = member.held - member.target
        if surplus:
            member.held -= surplus
            member.revoking, member.state = surplus, _UNREVOKED
        else:
            if member.epoch != self._epoch:
                member.previous, member.epoch = member.epoch, self._epoch
            assignable_partitions = {
                place for place in member.target if self._owner_by_partition.get(place, member_id) == member_id
            }
            member.held = assignable_partitions
            self._owner_by_partition.update(dict.fromkeys(assignable_partitions, member_id))
            member.state = _STABLE if assignable_partitions == member.target else _UNRELEASED
        progress = pack(">iib", member.epoch, member.previous, member.state)
        self._append_record(MEMBER_STATE, progress + _assignment(member.held) + _assignment(member.revoking), member_id)

    def _put_metadata(self, member_id: str) -> None:
        topics = elements(*map(compact_bytes, self._topics))
        metadata = compact_bytes(self.members[member_id].instance) + compact_bytes(None)
        metadata += compact_bytes(f"client-{member_id}") + compact_bytes("/10.0.0.1") + topics + compact_bytes(None)
        self._append_record(METADATA, metadata + pack(">i", 300_000) + compact_bytes(None), member_id)

    def _append_record(self, kind: int, value: bytes | None, member_id: str | None = None) -> None:
        key = pack(">h", kind) + string("g") + (b"" if member_id is None else string(member_id))
        versioned_value = None if value is None else pack(">h", 0) + value + b"\x00"
        self._run.append(RawRecord(0, self._offset, self.now, key, versioned_value))
        self._offset += 1

    def _take_records(self) -> list[RawRecord]:
        run, self._run = self._run, []
        self.now += 7
        return run


def _assignment(places: set[Place]) -> bytes:
    return topic_partitions((topic_id(topic), number) for topic, number in sorted(places))
