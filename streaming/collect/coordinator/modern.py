"""Groups with epochs: consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071).

Their state is many records: the group's epoch, the epoch of its target assignment, and each member's
subscription, target and current assignment. A record sets or removes one part in place, as copying a group of
thousands of members for each would be slow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import structs as msgspec_structs

from streaming.collect.coordinator.schema import Field, Value, only, structs
from streaming.collect.encoding import Reader
from streaming.records.events import GroupObserved, ObservedMember, Partitions

ModernKind = Literal["consumer", "share", "streams"]
#: ``{topic id: partitions}``.
IdPartitions = dict[str, tuple[int, ...]]
#: Topic id → topic name; an id that the cluster no longer has is its own name.
TopicNames = Callable[[str], str]

#: State of a member that owns its whole target assignment.
STABLE = "STABLE"


@dataclass(frozen=True, slots=True)
class GroupPart:
    """One record: sets a part of a group, or removes it (value None); ``key``: a member id or a pattern."""

    group_id: str
    kind: ModernKind
    part: str
    value: Any
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A member's identity, where members may be static."""

    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """A member's epochs and state; None before its first assignment."""

    member_epoch: int | None
    previous_member_epoch: int | None
    state: str | None


@dataclass
class ModernGroup(ABC):
    """A group with epochs; all mappings are by member id.

    Attributes:
        epoch: the group's epoch record; None: not known yet.
        target_epoch: the epoch of the target assignment.
        subscriptions: each member's identity and subscription.
        targets: each member's target assignment.
        currents: each member's current assignment, an :class:`EpochProgress`.
        changed: members with a part that was set or removed since somebody cleared this.
    """

    epoch: Any = None
    target_epoch: int | None = None
    subscriptions: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)
    currents: dict[str, Any] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    #: The number of stable members at each epoch.
    _stable: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Count the initial members."""
        for current in self.currents.values():
            self._count(current, 1)

    @abstractmethod
    def head(self, group_id: str, timestamp: int) -> GroupObserved | None:
        """Return the group's snapshot without its members; None before its first epoch."""

    @abstractmethod
    def member(self, member_id: str, names: TopicNames) -> ObservedMember:
        """Return a member for a snapshot."""

    def snapshot(self, group_id: str, timestamp: int, names: TopicNames) -> GroupObserved | None:
        """Return a snapshot of the group; None before its first epoch."""
        head = self.head(group_id, timestamp)
        if head is None:
            return None
        members = [self.member(member_id, names) for member_id in sorted(self.subscriptions)]
        return msgspec_structs.replace(head, members=members)

    def put(self, part: str, key: str | None, value: Any) -> None:
        """Set a part, or the entry ``key`` of a mapping; an entry of None is removed."""
        match part:
            case "epoch":
                self.epoch = value
            case "target_epoch":
                self.target_epoch = value
            case "subscriptions":
                self._put_member(self.subscriptions, key, value)
            case "targets":
                self._put_member(self.targets, key, value)
            case "currents":
                self._count(self.currents.get(key or ""), -1)
                self._count(value, 1)
                self._put_member(self.currents, key, value)

    def _put_member(self, entries: dict[str, Any], key: str | None, value: Any) -> None:
        self.changed.add(key or "")
        put_entry(entries, key, value)

    def _count(self, current: EpochProgress | None, by: int) -> None:
        if current is not None and current.state == STABLE and current.member_epoch is not None:
            count = self._stable.pop(current.member_epoch, 0) + by
            if count:
                self._stable[current.member_epoch] = count

    def state_at(self, epoch: int) -> str:
        """Return the state at this epoch as ConsumerGroup and StreamsGroup compute it, from the records alone."""
        if not self.subscriptions:
            return "Empty"
        if self.target_epoch is None or epoch > self.target_epoch:
            return "Assigning"
        behind = self._stable.get(self.target_epoch, 0) < len(self.currents)
        return "Reconciling" if behind or len(self.currents) < len(self.subscriptions) else "Stable"


def put_entry(entries: dict[str, Any], key: str | None, value: Any) -> None:
    """Set an entry of a mapping, or remove it (value None)."""
    if value is None:
        entries.pop(key or "", None)
    else:
        entries[key or ""] = value


def observed(member_id: str, identity: Any, progress: EpochProgress, **more: Any) -> ObservedMember:
    """Return a member with its identity, its progress and the fields (``more``) of its kind of group."""
    return ObservedMember(
        member_id=member_id,
        client_id=identity.client_id,
        client_host=identity.client_host,
        rack_id=identity.rack_id,
        member_epoch=progress.member_epoch,
        previous_member_epoch=progress.previous_member_epoch,
        state=progress.state,
        **more,
    )


#: Fields of a member's identity.
CLIENT = (Field("clientId", Reader.string, "client_id"), Field("clientHost", Reader.string, "client_host"))


def progress(states: Mapping[int, str]) -> tuple[Field, ...]:
    """Return the first fields of a current assignment; ``states``: the member states of its kind of group."""
    return (
        Field("memberEpoch", Reader.int32, "member_epoch"),
        Field("previousMemberEpoch", Reader.int32, "previous_member_epoch"),
        Field("state", lambda reader, what: states.get(reader.int8(what), "UNKNOWN"), "state"),
    )


def target_epoch(name: str) -> Value:
    """Return the layout of the record with the target assignment's epoch."""
    return Value(name, (Field("assignmentEpoch", Reader.int32, "value"),), make=only)


def named(partitions: IdPartitions, names: TopicNames) -> Partitions:
    """Return the partitions by topic name, topics and partitions ascending."""
    return {
        topic: list(numbers)
        for topic, numbers in sorted((names(topic_id), numbers) for topic_id, numbers in partitions.items())
        if numbers
    }


def id_partitions(reader: Reader, what: str) -> IdPartitions:
    """Read an array of topic ids with their partitions."""
    entries = structs(
        Field("topicId", Reader.uuid, "topic_id"),
        Field("partitions", Reader.partitions, "numbers"),
        make=lambda topic_id, numbers: (topic_id, tuple(sorted(numbers))),
    )
    return dict(entries(reader, what))
