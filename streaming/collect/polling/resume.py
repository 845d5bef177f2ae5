"""Reads each group's last event when a polling collector starts, and the later events of other collectors."""

from collections.abc import Callable

from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.collect.counts import PublishedState, read_published
from streaming.collect.polling.group import UNKNOWN, PolledGroup, is_polled, resumed, resumed_from_latest
from streaming.kafka.clients import Closeable
from streaming.kafka.compacted_topics import read_assignment_records
from streaming.kafka.metadata import request_identities
from streaming.kafka.topic_reader import RecordOrder, TopicReader
from streaming.records import codec
from streaming.records.events import Event, GroupObserved
from streaming.settings.config import Settings


def read_published_state(
    settings: Settings, counts_source: str, wanted: Callable[[str], bool]
) -> tuple[PublishedState, dict[str, PolledGroup]]:
    """Return the published state, and each group's state after its last event by any collector.

    Each topic is read once. If retention deleted all events of a group, its state comes from its latest assignment,
    which the stream writes.
    """
    last: dict[bytes, Message] = {}
    order = RecordOrder()

    def keep(message: Message) -> None:
        if _is_snapshot(message, wanted) and order.accept(message):
            last[message.key() or b""] = message

    published = read_published(settings, counts_source, keep)
    states = {event.data.group_id: resumed(event) for event in map(_decode_event, last.values()) if event is not None}
    groups = {group_id: state for group_id, state in states.items() if state is not UNKNOWN}
    topic = settings.topics.assignments
    if request_identities(settings.kafka, [topic]).get(topic, ...) is not None:
        for latest in read_assignment_records(settings, on_malformed=lambda _: None):
            is_new = latest.group_id not in states and wanted(latest.group_id)
            if is_new and is_polled(latest.kind, latest.protocol):
                groups[latest.group_id] = resumed_from_latest(latest)
    return published, groups


def _is_snapshot(message: Message, wanted: Callable[[str], bool]) -> bool:
    """True if the record is a snapshot or the deletion of a wanted group."""
    kind = codec.ce_attributes(message.headers()).get("type")
    return kind in ("group.observed", "group.deleted") and wanted((message.key() or b"").decode(errors="replace"))


def _decode_event(message: Message) -> Event | None:
    try:
        return codec.decode_event(message.key(), message.value(), codec.ce_attributes(message.headers()))
    except BadInput:
        return None


class OtherCollectors(Closeable):
    """Reads the events that other collectors publish about the followed groups from now on."""

    def __init__(self, settings: Settings, source: str, wanted: Callable[[str], bool]) -> None:
        self._source, self._is_wanted_group = source, wanted
        self._order = RecordOrder()
        self._reader = TopicReader(settings.kafka, [settings.topics.membership], from_beginning=False, follow=True)

    def poll(self) -> list[Event]:
        """Return the snapshots and deletions that other collectors published since the last call; never waits."""
        events = []
        for message in self._reader.poll(0, 1000):  # not all, so that a long log does not delay requests
            event = _decode_event(message) if _is_snapshot(message, self._is_wanted_group) else None
            if event is None or event.source == self._source:
                continue
            is_polled = isinstance(event.data, GroupObserved) and event.data.polled
            if not is_polled and self._order.accept(message):
                events.append(event)
        return events

    def close(self) -> None:
        """Close the topic reader."""
        self._reader.close()
