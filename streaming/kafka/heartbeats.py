"""Writes and tracks the heartbeats of the monitor's components.

If a heartbeat can't be written, the component logs a warning and continues.
"""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message
from msgspec import structs

from assignors.errors import MonitorError, OutsideFailure
from streaming import freshness as heartbeat_rules
from streaming.freshness import ComponentHeartbeat, Freshness, MalformedHeartbeat, PartName, TrackedHeartbeat
from streaming.kafka import background_reader
from streaming.kafka.access import Permission, denial
from streaming.kafka.background_reader import BackgroundReader
from streaming.kafka.metadata import IdentityWatch, request_identities
from streaming.kafka.producer import LATE_DELIVERY_SECONDS, ReplaceableProducer
from streaming.kafka.topic_reader import RecordOrder, TopicReader
from streaming.kafka.topics import create_topics
from streaming.settings.config import Settings

_log = logging.getLogger(__name__)
#: Seconds between two attempts to create the topic.
_CREATE_INTERVAL_SECONDS: Final = 30.0
_DENIED_CONSEQUENCE: Final = "without heartbeats it is not noticed when this component stops"


class HeartbeatWriter:
    """Writes the heartbeats of one component; creates the topic of heartbeats if it is missing."""

    def __init__(
        self, settings: Settings, part: PartName, part_id: str, *, by: Literal["offsets", "polling"] | None = None
    ) -> None:
        self._settings = settings
        self._topic = settings.topics.signs
        self._interval_s = settings.signs.every_ms / 1000
        self._reported: str | None = None
        self._has_topic = False
        self._last_check_at = float("-inf")
        self._next = float("-inf")
        self._watch = IdentityWatch(settings.kafka, [self._topic], interval_s=2.0)
        # A heartbeat that is not delivered in time is replaced by the next ones.
        self._producer = ReplaceableProducer(settings.kafka, {"delivery.timeout.ms": int(LATE_DELIVERY_SECONDS * 1000)})
        now = time.time_ns() // 1_000_000
        self._heartbeat = ComponentHeartbeat(
            part=part, id=part_id, state="running", timestamp=now, up_to=now, every_ms=settings.signs.every_ms, by=by
        )

    def write(self, *, up_to: float | None, positions: Mapping[int, int] | None = None) -> None:
        """Write a heartbeat if one is due, without waiting for its delivery.

        ``up_to``: the component has processed all events before this time (seconds since the epoch); None: the same
        time as in the last heartbeat. ``positions``: the next offset of each partition that the component reads.
        """
        now = time.monotonic()
        if now < self._next or not self._topic_exists(now):
            return
        self._next = now + self._interval_s
        self._send("running", up_to, positions)

    def write_last(self, positions: Mapping[int, int] | None = None) -> None:
        """Write the last heartbeat of a component that is shut down; wait up to 2 s for its delivery."""
        if self._has_topic:
            self._send("stopped", None, positions)
            self._producer.client.flush(2.0)

    def _send(
        self, state: Literal["running", "stopped"], up_to: float | None, positions: Mapping[int, int] | None
    ) -> None:
        reached = self._heartbeat.up_to if up_to is None else max(self._heartbeat.up_to, int(up_to * 1000))
        kept = self._heartbeat.positions if positions is None else dict(positions)
        now_ms = time.time_ns() // 1_000_000
        self._heartbeat = structs.replace(self._heartbeat, state=state, timestamp=now_ms, up_to=reached, positions=kept)
        key, value, headers = heartbeat_rules.encode_heartbeat(self._heartbeat)
        self._producer.send(self._topic, self._on_delivery, key=key, value=value, headers=headers)

    def _topic_exists(self, now: float) -> bool:
        """True if the topic exists, by the cluster's last answer; create a missing topic, without waiting for it."""
        topics = self._watch.poll(now)
        if topics is None:
            return self._has_topic
        self._has_topic = topics.get(self._topic) is not None
        if self._topic not in topics:
            self._log_denied()
        elif not self._has_topic and now - self._last_check_at >= _CREATE_INTERVAL_SECONDS:
            self._last_check_at = now
            try:
                create_topics(self._settings, [self._topic], timeout=5.0)
            except (MonitorError, KafkaException) as error:
                self._log_trouble(f"{error}; {_DENIED_CONSEQUENCE}")
        return self._has_topic

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._log_trouble(None)
        elif error.name() == "TOPIC_AUTHORIZATION_FAILED":
            self._log_denied()
        # Other errors are not logged here: the component itself reports a cluster that does not answer.

    def _log_denied(self) -> None:
        self._log_trouble(denial(self._settings.kafka, Permission("Write", self._topic), _DENIED_CONSEQUENCE))

    def _log_trouble(self, trouble: str | None) -> None:
        if trouble == self._reported:
            return
        if trouble is None:
            _log.info("topic %s: heartbeats are written", self._topic)
        else:
            _log.warning("heartbeats are not written: %s", trouble)
        self._reported = trouble


