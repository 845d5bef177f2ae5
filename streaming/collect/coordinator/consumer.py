"""Consumer groups (KIP-848): many small records, put together; state in, state out.

A group's records are its epoch (type 3), the epoch that its target was computed for (6), and for each member the
subscription (5), the target (7) and the current assignment (8); and the topics that a subscribed pattern stands for
(16). Each sets one part of the group, or removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from streaming.collect.coordinator.schema import Field, Value, only, strings, structs
from streaming.collect.encoding import Reader
from streaming.wire.events import GroupObserved, ObservedMember, Partitions

#: ``{topic id: partitions}``.
IdPartitions = dict[str, tuple[int, ...]]
#: Topic id → topic name; an id that the cluster no longer knows stands for itself.
TopicNames = Callable[[str], str]
#: The parts of a group: two numbers, and mappings by member id or (regexes) by pattern.
Part = Literal["epoch", "target_epoch", "subscriptions", "targets", "currents", "regexes"]

_STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member subscribes to, and who it is."""

    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    #: Of a classic member in a group that is being migrated.
    session_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Current:
    """What a member owns and still has to give up."""

    member_epoch: int
    previous_member_epoch: int
    state: str
    assigned: IdPartitions
    pending_revocation: IdPartitions


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group; every mapping is by member id, ``regexes`` by pattern."""

    epoch: int | None = None
    target_epoch: int | None = None
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    targets: Mapping[str, IdPartitions] = field(default_factory=dict)
    currents: Mapping[str, Current] = field(default_factory=dict)
    regexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerGroupPart:
    """One record: a part of a group is set, or (value None) removed; ``key`` is the entry of a mapping."""

    group_id: str
    part: Part
    value: Any
    key: str | None = None


def apply(group: ConsumerGroup | None, record: ConsumerGroupPart) -> ConsumerGroup | None:
    """The group after one record; None: it is gone."""
    if record.part == "epoch" and record.value is None:
        return None
    if group is None and (record.value is None or record.part == "regexes"):
        return None  # the records of a deleted group are removed in any order: none brings it back
    before, value = group or ConsumerGroup(), record.value
    if record.key is not None:
        value = getattr(before, record.part) | {record.key: record.value}
        if record.value is None:
            del value[record.key]
    changed: dict[str, Any] = {record.part: value}
    return replace(before, **changed)


def view(group_id: str, group: ConsumerGroup, timestamp: int, names: TopicNames) -> GroupObserved | None:
    """The full view of a consumer group; None before its first epoch."""
    if group.epoch is None:
        return None
    return GroupObserved(
        group_id=group_id,
        timestamp=timestamp,
        members=[_member(group, member_id, names) for member_id in sorted(group.subscriptions)],
        group_epoch=group.epoch,
        group_protocol="consumer",
        protocol=next((m.server_assignor for m in group.subscriptions.values() if m.server_assignor), None),
        state=_state(group),
    )


def _member(group: ConsumerGroup, member_id: str, names: TopicNames) -> ObservedMember:
    said, now = group.subscriptions[member_id], group.currents.get(member_id)
    target = group.targets.get(member_id)
    topics = dict.fromkeys(said.topics)
    if said.regex is not None:
        topics |= dict.fromkeys(group.regexes.get(said.regex, ()))
    return ObservedMember(
        member_id=member_id,
        topics=list(topics),
        assigned=named(now.assigned, names) if now is not None else {},
        group_instance_id=said.group_instance_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rack_id=said.rack_id,
        session_timeout_ms=said.session_timeout_ms,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        member_epoch=now.member_epoch if now is not None else None,
        previous_member_epoch=now.previous_member_epoch if now is not None else None,
        state=now.state if now is not None else None,
        pending_revocation=named(now.pending_revocation, names) if now is not None else {},
        target=named(target, names) if target is not None else None,
    )


def _state(group: ConsumerGroup) -> str:
    """ConsumerGroup.ConsumerGroupState, from the records alone."""
    if not group.subscriptions:
        return "Empty"
    if group.target_epoch is None or (group.epoch or 0) > group.target_epoch:
        return "Assigning"
    behind = any(
        now.member_epoch != group.target_epoch or now.state != "STABLE" for now in group.currents.values()
    )
    return "Reconciling" if behind or len(group.currents) < len(group.subscriptions) else "Stable"


def named(partitions: IdPartitions, names: TopicNames) -> Partitions:
    """The same partitions by topic name, topics and partitions ascending."""
    return {
        topic: list(numbers)
        for topic, numbers in sorted((names(topic_id), numbers) for topic_id, numbers in partitions.items())
        if numbers
    }


def _state_name(reader: Reader, what: str) -> str:
    return _STATES.get(reader.int8(what), "UNKNOWN")


def _pattern(reader: Reader, what: str) -> str | None:
    return reader.nullable_string(what) or None


def _session_timeout(reader: Reader, what: str) -> int | None:
    # A nullable struct in a tagged field opens with a varint: 0 for null. Seen in records of 4.3.1.
    return reader.int32(f"{what}.sessionTimeoutMs") if reader.varint(what) else None


def _partitions(reader: Reader, what: str) -> IdPartitions:
    entries = structs(
        Field("topicId", Reader.uuid, "topic_id"),
        Field("partitions", Reader.partitions, "numbers"),
        make=lambda topic_id, numbers: (topic_id, tuple(sorted(numbers))),
    )
    return dict(entries(reader, what))


EPOCH = Value("ConsumerGroupMetadataValue", (Field("epoch", Reader.int32, "value"),), make=only)
TARGET_EPOCH = Value(
    "ConsumerGroupTargetAssignmentMetadataValue",
    (Field("assignmentEpoch", Reader.int32, "value"),),
    make=only,
)
SUBSCRIPTION = Value(
    "ConsumerGroupMemberMetadataValue",
    (
        Field("instanceId", Reader.nullable_string, "group_instance_id"),
        Field("rackId", Reader.nullable_string, "rack_id"),
        Field("clientId", Reader.string, "client_id"),
        Field("clientHost", Reader.string, "client_host"),
        Field("subscribedTopicNames", strings, "topics"),
        Field("subscribedTopicRegex", _pattern, "regex"),
        Field("rebalanceTimeoutMs", Reader.int32, "rebalance_timeout_ms"),
        Field("serverAssignor", Reader.nullable_string, "server_assignor"),
    ),
    make=Subscription,
    tags={0: Field("classicMemberMetadata", _session_timeout, "session_timeout_ms")},
)
TARGET = Value(
    "ConsumerGroupTargetAssignmentMemberValue",
    (Field("topicPartitions", _partitions, "value"),),
    make=only,
)
CURRENT = Value(
    "ConsumerGroupCurrentMemberAssignmentValue",
    (
        Field("memberEpoch", Reader.int32, "member_epoch"),
        Field("previousMemberEpoch", Reader.int32, "previous_member_epoch"),
        Field("state", _state_name, "state"),
        Field("assignedPartitions", _partitions, "assigned"),
        Field("partitionsPendingRevocation", _partitions, "pending_revocation"),
    ),
    make=Current,
)
PATTERN = Value("ConsumerGroupRegularExpressionValue", (Field("topics", strings, "value"),), make=only)
