"""Followers of the topics of incidents and episodes, one per target, which send the target's notifications."""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from confluent_kafka import Message, TopicPartition
from prometheus_client import CollectorRegistry, Counter

from assignors.errors import BadInput
from streaming.kafka.topic_follower import TopicFollower
from streaming.kafka.topic_reader import read_to_end
from streaming.notify.notification import Notification, OpenIncidents, episode_notification
from streaming.notify.requests import request
from streaming.notify.sender import Rejection, Sender
from streaming.records.codec import ce_attributes
from streaming.records.episodes import ANNOTATION_TYPE, MalformedEpisode, decode_episode, decode_incident, decode_key
from streaming.settings.config import Settings
from streaming.settings.notify import NotifyTarget

_log = logging.getLogger(__name__)


class NotifyMetrics:
    """Prometheus counters of notifications, by target."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        options: dict[str, Any] = {"labelnames": ["target"], "registry": registry or CollectorRegistry()}
        self.sent = Counter("notifications_sent", "Notifications that a receiver took.", **options)
        self.refused = Counter("notifications_refused", "Notifications that a receiver refused for good.", **options)


def notify(settings: Settings, stop: threading.Event, metrics: NotifyMetrics) -> None:
    """Send notifications to all targets, with one thread per target, until ``stop`` is set or an error occurs."""
    followers = [TargetFollower(settings, target, stop, metrics) for target in settings.notify]
    with ThreadPoolExecutor(len(followers), "notify") as threads:
        runs = [threads.submit(follower.run) for follower in followers]
        wait(runs, return_when=FIRST_EXCEPTION)
        stop.set()
    for run in runs:
        run.result()


def read_secret(target: NotifyTarget) -> str:
    """Return the contents of the target's ``secret_file``, without surrounding blanks; empty if the file is unset."""
    if target.secret_file is None:
        return ""
    try:
        return target.secret_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"notify target {target.name}: secret_file {target.secret_file}: {error}") from error


class TargetFollower:
    """Follows the topics of incidents and episodes for one target, with a consumer group of its own."""

    def __init__(self, settings: Settings, target: NotifyTarget, stop: threading.Event, metrics: NotifyMetrics) -> None:
        self._settings, self._target, self._stop, self._metrics = settings, target, stop, metrics
        self._name = f"notify {target.name}"
        self._secret = read_secret(target)
        self._open = OpenIncidents(target)
        topics = settings.topics
        group_id = f"{topics.prefix}rebalance-monitor-notify-{target.name}"
        self._follower = TopicFollower(settings.kafka, group_id, (topics.incidents, topics.episodes), stop)
        self._sender = Sender(target.name, self._follower.wait, allow_private=target.allow_private)

    def run(self) -> None:
        """Follow the topics and send notifications until ``stop`` is set."""
        self._follower.follow(self._send_notifications, self._restore_open_incidents)

    def _send_notifications(self, message: Message) -> None:
        for notification in self._read_notifications(message):
            made = request(self._target, notification, self._secret, time.time_ns() // 1_000_000)
            try:
                self._sender.send(made)
            except Rejection as error:
                _log.error("%s: %s was refused and is not sent again: %s", self._name, notification.id, error)
                self._metrics.refused.labels(self._target.name).inc()
            else:
                self._metrics.sent.labels(self._target.name).inc()

    def _read_notifications(self, message: Message) -> Sequence[Notification]:
        """Return the notifications of a record; if the record can't be read, log that and return an empty list."""
        if ce_attributes(message.headers()).get("type") == ANNOTATION_TYPE:
            return []
        try:
            if message.topic() == self._settings.topics.incidents:
                return self._apply_incident(message)
            if (value := message.value()) is not None:
                notification = episode_notification(self._target, self._open.explain(decode_episode(value)))
                return [] if notification is None else [notification]
        except MalformedEpisode as error:
            place = f"{message.topic()} partition {message.partition()} offset {message.offset()}"
            _log.warning("%s: %s: %s", self._name, place, error)
        return []

    def _apply_incident(self, message: Message) -> list[Notification]:
        """Apply the record of an incident to the open incidents, and return the incident's notifications."""
        if (value := message.value()) is not None:
            return self._open.notifications(decode_incident(value))
        self._open.forget(*decode_key(message.key() or b""))
        return []

    def _restore_open_incidents(self, place: TopicPartition) -> None:
        """Restore the open incidents from records before the committed offset, which earlier processes handled."""
        if place.topic != self._settings.topics.incidents:
            return
        for message in read_to_end(self._settings.kafka, place.topic, until=self._stop.is_set):
            if message.partition() == place.partition and (message.offset() or 0) < place.offset:
                with suppress(MalformedEpisode):  # The error was logged when the record was handled.
                    self._apply_incident(message)
