"""Consumer groups (KIP-848): record types 3 to 8, and 16: the topics that a subscribed pattern stands for.

The parts of a group are the epoch (type 3), the epoch that its target was computed for (6), and for each member the
subscription (5), the target (7) and the current assignment (8).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from streaming.collect.coordinator.parts import (
    CLIENT,
    STABLE,
    ClientIdentity,
    EpochProgress,
    GroupPart,
    IdPartitions,
    PartedGroup,
    TopicNames,
    id_partitions,
    named,
    observed,
    progress,
    state_of,
    target_epoch,
    whole,
)
from streaming.collect.coordinator.schema import Field, Value, only, strings
from streaming.collect.encoding import Reader
from streaming.wire.events import GroupObserved, ObservedMember

_STATES = {0: STABLE, 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}


@dataclass(frozen=True, slots=True)
class ConsumerSubscription(ClientIdentity):
    """What a member subscribes to, and who it is."""

    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    #: Of a classic member in a group that is being migrated.
    session_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumerCurrentAssignment(EpochProgress):
    """What a member owns and still has to give up."""

    assigned: IdPartitions
    pending_revocation: IdPartitions


@dataclass(slots=True)
class ConsumerGroup(PartedGroup[int, ConsumerSubscription, IdPartitions, ConsumerCurrentAssignment]):
    """A consumer group; ``regexes``: the topics of each pattern."""

    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: How many members name each assignor.
    votes: Counter[str] = field(default_factory=Counter, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Count the members that are there already."""
        PartedGroup.__post_init__(self)
        for subscription in self.subscriptions.values():
            self._vote(subscription, 1)

    def put(self, part: str, key: str | None, value: Any) -> None:
        """See :meth:`PartedGroup.put`."""
        if part == "subscriptions":
            self._vote(self.subscriptions.get(key or ""), -1)
            self._vote(value, 1)
        PartedGroup.put(self, part, key, value)

    @property
    def assignor(self) -> str | None:
        """The assignor that most members name (``ModernGroup.preferredServerAssignor``); None: none does."""
        return min(self.votes, key=lambda name: (-self.votes[name], name), default=None)

    def _vote(self, subscription: ConsumerSubscription | None, by: int) -> None:
        if subscription is None or not subscription.server_assignor:
            return
        self.votes[subscription.server_assignor] += by
        if not self.votes[subscription.server_assignor]:
            del self.votes[subscription.server_assignor]


class ConsumerGroupPart(GroupPart):
    """A record of a consumer group."""

    __slots__ = ()


def view(group_id: str, group: ConsumerGroup, timestamp: int, names: TopicNames) -> GroupObserved | None:
    """The full view of a consumer group; None before its first epoch."""
    return whole(head(group_id, group, timestamp), group.subscriptions, partial(member, group, names))


def head(group_id: str, group: ConsumerGroup, timestamp: int) -> GroupObserved | None:
    """The view without its members."""
    if group.epoch is None:
        return None
    return GroupObserved(
        group_id=group_id,
        timestamp=timestamp,
        members=[],
        group_epoch=group.epoch,
        group_protocol="consumer",
        protocol=group.assignor,
        state=state_of(group, group.epoch),
    )


def member(group: ConsumerGroup, names: TopicNames, member_id: str) -> ObservedMember:
    """A member of the group as it is seen."""
    said, now = group.subscriptions[member_id], group.currents.get(member_id)
    target = group.targets.get(member_id)
    topics = dict.fromkeys(said.topics)
    if said.regex is not None:
        topics |= dict.fromkeys(group.regexes.get(said.regex, ()))
    return observed(
        *(member_id, said, now),
        topics=list(topics),
        assigned=named(now.assigned, names) if now is not None else {},
        group_instance_id=said.group_instance_id,
        session_timeout_ms=said.session_timeout_ms,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        pending_revocation=named(now.pending_revocation, names) if now is not None else {},
        target=named(target, names) if target is not None else None,
    )


def _pattern(reader: Reader, what: str) -> str | None:
    return reader.nullable_string(what) or None


def _session_timeout(reader: Reader, what: str) -> int | None:
    # A nullable struct in a tagged field opens with a varint: 0 for null. Seen in records of 4.3.1.
    return reader.int32(f"{what}.sessionTimeoutMs") if reader.varint(what) else None


EPOCH = Value("ConsumerGroupMetadataValue", (Field("epoch", Reader.int32, "value"),), make=only)
TARGET_EPOCH = target_epoch("ConsumerGroupTargetAssignmentMetadataValue")
SUBSCRIPTION = Value(
    "ConsumerGroupMemberMetadataValue",
    (
        Field("instanceId", Reader.nullable_string, "group_instance_id"),
        Field("rackId", Reader.nullable_string, "rack_id"),
        *CLIENT,
        Field("subscribedTopicNames", strings, "topics"),
        Field("subscribedTopicRegex", _pattern, "regex"),
        Field("rebalanceTimeoutMs", Reader.int32, "rebalance_timeout_ms"),
        Field("serverAssignor", Reader.nullable_string, "server_assignor"),
    ),
    make=ConsumerSubscription,
    tags={0: Field("classicMemberMetadata", _session_timeout, "session_timeout_ms")},
)
TARGET = Value(
    "ConsumerGroupTargetAssignmentMemberValue",
    (Field("topicPartitions", id_partitions, "value"),),
    make=only,
)
CURRENT = Value(
    "ConsumerGroupCurrentMemberAssignmentValue",
    (
        *progress(_STATES),
        Field("assignedPartitions", id_partitions, "assigned"),
        Field("partitionsPendingRevocation", id_partitions, "pending_revocation"),
    ),
    make=ConsumerCurrentAssignment,
)
PATTERN = Value("ConsumerGroupRegularExpressionValue", (Field("topics", strings, "value"),), make=only)
