"""A group of any kind: what its records make of it, and the full view that is published."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streaming.collect.coordinator import classic, consumer, parts, share, streams
from streaming.collect.coordinator.classic import ClassicGroup, Generation
from streaming.collect.coordinator.consumer import ConsumerGroup, ConsumerGroupPart
from streaming.collect.coordinator.parts import GroupPart, TopicNames
from streaming.collect.coordinator.share import ShareGroup, ShareGroupPart
from streaming.collect.coordinator.streams import StreamsGroup
from streaming.wire.events import GroupObserved


@dataclass(frozen=True, slots=True)
class CoordinatedGroup:
    """What is known of a group: it is one of these, or (all None) gone."""

    classic: Generation | None = None
    consumer: ConsumerGroup | None = None
    share: ShareGroup | None = None
    streams: StreamsGroup | None = None

    @property
    def parted(self) -> ConsumerGroup | ShareGroup | StreamsGroup | None:
        """The group whose state is many records, where it is one that can be seen; None: it is another, or gone."""
        return None if self.classic is not None else self.consumer or self.share or self.streams


GONE = CoordinatedGroup()


def apply(group: CoordinatedGroup, record: ClassicGroup | GroupPart) -> CoordinatedGroup:
    """The group after one record; one whose state is many records is changed in place."""
    if isinstance(record, ClassicGroup):
        return replace(group, classic=classic.following(group.classic, record.value))
    if isinstance(record, ConsumerGroupPart):
        return replace(group, consumer=parts.apply(group.consumer, record, ConsumerGroup))
    if isinstance(record, ShareGroupPart):
        return replace(group, share=parts.apply(group.share, record, ShareGroup))
    return replace(group, streams=parts.apply(group.streams, record, StreamsGroup))


def view(group_id: str, group: CoordinatedGroup, timestamp: int, names: TopicNames) -> GroupObserved | None:
    """The full view of a group; None before its first generation or epoch, and when it is gone."""
    if group.classic is not None:
        return classic.view(group_id, group.classic, timestamp)
    if group.consumer is not None:
        return consumer.view(group_id, group.consumer, timestamp, names)
    if group.share is not None:
        return share.view(group_id, group.share, timestamp, names)
    if group.streams is not None:
        return streams.view(group_id, group.streams, timestamp)
    return None


def head(
    group_id: str, group: ConsumerGroup | ShareGroup | StreamsGroup, timestamp: int
) -> GroupObserved | None:
    """The view of a group whose state is many records, without its members; None before its first epoch."""
    if isinstance(group, ConsumerGroup):
        return consumer.head(group_id, group, timestamp)
    if isinstance(group, ShareGroup):
        return share.head(group_id, group, timestamp)
    return streams.head(group_id, group, timestamp)
