"""Consumer groups (KIP-848): record types 3 to 8, and 16 with the topics of a subscribed pattern."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from streaming.collect.coordinator.modern import (
    CLIENT,
    STABLE,
    ClientIdentity,
    EpochProgress,
    IdPartitions,
    ModernGroup,
    TopicNames,
    id_partitions,
    named,
    observed,
    progress,
    put_entry,
    target_epoch,
)
from streaming.collect.coordinator.schema import Field, Value, only, strings
from streaming.collect.encoding import Reader
from streaming.records.events import GroupObserved, ObservedMember

_STATES = {0: STABLE, 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}


@dataclass(frozen=True, slots=True)
class ConsumerSubscription(ClientIdentity):
    """A member's identity and subscription; ``session_timeout_ms`` of a classic member in a migrating group."""

    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    session_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumerCurrentAssignment(EpochProgress):
    """The partitions that a member owns, and those that it still has to revoke."""

    assigned: IdPartitions
    pending_revocation: IdPartitions


_UNASSIGNED = ConsumerCurrentAssignment(None, None, None, {}, {})


@dataclass
class ConsumerGroup(ModernGroup):
    """A consumer group.

    Attributes:
        regexes: the topics of each pattern.
        votes: the number of members that name each assignor.
    """

    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    votes: Counter[str] = field(default_factory=Counter, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Count the initial members."""
        super().__post_init__()
        for subscription in self.subscriptions.values():
            self._vote(subscription, 1)

    def put(self, part: str, key: str | None, value: Any) -> None:
        """See :meth:`ModernGroup.put`."""
        if part == "regexes":
            put_entry(self.regexes, key, value)
            return
        if part == "subscriptions":
            self._vote(self.subscriptions.get(key or ""), -1)
            self._vote(value, 1)
        super().put(part, key, value)

    @property
    def assignor(self) -> str | None:
        """The assignor that most members name (``ModernGroup.preferredServerAssignor``); None: no member does."""
        return min(self.votes, key=lambda name: (-self.votes[name], name), default=None)

    def _vote(self, subscription: ConsumerSubscription | None, by: int) -> None:
        if subscription is None or not subscription.server_assignor:
            return
        self.votes[subscription.server_assignor] += by
        if not self.votes[subscription.server_assignor]:
            del self.votes[subscription.server_assignor]

    def head(self, group_id: str, timestamp: int) -> GroupObserved | None:
        """See :meth:`ModernGroup.head`."""
        if self.epoch is None:
            return None
        return GroupObserved(
            group_id=group_id,
            timestamp=timestamp,
            members=[],
            group_epoch=self.epoch,
            group_protocol="consumer",
            protocol=self.assignor,
            state=self.state_at(self.epoch),
        )

    def member(self, member_id: str, names: TopicNames) -> ObservedMember:
        """See :meth:`ModernGroup.member`."""
        subscription, target = self.subscriptions[member_id], self.targets.get(member_id)
        current = self.currents.get(member_id, _UNASSIGNED)
        topics = dict.fromkeys((*subscription.topics, *self.regexes.get(subscription.regex, ())))
        return observed(
            *(member_id, subscription, current),
            topics=list(topics),
            assigned=named(current.assigned, names),
            group_instance_id=subscription.group_instance_id,
            session_timeout_ms=subscription.session_timeout_ms,
            rebalance_timeout_ms=subscription.rebalance_timeout_ms,
            pending_revocation=named(current.pending_revocation, names),
            target=None if target is None else named(target, names),
        )


def _pattern(reader: Reader, what: str) -> str | None:
    return reader.nullable_string(what) or None


def _session_timeout(reader: Reader, what: str) -> int | None:
    # A nullable struct in a tagged field begins with a varint, 0 for null. Taken from records of Kafka 4.3.1.
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
    "ConsumerGroupTargetAssignmentMemberValue", (Field("topicPartitions", id_partitions, "value"),), make=only
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
