"""Groups whose state is many small records (KIP-848, KIP-932, KIP-1071), put together; state in, state out.

A group's records are its epoch, the epoch that its target was computed for, and for each member what it says of
itself, its target and its current assignment. Each sets one part of the group, or removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class PartedGroup(Generic[E, S, T, N]):
    """What these groups have in common; every mapping is by member id. ``epoch`` None: not known yet."""

    epoch: E | None = None
    target_epoch: int | None = None
    subscriptions: Mapping[str, S] = field(default_factory=dict)
    targets: Mapping[str, T] = field(default_factory=dict)
    currents: Mapping[str, N] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupPart:
    """One record: a part of a group is set, or (value None) removed; ``key`` is the entry of a mapping."""

    group_id: str
    part: str
    value: Any
    key: str | None = None


G = TypeVar("G", bound=PartedGroup[Any, Any, Any, Any])


def apply(group: G | None, record: GroupPart, new: Callable[[], G]) -> G | None:
    """The group after one record; None: it is gone. ``new`` makes one of which nothing is known yet."""
    if record.part == "epoch" and record.value is None:
        return None
    if group is None and (record.value is None or record.part in _LATE):
        return None  # the records of a deleted group are removed in any order: none brings it back
    before, value = group or new(), record.value
    if record.key is not None:
        value = getattr(before, record.part) | {record.key: record.value}
        if record.value is None:
            del value[record.key]
    changed: dict[str, Any] = {record.part: value}
    return replace(before, **changed)


def state_of(group: PartedGroup[Any, Any, Any, N], epoch: int) -> str:
    """The group's state at this epoch as ConsumerGroup and StreamsGroup compute it, from the records alone."""
    if not group.subscriptions:
        return "Empty"
    if group.target_epoch is None or epoch > group.target_epoch:
        return "Assigning"
    behind = any(
        now.member_epoch != group.target_epoch or now.state != STABLE for now in group.currents.values()
    )
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
    group_id: str, members: Iterable[str], timestamp: int, told: Callable[[str], ObservedMember], **more: Any
) -> GroupObserved:
    """The full view of a group: each of its ``members``, as ``told``, and what its kind has ``more``."""
    each = [told(member_id) for member_id in sorted(members)]
    return GroupObserved(group_id=group_id, timestamp=timestamp, members=each, **more)


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
