"""Groups whose state is many small records (KIP-848, KIP-932, KIP-1071), put together.

A group's records are its epoch, the epoch that its target was computed for, and for each member what it says of
itself, its target and its current assignment. Each sets one part of the group, or removes it: in place, as a group
of thousands must not be copied for one member's record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from streaming.collect.coordinator.schema import Field, Value, only, structs
from streaming.collect.encoding import Reader
from streaming.wire.events import GroupObserved, ObservedMember, Partitions

#: ``{topic id: partitions}``.
IdPartitions = dict[str, tuple[int, ...]]
#: Topic id → topic name; an id that the cluster no longer knows stands for itself.
TopicNames = Callable[[str], str]

#: A member that has what it is to have.
STABLE = "STABLE"
#: Parts that are written by themselves, also after the group is gone: none of them brings it back.
_LATE = frozenset({"regexes"})
#: Parts by member id.
_BY_MEMBER = frozenset({"subscriptions", "targets", "currents"})


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who a member is, where members may be static."""

    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """How far a member is on its way to what it is to have."""

    member_epoch: int
    previous_member_epoch: int
    state: str


#: What a kind of group keeps: its epoch, and of a member what it says of itself, its target and what it has now.
E = TypeVar("E")
S = TypeVar("S")
T = TypeVar("T")
N = TypeVar("N", bound=EpochProgress)


@dataclass(slots=True)
class PartedGroup(Generic[E, S, T, N]):
    """What these groups have in common; every mapping is by member id. ``epoch`` None: not known yet.

    Attributes:
        touched: members with a part that was set or removed since this was emptied last.
        at_rest: how many members are stable, by the epoch that they are at.
    """

    epoch: E | None = None
    target_epoch: int | None = None
    subscriptions: dict[str, S] = field(default_factory=dict)
    targets: dict[str, T] = field(default_factory=dict)
    currents: dict[str, N] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    at_rest: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Count who is there already."""
        for now in self.currents.values():
            self._count(now, 1)

    def put(self, part: str, key: str | None, value: Any) -> None:
        """A part is ``value`` from now on, or that entry of it; an entry of None is removed."""
        if key is None:
            setattr(self, part, value)
            return
        entries = getattr(self, part)
        if part in _BY_MEMBER:
            self.touched.add(key)
        before = entries.get(key)
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
        if part == "currents":
            self._count(before, -1)
            self._count(value, 1)

    def _count(self, now: N | None, by: int) -> None:
        if now is not None and now.state == STABLE:
            count = self.at_rest.get(now.member_epoch, 0) + by
            if count:
                self.at_rest[now.member_epoch] = count
            else:
                del self.at_rest[now.member_epoch]


@dataclass(frozen=True, slots=True)
class GroupPart:
    """One record: a part of a group is set, or (value None) removed; ``key`` is the entry of a mapping."""

    group_id: str
    part: str
    value: Any
    key: str | None = None


G = TypeVar("G", bound=PartedGroup[Any, Any, Any, Any])


def apply(group: G | None, record: GroupPart, new: Callable[[], G]) -> G | None:
    """The group after one record, changed in place; None: it is gone. ``new`` makes one that is not known yet."""
    if record.part == "epoch" and record.value is None:
        return None
    if group is None and (record.value is None or record.part in _LATE):
        return None  # the records of a deleted group are removed in any order: none brings it back
    after = group or new()
    after.put(record.part, record.key, record.value)
    return after


def state_of(group: PartedGroup[Any, Any, Any, Any], epoch: int) -> str:
    """The group's state at this epoch as ConsumerGroup and StreamsGroup compute it, from the records alone."""
    if not group.subscriptions:
        return "Empty"
    if group.target_epoch is None or epoch > group.target_epoch:
        return "Assigning"
    behind = group.at_rest.get(group.target_epoch, 0) < len(group.currents)
    return "Reconciling" if behind or len(group.currents) < len(group.subscriptions) else "Stable"


def observed(member_id: str, said: Any, now: EpochProgress | None, **more: Any) -> ObservedMember:
    """A member by what it ``said`` of itself (who it is), how far it is ``now``, and what its kind has ``more``."""
    return ObservedMember(
        member_id=member_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rack_id=said.rack_id,
        member_epoch=now.member_epoch if now is not None else None,
        previous_member_epoch=now.previous_member_epoch if now is not None else None,
        state=now.state if now is not None else None,
        **more,
    )


def whole(
    head: GroupObserved | None, members: Iterable[str], told: Callable[[str], ObservedMember]
) -> GroupObserved | None:
    """The full view of a group: ``head``, which has no members, with each of its ``members``, as ``told``."""
    return (
        None
        if head is None
        else msgspec.structs.replace(head, members=[told(one) for one in sorted(members)])
    )


#: Who a member is, in what it says of itself.
CLIENT = (Field("clientId", Reader.string, "client_id"), Field("clientHost", Reader.string, "client_host"))


def progress(states: Mapping[int, str]) -> tuple[Field, ...]:
    """How far a member is, at the beginning of its current assignment; ``states``: its kind's, by number."""
    return (
        Field("memberEpoch", Reader.int32, "member_epoch"),
        Field("previousMemberEpoch", Reader.int32, "previous_member_epoch"),
        Field("state", lambda reader, what: states.get(reader.int8(what), "UNKNOWN"), "state"),
    )


def target_epoch(name: str) -> Value:
    """The record of this name that holds the epoch of the target."""
    return Value(name, (Field("assignmentEpoch", Reader.int32, "value"),), make=only)


def named(partitions: IdPartitions, names: TopicNames) -> Partitions:
    """The same partitions by topic name, topics and partitions ascending."""
    return {
        topic: list(numbers)
        for topic, numbers in sorted((names(topic_id), numbers) for topic_id, numbers in partitions.items())
        if numbers
    }


def id_partitions(reader: Reader, what: str) -> IdPartitions:
    """An array of topic ids with their partitions."""
    entries = structs(
        Field("topicId", Reader.uuid, "topic_id"),
        Field("partitions", Reader.partitions, "numbers"),
        make=lambda topic_id, numbers: (topic_id, tuple(sorted(numbers))),
    )
    return dict(entries(reader, what))
