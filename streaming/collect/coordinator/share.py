"""Share groups (KIP-932): record types 10 to 14.

Several members may share a partition, and a new member receives it without a revocation. Type 15 lists topics with
initialized share state and says nothing about members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streaming.collect.coordinator.modern import (
    CLIENT,
    STABLE,
    EpochProgress,
    IdPartitions,
    ModernGroup,
    TopicNames,
    id_partitions,
    named,
    observed,
    progress,
    target_epoch,
)
from streaming.collect.coordinator.schema import Field, Value, only, strings
from streaming.collect.encoding import Reader
from streaming.records.events import GroupObserved, ObservedMember

#: Kafka's name of this kind of group, its protocol, and its ``protocolType``.
SHARE: Final = "share"

_STATES = {0: STABLE}


@dataclass(frozen=True, slots=True)
class ShareSubscription:
    """A member's identity and subscription."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShareCurrentAssignment(EpochProgress):
    """A member's current partitions."""

    assigned: IdPartitions


_UNASSIGNED = ShareCurrentAssignment(None, None, None, {})


@dataclass
class ShareGroup(ModernGroup):
    """A share group."""

    def head(self, group_id: str, timestamp: int) -> GroupObserved | None:
        """See :meth:`ModernGroup.head`."""
        if self.epoch is None:
            return None
        return GroupObserved(
            group_id=group_id,
            timestamp=timestamp,
            members=[],
            group_epoch=self.epoch,
            group_protocol=SHARE,
            protocol_type=SHARE,
            # ShareGroup.ShareGroupState has no state in between.
            state="Stable" if self.subscriptions else "Empty",
            kind=SHARE,
        )

    def member(self, member_id: str, names: TopicNames) -> ObservedMember:
        """See :meth:`ModernGroup.member`."""
        subscription, target = self.subscriptions[member_id], self.targets.get(member_id)
        current = self.currents.get(member_id, _UNASSIGNED)
        return observed(
            *(member_id, subscription, current),
            topics=list(subscription.topics),
            assigned=named(current.assigned, names),
            target=None if target is None else named(target, names),
        )


EPOCH = Value("ShareGroupMetadataValue", (Field("epoch", Reader.int32, "value"),), make=only)
TARGET_EPOCH = target_epoch("ShareGroupTargetAssignmentMetadataValue")
SUBSCRIPTION = Value(
    "ShareGroupMemberMetadataValue",
    (Field("rackId", Reader.nullable_string, "rack_id"), *CLIENT, Field("subscribedTopicNames", strings, "topics")),
    make=ShareSubscription,
)
TARGET = Value("ShareGroupTargetAssignmentMemberValue", (Field("topicPartitions", id_partitions, "value"),), make=only)
CURRENT = Value(
    "ShareGroupCurrentMemberAssignmentValue",
    (*progress(_STATES), Field("assignedPartitions", id_partitions, "assigned")),
    make=ShareCurrentAssignment,
)
