"""What consumers put into classic group records: the embedded consumer protocol, decoded by kafka-python.

``ConsumerProtocolSubscription`` v0 to v3 and ``ConsumerProtocolAssignment``; a higher version reads as the highest
known, as Kafka's ConsumerProtocol does. The user data of ``sticky`` says what a member owned (StickyAssignor:
topics with partitions, and from v1 the generation), because an eager member owns nothing while it joins.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from streaming.collect.encoding import MalformedRecord, Reader
from streaming.collect.records import ClassicMember
from streaming.wire.events import Partitions

#: ``protocolType`` of consumers; Connect and others embed something else.
CONSUMER = "consumer"
_EMPTY: Partitions = {}


@dataclass(frozen=True, slots=True)
class Embedded:
    """A member's subscription and assignment; partitions ascend."""

    topics: tuple[str, ...]
    owned: Partitions
    owned_generation: int
    rack_id: str | None
    assigned: Partitions


def read_member(member: ClassicMember, protocol_type: str, protocol: str | None) -> Embedded:
    """What the member's bytes say; nothing for protocols other than the consumer's.

    Raises:
        MalformedRecord: the bytes end too early.
    """
    if protocol_type != CONSUMER:
        return Embedded((), _EMPTY, -1, None, _EMPTY)
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    # No bytes at all: a member that never joined with this protocol, or was assigned nothing.
    subscription = _decode(
        ConsumerProtocolSubscription, member.subscription, member.member_id, "subscription"
    )
    assignment = _decode(ConsumerProtocolAssignment, member.assignment, member.member_id, "assignment")
    topics: tuple[str, ...] = ()
    owned, generation, rack = _EMPTY, -1, None
    if subscription is not None:
        topics = tuple(subscription.topics)
        version = subscription.version
        owned = _partitions(subscription.owned_partitions) if version >= 1 else _EMPTY
        generation = subscription.generation_id if version >= 2 else -1  # noqa: PLR2004 - KIP-792
        rack = subscription.rack_id if version >= 3 else None  # noqa: PLR2004 - KIP-881
        if protocol == "sticky" and subscription.user_data:
            owned, generation = _sticky(subscription.user_data)
    assigned = _partitions(assignment.assigned_partitions) if assignment is not None else _EMPTY
    return Embedded(topics, owned, generation, rack, assigned)


def _decode(kind: Any, data: bytes, member_id: str, what: str) -> Any:
    if not data:
        return None
    try:
        return kind.decode(data)
    except (struct.error, ValueError, TypeError, IndexError) as error:
        raise MalformedRecord(f"{what} of member {member_id}: {error}") from error


def _partitions(topics: Any) -> Partitions:
    merged: Partitions = {}
    for entry in topics or ():
        merged.setdefault(entry.topic, []).extend(entry.partitions)
    return {topic: sorted(set(numbers)) for topic, numbers in sorted(merged.items()) if numbers}


def _sticky(user_data: bytes) -> tuple[Partitions, int]:
    """StickyAssignor.deserializeTopicPartitionAssignment: what can't be read means that nothing was owned."""
    reader = Reader(user_data)
    try:
        entries = reader.array(
            "userData",
            lambda: (
                reader.string("userData.topic"),
                reader.array("userData.partitions", lambda: reader.int32("p")),
            ),
        )
    except MalformedRecord:
        return {}, -1
    try:
        generation = reader.int32("userData.generation")
    except MalformedRecord:  # v0 ends here
        generation = -1
    return {topic: sorted(numbers) for topic, numbers in sorted(entries) if numbers}, generation
