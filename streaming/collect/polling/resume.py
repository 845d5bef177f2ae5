"""Where an earlier collector stopped: the last event of each group, as the topics have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UnsetType

from assignors.errors import BadInput
from streaming.collect.polling.group import Known, resumed, resumed_from_latest
from streaming.collect.published import COUNT_TYPES, remember
from streaming.kafka.compacted_topics import read_assignments
from streaming.kafka.metadata import identify
from streaming.kafka.topic_reader import RecordOrder, read_to_end
from streaming.records import codec
from streaming.records.diffs import LatestAssignment
from streaming.records.events import Event, GroupObserved, Kind, TopicMetadata

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.settings.config import Settings

_VIEWS = frozenset({"group.observed", "group.deleted"})


class Earlier(NamedTuple):
    """What is published: group → topic → what it was told last, and what is known of each group."""

    counts: dict[str, dict[str, TopicMetadata]]
    groups: dict[str, Known]


def published(settings: Settings, counts_source: str, wanted: Callable[[str], bool]) -> Earlier:
    """Read what earlier collectors published, whichever they were; reads each topic once.

    A group that was at rest for longer than the membership topic keeps its events is known by its latest
    assignment, which the stream writes.

    Args:
        settings: the cluster and the topics.
        counts_source: ``ce_source`` of the partition counts.
        wanted: whether a group is followed.

    Raises:
        TopicUnreadable, NotAllowed, ClusterUnavailable: as named.
    """
    counts: dict[str, dict[str, TopicMetadata]] = {}
    last: dict[bytes, Message] = {}
    order, counts_order = RecordOrder(), RecordOrder()
    for message in read_to_end(settings.kafka, settings.topics.membership):
        kind = codec.ce_attributes(message.headers()).get("type")
        if kind in COUNT_TYPES and counts_order.accept(message):
            remember(counts, message.key(), message.value(), message.headers(), counts_source)
        if kind in _VIEWS and _wanted(message, wanted) and order.accept(message):
            last[message.key() or b""] = message
    groups = {}
    others = set()
    for message in last.values():
        if (event := _event(message)) is not None:
            if (known := known_by(event)) is None:
                others.add(event.data.group_id)
            else:
                groups[event.data.group_id] = known
    for latest in _assignments(settings, wanted):
        if latest.group_id not in others and _is_polled(latest.kind, latest.protocol):
            groups.setdefault(latest.group_id, resumed_from_latest(latest))
    return Earlier(counts, groups)


def view_of(message: Message, wanted: Callable[[str], bool]) -> Event | None:
    """A view, or the deletion, of a group that is followed; None: the record is something else."""
    of_group = codec.ce_attributes(message.headers()).get("type") in _VIEWS and _wanted(message, wanted)
    return _event(message) if of_group else None


def known_by(event: Event) -> Known | None:
    """What is known of a group by its last event; None: it is of a kind that polling can't follow."""
    view = event.data
    if isinstance(view, GroupObserved) and not _is_polled(view.kind, view.group_protocol):
        return None
    return resumed(event)


def _wanted(message: Message, wanted: Callable[[str], bool]) -> bool:
    return wanted((message.key() or b"").decode(errors="replace"))


def _event(message: Message) -> Event | None:
    """The event of a record; None: it is none, and the stream sends it to the dead letters."""
    try:
        attributes = codec.ce_attributes(message.headers())
        return codec.decode_event(message.key(), message.value(), attributes)
    except BadInput:
        return None


def _assignments(settings: Settings, wanted: Callable[[str], bool]) -> list[LatestAssignment]:
    """The latest assignments; none where no stream has made their topic yet."""
    topic = settings.topics.assignments
    if identify(settings.kafka, [topic]).get(topic, ...) is None:
        return []
    latest = read_assignments(settings, on_malformed=lambda _: None)
    return [one for one in latest if wanted(one.group_id)]


def _is_polled(kind: Kind | UnsetType, protocol: str) -> bool:
    """Whether polling can follow such a group: of others the Admin API's client tells nothing."""
    return kind != "connect" and protocol in ("classic", "consumer")
