"""Partition counts that the membership topic already has: a restarted collector does not repeat them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from assignors.errors import BadInput
from streaming.kafka.topic_reader import RecordOrder, read_to_end
from streaming.records import codec
from streaming.records.events import GroupDeleted, PartitionsChanged, TopicMetadata

if TYPE_CHECKING:
    from streaming.settings.config import Settings

COUNT_TYPES = ("topic.partitions_changed", "group.deleted")


def published(settings: Settings, source: str) -> dict[str, dict[str, TopicMetadata]]:
    """Return group → topic → what was published last by events with this ``ce_source``; reads the topic once.

    Only two types of event are decoded, so this is as fast as the topic can be read.

    Raises:
        TopicUnreadable, NotAllowed, ClusterUnavailable: as named.
    """
    told: dict[str, dict[str, TopicMetadata]] = {}
    order = RecordOrder()
    for message in read_to_end(settings.kafka, settings.topics.membership):
        if codec.ce_attributes(message.headers()).get("type") in COUNT_TYPES and order.accept(message):
            remember(told, message.key(), message.value(), message.headers(), source)
    return told


def remember(
    told: dict[str, dict[str, TopicMetadata]],
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] | None,
    source: str,
) -> None:
    """Take one record of the membership topic into account; a deleted group was told nothing."""
    attributes = codec.ce_attributes(headers)
    kind = attributes.get("type")
    if kind not in COUNT_TYPES:
        return
    try:
        data = codec.decode_event(key, value, attributes).data
    except BadInput:
        return  # the Spark job sends it to the dead letters
    if isinstance(data, GroupDeleted):
        told.pop(data.group_id, None)
    elif isinstance(data, PartitionsChanged) and attributes["source"] == source:
        told.setdefault(data.group_id, {}).update(data.topics)
