"""Share groups (KIP-932): record types 10 to 14.

Members share partitions: one may be assigned to several of them, and nothing is revoked before it is given on.
Type 15 says whose share state is set up, and nothing of members.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from streaming.collect.coordinator.parts import (
    CLIENT,
    STABLE,
    EpochProgress,
    GroupPart,
    IdPartitions,
    PartedGroup,
    TopicNames,
    id_partitions,
    named,
    observed,
    progress,
    target_epoch,
    whole,
)
from streaming.collect.coordinator.schema import Field, Value, only, strings
from streaming.collect.encoding import Reader
from streaming.wire.events import GroupObserved, ObservedMember

#: Kafka's name of this kind of group, for its protocol, and as ``protocolType``.
SHARE: Final = "share"

_STATES = {0: STABLE}


@dataclass(frozen=True, slots=True)
class ShareSubscription:
    """What a member subscribes to, and who it is."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShareCurrentAssignment(EpochProgress):
    """What a member has."""

    assigned: IdPartitions


@dataclass(slots=True)
class ShareGroup(PartedGroup[int, ShareSubscription, IdPartitions, ShareCurrentAssignment]):
    """A share group."""


class ShareGroupPart(GroupPart):
    """A record of a share group."""

    __slots__ = ()


def view(group_id: str, group: ShareGroup, timestamp: int, names: TopicNames) -> GroupObserved | None:
    """The full view of a share group; None before its first epoch."""
    return whole(head(group_id, group, timestamp), group.subscriptions, partial(member, group, names))


def head(group_id: str, group: ShareGroup, timestamp: int) -> GroupObserved | None:
    """The view without its members."""
    if group.epoch is None:
        return None
    return GroupObserved(
        group_id=group_id,
        timestamp=timestamp,
        members=[],
        group_epoch=group.epoch,
        group_protocol=SHARE,
        protocol_type=SHARE,
        # ShareGroup.ShareGroupState knows no state between the two.
        state="Stable" if group.subscriptions else "Empty",
        kind=SHARE,
    )


def member(group: ShareGroup, names: TopicNames, member_id: str) -> ObservedMember:
    """A member of the group as it is seen."""
    said, now = group.subscriptions[member_id], group.currents.get(member_id)
    target = group.targets.get(member_id)
    return observed(
        *(member_id, said, now),
        topics=list(said.topics),
        assigned=named(now.assigned, names) if now is not None else {},
        target=named(target, names) if target is not None else None,
    )


EPOCH = Value("ShareGroupMetadataValue", (Field("epoch", Reader.int32, "value"),), make=only)
TARGET_EPOCH = target_epoch("ShareGroupTargetAssignmentMetadataValue")
SUBSCRIPTION = Value(
    "ShareGroupMemberMetadataValue",
    (
        Field("rackId", Reader.nullable_string, "rack_id"),
        *CLIENT,
        Field("subscribedTopicNames", strings, "topics"),
    ),
    make=ShareSubscription,
)
TARGET = Value(
    "ShareGroupTargetAssignmentMemberValue",
    (Field("topicPartitions", id_partitions, "value"),),
    make=only,
)
CURRENT = Value(
    "ShareGroupCurrentMemberAssignmentValue",
    (
        *progress(_STATES),
        Field("assignedPartitions", id_partitions, "assigned"),
    ),
    make=ShareCurrentAssignment,
)
