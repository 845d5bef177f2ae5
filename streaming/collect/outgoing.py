"""What is written for an outcome: bytes, and to which topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors.errors import MonitorError
from streaming.collect.coordinator.records import OFFSETS_TOPIC, RawRecord
from streaming.collect.fold import CollectedEvent, Outcome, UnusableRecord
from streaming.records import codec
from streaming.records.dead_letters import dead_letter_headers, fit
from streaming.records.events import Event

if TYPE_CHECKING:
    from streaming.settings.topics import TopicSettings


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is written for one outcome: a membership event, or (``dead``) a dead letter."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    dead: bool = False


def outgoing(item: Outcome | Event, topics: TopicSettings, limits: Mapping[str, int]) -> Outgoing:
    """What is written for an outcome.

    In place of an event that can't be written, or is longer than its topic takes, the record that it follows from
    is dead-lettered; the event itself if it follows from none. The group's next event is a full view again.

    Args:
        item: an event, what was found in a record, or a record that could not be used.
        topics: what the topics are called.
        limits: topic → the longest record that it takes, in bytes.
    """
    if isinstance(item, UnusableRecord):
        return _dead_letter(item.record, item.error, topics, limits)
    event = item.event if isinstance(item, CollectedEvent) else item
    row = item.record if isinstance(item, CollectedEvent) else None
    try:
        key, value, headers = codec.encode_event(event)
    except codec.MalformedEvent as error:
        return _dead_letter(row or RawRecord(-1, -1, -1, None, None), error, topics, limits)
    size, limit = codec.record_bytes(key, value, headers), limits[topics.membership]
    if size > limit:
        refused = codec.RecordTooLarge(
            f"{event.type} of group {event.data.group_id!r} would have {size} bytes, "
            f"max.message.bytes of {topics.membership} is {limit}"
        )
        return _dead_letter(row or RawRecord(-1, -1, -1, key, value), refused, topics, limits)
    return Outgoing(topics.membership, key, value, [*headers])


def _dead_letter(
    row: RawRecord, error: MonitorError, topics: TopicSettings, limits: Mapping[str, int]
) -> Outgoing:
    headers = dead_letter_headers(
        None, error, topic=OFFSETS_TOPIC, partition=row.partition, offset=row.offset
    )
    topic = topics.dead_letters
    return Outgoing(topic, *fit(row.key, row.value, headers, limits[topic]), dead=True)
