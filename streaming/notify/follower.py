"""Follow the topics of incidents and episodes for one target, and send what it wants."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter

from streaming.kafka.clients import reader_config
from streaming.kafka.topic_follower import TopicFollower
from streaming.notify.notification import Notification, OpenIncidents, episode_notification
from streaming.notify.requests import UnusableSecret, request
from streaming.notify.sender import Refused, Sender
from streaming.records.codec import ce_attributes
from streaming.records.episodes import ANNOTATION_TYPE, MalformedEpisode, decode_episode, decode_incident, of_key
from streaming.settings.config import Settings
from streaming.settings.notify import NotifyTarget

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

_log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5


class NotifyMetrics:
    """Counters of notifications by target."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.sent = Counter("notifications_sent", "Notifications that a receiver took.", ["target"], registry=registry)
        self.refused = Counter(
            "notifications_refused", "Notifications that a receiver refused for good.", ["target"], registry=registry
        )


def notify(settings: Settings, stop: threading.Event, metrics: NotifyMetrics) -> None:
    """Send notifications to all targets until ``stop`` is set, each target in a thread.

    Raises:
        Exception: the first error of a thread, after all have ended.
    """
    followers = [TargetFollower(settings, target, stop, metrics) for target in settings.notify]
    errors: list[Exception] = []

    def run(follower: TargetFollower) -> None:
        try:
            follower.run()
        except Exception as error:  # noqa: BLE001 - raised again below, in the main thread
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(follower,), name=follower.name) for follower in followers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def read_secret(target: NotifyTarget) -> str:
    """Return the contents of the target's ``secret_file`` without surrounding blanks; empty without one.

    Raises:
        UnusableSecret: the file can't be read.
    """
    if target.secret_file is None:
        return ""
    try:
        return target.secret_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableSecret(f"notify target {target.name}: secret_file {target.secret_file}: {error}") from error


class TargetFollower:
    """One target: its consumer group, its open incidents, its receiver.

    Args:
        settings: the cluster and the topics.
        target: the receiver.
        stop: set to end; a notification on its way is sent again at the next start.
        metrics: counts notifications.
    """

    def __init__(self, settings: Settings, target: NotifyTarget, stop: threading.Event, metrics: NotifyMetrics) -> None:
        self.name = f"notify {target.name}"
        self._settings = settings
        self._target = target
        self._stop = stop
        self._metrics = metrics
        self._secret = read_secret(target)
        self._open = OpenIncidents(target)
        topics = settings.topics
        group_id = f"{topics.prefix}rebalance-monitor-notify-{target.name}"
        self._follower = TopicFollower(settings.kafka, group_id, (topics.incidents, topics.episodes), stop)
        self._sender = Sender(target.name, self._follower.wait, allow_private=target.allow_private)

    def run(self) -> None:
        """Follow the topics until the end."""
        self._follower.follow(self._handle, self._restore)

    def _handle(self, message: Message) -> None:
        for notification in self._notifications(message):
            made = request(self._target, notification, self._secret, time.time_ns() // 1_000_000)
            try:
                self._sender.send(made)
            except Refused as error:
                _log.error("%s: %s was refused and is not sent again: %s", self.name, notification.id, error)
                self._metrics.refused.labels(self._target.name).inc()
            else:
                self._metrics.sent.labels(self._target.name).inc()

    def _notifications(self, message: Message) -> Sequence[Notification]:
        """Return what a record has the target be sent; none for a record that can't be read, which is logged."""
        key, value = message.key() or b"", message.value()
        if ce_attributes(message.headers()).get("type") == ANNOTATION_TYPE:
            return []
        try:
            if message.topic() == self._settings.topics.incidents:
                if value is not None:
                    return self._open.notifications(decode_incident(value))
                self._open.forget(*of_key(key))
            elif value is not None:
                notification = episode_notification(self._target, self._open.explain(decode_episode(value)))
                return [notification] if notification is not None else []
        except MalformedEpisode as error:
            place = f"{message.topic()} partition {message.partition()} offset {message.offset()}"
            _log.warning("%s: %s: %s", self.name, place, error)
        return []

    def _restore(self, place: TopicPartition) -> None:
        """Restore the open incidents from the records before the committed offset, which earlier processes handled."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        if place.topic != self._settings.topics.incidents:
            return
        group_id = "rebalance-monitor-reader"  # required by the client, never joined: we assign
        reader = Consumer(reader_config(self._settings.kafka, group_id))
        try:
            reader.assign([TopicPartition(place.topic, place.partition, 0)])
            while not self._stop.is_set():
                message = reader.poll(_POLL_SECONDS)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                    _log.warning("%s: %s", self.name, error.str())
                    continue
                if error is not None or (message.offset() or 0) >= place.offset:
                    return
                with suppress(MalformedEpisode):  # logged when it was handled
                    if message.value() is None:
                        self._open.forget(*of_key(message.key() or b""))
                    else:
                        self._open.restore(decode_incident(message.value() or b""))
        finally:
            reader.close()