class _Observation(NamedTuple):
    """The state of the heartbeat tracker; it is replaced as a whole, so that other threads see a consistent state.

    ``contact``: since when the topic is read to its end (monotonic clock); None while it is not read to its end.
    ``silent_since``: when the cluster last answered (s since the epoch); None while it answers.
    """

    last: Mapping[str, TrackedHeartbeat] = {}
    contact: float | None = None
    silent_since: float | None = None
    is_unreadable: bool = False


_BATCH: Final = 1000
#: Seconds after the start for which freshness stays undetermined while the topic can't be read.
_MAX_UNKNOWN_SECONDS: Final = 15.0
#: Seconds after the cluster answers again in which records that were written before may arrive.
_OLD_RECORDS_SECONDS: Final = 3.0
#: The most components that are tracked, so that records of other programs can't fill the memory.
MAX_COMPONENTS: Final = 1000


class HeartbeatTracker(BackgroundReader):
    """Tracks the last heartbeat of each component during its ``with`` block."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            settings.topics.signs, "heartbeats", without=", it is not known whether every component is running"
        )
        self._settings = settings
        limits = settings.signs.silent_after_ms, settings.signs.behind_after_ms, settings.signs.forget_after_ms
        self._limits = heartbeat_rules.Limits(*(limit_ms / 1000 for limit_ms in limits))
        self._view = _Observation()
        self._start_time = time.monotonic()

    def freshness(self, now: float) -> Freshness:
        """Return how current the components' data are at ``now`` (s, monotonic clock); thread-safe."""
        view = self._view
        if view.is_unreadable:
            return Freshness()
        if view.contact is None and view.silent_since is None:
            return Freshness(is_known=now - self._start_time > _MAX_UNKNOWN_SECONDS)
        contact = now if view.contact is None else view.contact
        freshness = heartbeat_rules.compute_freshness(view.last.values(), now, contact, self._limits)
        if view.silent_since is None:
            return freshness
        return heartbeat_rules.with_unreachable_kafka(freshness, int(view.silent_since * 1000))

    def mark_unreadable(self) -> None:
        """Record that freshness is unknown because the topic can't be read."""
        self._view = _Observation(is_unreadable=True)

    def read(self) -> None:
        """Read heartbeats until :attr:`stopping` is set."""
        with TopicReader(
            self._settings.kafka, [self.topic], wait=True, follow=True, properties={"fetch.wait.max.ms": 500}
        ) as reader:
            ids = reader.ids
            while not self.stopping.is_set():
                behind = not reader.at_end
                messages = reader.poll(background_reader.POLL_SECONDS, _BATCH)
                if reader.ids != ids:  # the topic was created again: components write new heartbeats
                    ids = reader.ids
                    self._view = self._view._replace(last={})
                self._add_heartbeats(messages, behind=behind)
                self._update_contact(reader)

    def _update_contact(self, reader: TopicReader) -> None:
        is_unreadable = bool(reader.missing or reader.leaderless_partitions)
        if is_unreadable or reader.silent_since is not None:
            silent_since = None if is_unreadable else reader.silent_since
            self._view = self._view._replace(contact=None, silent_since=silent_since, is_unreadable=is_unreadable)
            return
        contact = self._view.contact
        if contact is None and reader.at_end:
            contact = time.monotonic()
            if not self._view.last:
                _log.info("topic %s: no component has written a heartbeat yet", self.topic)
        self._view = self._view._replace(contact=contact, silent_since=None, is_unreadable=False)
        self.log_trouble(None)

    def _add_heartbeats(self, messages: list[Message], *, behind: bool) -> None:
        now, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        contact = self._view.contact
        is_old_record = behind or contact is None or now - contact < _OLD_RECORDS_SECONDS
        last = dict(self._view.last)
        for message in messages:
            key, value, written = message.key(), message.value(), message.timestamp()[1]
            if value is None:
                last.pop((key or b"").decode(errors="replace"), None)
                continue
            try:
                heartbeat = heartbeat_rules.decode_heartbeat(key, value)
                heartbeat_rules.check_credible(heartbeat, written, now_ms)
            except MalformedHeartbeat as problem:
                self.log_malformed(f"partition {message.partition()} offset {message.offset()}: {problem}")
                continue
            partition, previous = message.partition() or 0, last.get(heartbeat.key)
            if previous is None and len(last) >= MAX_COMPONENTS:
                self.log_malformed(f"more than {MAX_COMPONENTS} components; the others are not tracked")
                continue
            if previous is not None and previous.partition != partition and written < previous.written:
                continue  # written before the topic got more partitions
            age = max(0, now_ms - written) if is_old_record else 0
            count = min(heartbeat_rules.CONFIRMING_HEARTBEATS, 1 + (0 if previous is None else previous.confirmations))
            last[heartbeat.key] = TrackedHeartbeat(heartbeat, now - age / 1000, now_ms - age, count, written, partition)
        if messages:
            self._view = self._view._replace(last=last)


