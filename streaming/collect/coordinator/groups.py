"""A group of either kind: what its records make of it, and the full view that is published. State in, state out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streaming.collect.coordinator import classic, consumer
from streaming.collect.coordinator.classic import ClassicGroup, Generation
from streaming.collect.coordinator.consumer import ConsumerGroup, ConsumerGroupPart, TopicNames
from streaming.wire.events import GroupObserved


@dataclass(frozen=True, slots=True)
class CoordinatedGroup:
    """What is known of a group: it is classic, or a consumer group, or (both None) gone."""

    classic: Generation | None = None
    consumer: ConsumerGroup | None = None


GONE = CoordinatedGroup()


def apply(group: CoordinatedGroup, record: ClassicGroup | ConsumerGroupPart) -> CoordinatedGroup:
    """The group after one record."""
    if isinstance(record, ClassicGroup):
        return replace(group, classic=record.value)
    return replace(group, consumer=consumer.apply(group.consumer, record))


def view(group_id: str, group: CoordinatedGroup, timestamp: int, names: TopicNames) -> GroupObserved | None:
    """The full view of a group; None before its first generation or epoch, and when it is gone."""
    if group.classic is not None:
        return classic.view(group_id, group.classic, timestamp)
    if group.consumer is not None:
        return consumer.view(group_id, group.consumer, timestamp, names)
    return None
