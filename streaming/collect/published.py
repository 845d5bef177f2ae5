"""What the membership topic already says: a restarted collector does not repeat it, and answers who asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from assignors.errors import BadInput
from streaming.collect.asks import asked
from streaming.kafka.topic_reader import read_to_end
from streaming.wire import codec
from streaming.wire.events import (
    TYPE_NAMES,
    GroupAsked,
    GroupDeleted,
    GroupObserved,
    PartitionsChanged,
    TopicMetadata,
)

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_TYPES = ("topic.partitions_changed", "group.deleted")


class Published(NamedTuple):
    """What is published: group → topic → what it was told last, and the groups that were asked about, each with the
    place of the question, and of which no full view was told since.
    """

    counts: dict[str, dict[str, TopicMetadata]]
    asked: dict[str, str]


def published(settings: Settings, source: str) -> Published:
    """What was told in events with this ``ce_source``, and who asked; reads the topic once.

    Only two types of event are decoded, so this is as fast as the topic can be read.

    Raises:
        TopicUnreadable, NotAllowed, ClusterUnavailable: as named.
    """
    told: dict[str, dict[str, TopicMetadata]] = {}
    open_asks: dict[str, str] = {}
    for message in read_to_end(settings.kafka, settings.topics.membership):
        kind = remember(told, message.key(), message.value(), message.headers(), source)
        if kind == TYPE_NAMES[GroupAsked]:
            open_asks |= asked([message])
        elif kind == TYPE_NAMES[GroupObserved] and open_asks:
            open_asks.pop((message.key() or b"").decode(errors="replace"), None)
    return Published(told, open_asks)


def remember(
    told: dict[str, dict[str, TopicMetadata]],
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] | None,
    source: str,
) -> str | None:
    """Take one record of the membership topic into account; a deleted group was told nothing. Returns its type."""
    attributes = codec.ce_attributes(headers)
    kind = attributes.get("type")
    if kind not in _TYPES:
        return kind
    try:
        data = codec.decode_event(key, value, attributes).data
    except BadInput:
        return kind  # the Spark job sends it to the dead letters
    if isinstance(data, GroupDeleted):
        told.pop(data.group_id, None)
    elif isinstance(data, PartitionsChanged) and attributes["source"] == source:
        told.setdefault(data.group_id, {}).update(data.topics)
    return kind