def require_no_collector(settings: Settings, stop: threading.Event) -> None:
    """Wait until it is certain that no collector with this id runs; raise OutsideFailure if a collector with it runs.

    A crashed collector's last heartbeat also has the state "running". So a collector counts as running only if another
    heartbeat follows; no clocks of different hosts are compared.
    """
    key = f"collector/{settings.collector_id}"
    last, age = last_heartbeat(settings, key)
    if last is None or last.state == "stopped" or age > 20 * last.every_ms / 1000:
        return  # a component that has missed 20 heartbeats is not waited for
    with TopicReader(settings.kafka, [settings.topics.signs], from_beginning=False) as reader:
        newest, by = None, time.monotonic() + 2 * last.every_ms / 1000
        while newest is None and time.monotonic() < by and not stop.is_set():
            newest, _ = _newest_heartbeat(reader, key, RecordOrder())
    if newest is not None and newest.state == "running":
        raise OutsideFailure(
            f"collector {settings.collector_id} is running on this cluster, and this start would end it: stop it, or "
            "start with --take-over, or use another --topic-prefix or collect.group_id"
        )


def last_heartbeat(settings: Settings, key: str) -> tuple[ComponentHeartbeat | None, float]:
    """Return a component's newest heartbeat (None: there is none) and its age in seconds by the brokers' clocks."""
    topic, order = settings.topics.signs, RecordOrder()
    last: tuple[ComponentHeartbeat | None, float] = (None, 0.0)
    if request_identities(settings.kafka, [topic]).get(topic) is not None:
        with TopicReader(settings.kafka, [topic]) as reader:
            while not reader.at_end:
                last = _newest_heartbeat(reader, key, order, last)
    return last


def _newest_heartbeat(
    reader: TopicReader, key: str, order: RecordOrder, last: tuple[ComponentHeartbeat | None, float] = (None, 0.0)
) -> tuple[ComponentHeartbeat | None, float]:
    """Return a component's newest heartbeat among the reader's next records, and its age (s); else ``last``."""
    for message in reader.poll(0.2, 500):
        value = message.value()
        if message.key() == key.encode() and value is not None and order.accept(message):
            with suppress(MalformedHeartbeat):  # `serve` reports it
                heartbeat = heartbeat_rules.decode_heartbeat(message.key(), value)
                last = heartbeat, time.time() - message.timestamp()[1] / 1000
    return last
