"""Reads the state to resume from: each group's last event by any collector, and what other collectors publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import Message
from msgspec import UnsetType

from assignors.errors import BadInput
from streaming.collect.counts import Published, read_published
from streaming.collect.polling.group import PolledGroup, resumed, resumed_from_latest
from streaming.kafka.clients import Closing
from streaming.kafka.compacted_topics import read_assignment_records
from streaming.kafka.metadata import identify
from streaming.kafka.topic_reader import RecordOrder, TopicReader
from streaming.records import codec
from streaming.records.events import Event, GroupObserved, Kind
from streaming.settings.config import Settings

_SNAPSHOTS: Final = frozenset({"group.observed", "group.deleted"})
#: The most records that one poll returns, so that a long log does not delay requests.
_MOST: Final = 1000


class PublishedState(NamedTuple):
    """The events that earlier collectors published, and the state of each group after its last event."""

    events: Published
    groups: dict[str, PolledGroup]


def read_published_state(settings: Settings, counts_source: str, wanted: Callable[[str], bool]) -> PublishedState:
    """Read the events that earlier collectors of either type published; read each topic once.

    A group that was at rest for longer than the membership topic keeps its events resumes from its latest
    assignment, which the stream writes.
    """
    last: dict[bytes, Message] = {}
    order = RecordOrder()

    def keep(message: Message) -> None:
        if _is_snapshot(message, wanted) and order.accept(message):
            last[message.key() or b""] = message

    published = read_published(settings, counts_source, keep)
    states = {event.data.group_id: state_after(event) for event in map(_decoded, last.values()) if event is not None}
    groups = {group_id: state for group_id, state in states.items() if state is not None}
    topic = settings.topics.assignments
    if identify(settings.kafka, [topic]).get(topic, ...) is not None:
        for latest in read_assignment_records(settings, on_malformed=lambda _: None):
            is_new = latest.group_id not in states and wanted(latest.group_id)
            if is_new and _is_polled(latest.kind, latest.protocol):
                groups[latest.group_id] = resumed_from_latest(latest)
    return PublishedState(published, groups)


def state_after(event: Event) -> PolledGroup | None:
    """Return the state of a group after its last event; None if polling can't follow this kind of group."""
    data = event.data
    if isinstance(data, GroupObserved) and not _is_polled(data.kind, data.group_protocol):
        return None
    return resumed(event)


def _is_snapshot(message: Message, wanted: Callable[[str], bool]) -> bool:
    """True if the record is a snapshot or the deletion of a wanted group."""
    kind = codec.ce_attributes(message.headers()).get("type")
    return kind in _SNAPSHOTS and wanted((message.key() or b"").decode(errors="replace"))


def _decoded(message: Message) -> Event | None:
    try:
        return codec.decode_event(message.key(), message.value(), codec.ce_attributes(message.headers()))
    except BadInput:
        return None


def _is_polled(kind: Kind | UnsetType, protocol: str) -> bool:
    return kind != "connect" and protocol in ("classic", "consumer")


class OtherCollectors(Closing):
    """Reads the events that other collectors publish about the followed groups from now on."""

    def __init__(self, settings: Settings, source: str, wanted: Callable[[str], bool]) -> None:
        self._source, self._wanted = source, wanted
        self._order = RecordOrder()
        self._reader = TopicReader(settings.kafka, [settings.topics.membership], from_beginning=False, follow=True)

    def poll(self) -> list[Event]:
        """Return snapshots and deletions that other collectors published since the last call, in order; never waits."""
        events = []
        for message in self._reader.poll(0, _MOST):
            event = _decoded(message) if _is_snapshot(message, self._wanted) else None
            if event is None or event.source == self._source:
                continue
            is_polled = isinstance(event.data, GroupObserved) and event.data.polled
            if not is_polled and self._order.accept(message):
                events.append(event)
        return events

    def close(self) -> None:
        """Close the topic reader."""
        self._reader.close()
