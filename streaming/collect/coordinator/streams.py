"""Streams groups (KIP-1071): record types 17 and 19 to 23.

Members own tasks: a subtopology and a partition. The topology (type 23) lists the topics that subtopologies read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from streaming.collect.coordinator.modern import (
    CLIENT,
    STABLE,
    ClientIdentity,
    EpochProgress,
    ModernGroup,
    TopicNames,
    observed,
    progress,
    target_epoch,
)
from streaming.collect.coordinator.schema import Field, Value, strings, structs
from streaming.collect.encoding import Reader
from streaming.records.events import GroupObserved, ObservedMember, Partitions

#: Kafka's name of this kind of group, its protocol, and its ``protocolType``.
STREAMS: Final = "streams"

_STATES = {1: STABLE, 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}


@dataclass(frozen=True, slots=True)
class Epoch:
    """The group's epoch, and the epoch of the topology whose topics were complete (−1: none yet)."""

    number: int
    validated_topology: int = -1


@dataclass(frozen=True, slots=True)
class StreamsSubscription(ClientIdentity):
    """A member's identity and its Streams process."""

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
    """A member's current tasks, and the active tasks that it still has to revoke."""

    active: Partitions
    standby: Partitions
    warmup: Partitions
    pending_revocation: Partitions


_UNASSIGNED = StreamsCurrentAssignment(None, None, None, {}, {}, {}, {})


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology's epoch, and the topics that its subtopologies read."""

    epoch: int
    topics: tuple[str, ...]


@dataclass
class StreamsGroup(ModernGroup):
    """A streams group; its ``epoch`` is an :class:`Epoch`."""

    topology: Topology | None = None

    def put(self, part: str, key: str | None, value: Any) -> None:
        """See :meth:`ModernGroup.put`."""
        if part == "topology":
            self.topology = value
        else:
            super().put(part, key, value)

    def head(self, group_id: str, timestamp: int) -> GroupObserved | None:
        """See :meth:`ModernGroup.head`."""
        if self.epoch is None:
            return None
        # StreamsGroup.StreamsGroupState, from the records alone.
        is_ready = self.topology is not None and self.topology.epoch == self.epoch.validated_topology
        state = self.state_at(self.epoch.number) if is_ready or not self.subscriptions else "NotReady"
        return GroupObserved(
            group_id=group_id,
            timestamp=timestamp,
            members=[],
            group_epoch=self.epoch.number,
            group_protocol=STREAMS,
            protocol_type=STREAMS,
            state=state,
            kind=STREAMS,
        )

    def member(self, member_id: str, _: TopicNames) -> ObservedMember:
        """See :meth:`ModernGroup.member`; tasks have no topic ids."""
        subscription, target = self.subscriptions[member_id], self.targets.get(member_id)
        current = self.currents.get(member_id, _UNASSIGNED)
        return observed(
            *(member_id, subscription, current),
            topics=list(self.topology.topics) if self.topology is not None else [],
            assigned=current.active,
            group_instance_id=subscription.group_instance_id,
            rebalance_timeout_ms=subscription.rebalance_timeout_ms,
            pending_revocation=current.pending_revocation,
            target=None if target is None else target.active,
            standby=current.standby,
            warmup=current.warmup,
            process_id=subscription.process_id,
            endpoint=UNSET if subscription.endpoint is None else subscription.endpoint,
        )


def _tasks(reader: Reader, what: str) -> Partitions:
    entries = structs(
        Field("subtopologyId", Reader.string, "subtopology"),
        Field("partitions", Reader.partitions, "numbers"),
        make=lambda subtopology, numbers: (subtopology, sorted(numbers)),
    )
    return {subtopology: numbers for subtopology, numbers in sorted(entries(reader, what)) if numbers}


def _endpoint(reader: Reader, what: str) -> str | None:
    """Read a nullable struct: its first byte is negative for null."""
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
    Field("sourceTopics", _indexes), Field("sourceTopicRegex", _indexes), Field("repartitionSourceTopics", _indexes)
)


def _read_topics(reader: Reader, what: str) -> tuple[str, ...]:
    """Return the topics of all subtopologies, ascending; patterns are not resolved."""
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
TARGET = Value("StreamsGroupTargetAssignmentMemberValue", _ROLES, make=Tasks)
CURRENT = Value(
    "StreamsGroupCurrentMemberAssignmentValue",
    (*progress(_STATES), *_ROLES, Field("activeTasksPendingRevocation", _tasks, "pending_revocation")),
    make=StreamsCurrentAssignment,
)
TOPOLOGY = Value(
    "StreamsGroupTopologyValue",
    (Field("epoch", Reader.int32, "epoch"), Field("subtopologies", _read_topics, "topics")),
    make=Topology,
)
