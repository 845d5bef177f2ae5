"""Streams groups (KIP-1071): record types 17 and 19 to 23.

Members hold tasks: a task is a subtopology and a partition. The topology (type 23) says what topics are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import UNSET

from streaming.collect.coordinator.parts import (
    CLIENT,
    STABLE,
    ClientIdentity,
    EpochProgress,
    GroupPart,
    PartedGroup,
    observed,
    progress,
    state_of,
    target_epoch,
    whole,
)
from streaming.collect.coordinator.schema import Field, Value, strings, structs
from streaming.collect.encoding import Reader
from streaming.wire.events import GroupObserved, ObservedMember, Partitions

#: Kafka's name of this kind of group, for its protocol, and as ``protocolType``.
STREAMS: Final = "streams"

_STATES = {1: STABLE, 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}


@dataclass(frozen=True, slots=True)
class Epoch:
    """The group's epoch, and the topology's epoch that its topics were found complete for (−1: none yet)."""

    number: int
    validated_topology: int = -1


@dataclass(frozen=True, slots=True)
class StreamsSubscription(ClientIdentity):
    """Who a member is, and which instance it belongs to."""

    rebalance_timeout_ms: int
    process_id: str
    endpoint: str | None


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks in their three roles, each ``{subtopology: partitions}``."""

    active: Partitions
    standby: Partitions
    warmup: Partitions


@dataclass(frozen=True, slots=True)
class StreamsCurrentAssignment(EpochProgress):
    """What a member has, and the active tasks that it still has to give up."""

    active: Partitions
    standby: Partitions
    warmup: Partitions
    pending_revocation: Partitions


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology's epoch, and the topics that its subtopologies read."""

    epoch: int
    topics: tuple[str, ...]


@dataclass(slots=True)
class StreamsGroup(PartedGroup[Epoch, StreamsSubscription, Tasks, StreamsCurrentAssignment]):
    """A streams group."""

    topology: Topology | None = None


class StreamsGroupPart(GroupPart):
    """A record of a streams group."""

    __slots__ = ()


def view(group_id: str, group: StreamsGroup, timestamp: int) -> GroupObserved | None:
    """The full view of a streams group; None before its first epoch."""
    return whole(head(group_id, group, timestamp), group.subscriptions, partial(member, group))


def head(group_id: str, group: StreamsGroup, timestamp: int) -> GroupObserved | None:
    """The view without its members."""
    if group.epoch is None:
        return None
    return GroupObserved(
        group_id=group_id,
        timestamp=timestamp,
        members=[],
        group_epoch=group.epoch.number,
        group_protocol=STREAMS,
        protocol_type=STREAMS,
        state=_state(group, group.epoch),
        kind=STREAMS,
    )


def member(group: StreamsGroup, member_id: str) -> ObservedMember:
    """A member of the group as it is seen."""
    said, now = group.subscriptions[member_id], group.currents.get(member_id)
    target = group.targets.get(member_id)
    return observed(
        *(member_id, said, now),
        topics=list(group.topology.topics) if group.topology is not None else [],
        assigned=now.active if now is not None else {},
        group_instance_id=said.group_instance_id,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        pending_revocation=now.pending_revocation if now is not None else {},
        target=target.active if target is not None else None,
        standby=now.standby if now is not None else {},
        warmup=now.warmup if now is not None else {},
        process_id=said.process_id,
        endpoint=UNSET if said.endpoint is None else said.endpoint,
    )


def _state(group: StreamsGroup, epoch: Epoch) -> str:
    """StreamsGroup.StreamsGroupState, from the records alone."""
    ready = group.topology is not None and group.topology.epoch == epoch.validated_topology
    return state_of(group, epoch.number) if ready or not group.subscriptions else "NotReady"


def _tasks(reader: Reader, what: str) -> Partitions:
    entries = structs(
        Field("subtopologyId", Reader.string, "subtopology"),
        Field("partitions", Reader.partitions, "numbers"),
        make=lambda subtopology, numbers: (subtopology, sorted(numbers)),
    )
    return {subtopology: numbers for subtopology, numbers in sorted(entries(reader, what)) if numbers}


def _endpoint(reader: Reader, what: str) -> str | None:
    """A nullable struct: a byte that is below 0 for null comes first."""
    if reader.int8(what) < 0:
        return None
    host, port = reader.string(f"{what}.host"), reader.int16(f"{what}.port") & 0xFFFF
    reader.tagged()
    return f"{host}:{port}"


def _topic_names(reader: Reader, what: str) -> tuple[str, ...]:
    entries = structs(
        Field("name", Reader.string, "name"),
        Field("partitions", Reader.int32),
        Field("replicationFactor", Reader.int16),
        Field("topicConfigs", structs(Field("key", Reader.string), Field("value", Reader.string))),
        make=lambda name: name,
    )
    return tuple(entries(reader, what))


def _indexes(reader: Reader, what: str) -> list[int]:
    return reader.array(what, lambda: reader.int16(what))


_COPARTITIONS = structs(
    Field("sourceTopics", _indexes),
    Field("sourceTopicRegex", _indexes),
    Field("repartitionSourceTopics", _indexes),
)


def _read_topics(reader: Reader, what: str) -> tuple[str, ...]:
    """What all subtopologies read, ascending; patterns are not resolved."""
    entries = structs(
        Field("subtopologyId", Reader.string),
        Field("sourceTopics", strings, "sources"),
        Field("sourceTopicRegex", strings),
        Field("stateChangelogTopics", _topic_names),
        Field("repartitionSinkTopics", strings),
        Field("repartitionSourceTopics", _topic_names, "repartitions"),
        Field("copartitionGroups", _COPARTITIONS),
        make=lambda sources, repartitions: (*sources, *repartitions),
    )
    return tuple(sorted({topic for topics in entries(reader, what) for topic in topics}))


EPOCH = Value(
    "StreamsGroupMetadataValue",
    (Field("epoch", Reader.int32, "number"), Field("metadataHash", Reader.int64)),
    make=Epoch,
    tags={0: Field("validatedTopologyEpoch", Reader.int32, "validated_topology")},
)
SUBSCRIPTION = Value(
    "StreamsGroupMemberMetadataValue",
    (
        Field("instanceId", Reader.nullable_string, "group_instance_id"),
        Field("rackId", Reader.nullable_string, "rack_id"),
        *CLIENT,
        Field("rebalanceTimeoutMs", Reader.int32, "rebalance_timeout_ms"),
        Field("topologyEpoch", Reader.int32),
        Field("processId", Reader.string, "process_id"),
        Field("userEndpoint", _endpoint, "endpoint"),
    ),
    make=StreamsSubscription,
)
TARGET_EPOCH = target_epoch("StreamsGroupTargetAssignmentMetadataValue")
_ROLES = (
    Field("activeTasks", _tasks, "active"),
    Field("standbyTasks", _tasks, "standby"),
    Field("warmupTasks", _tasks, "warmup"),
)
TARGET = Value(
    "StreamsGroupTargetAssignmentMemberValue",
    _ROLES,
    make=Tasks,
)
CURRENT = Value(
    "StreamsGroupCurrentMemberAssignmentValue",
    (
        *progress(_STATES),
        *_ROLES,
        Field("activeTasksPendingRevocation", _tasks, "pending_revocation"),
    ),
    make=StreamsCurrentAssignment,
)
TOPOLOGY = Value(
    "StreamsGroupTopologyValue",
    (Field("epoch", Reader.int32, "epoch"), Field("subtopologies", _read_topics, "topics")),
    make=Topology,
)
