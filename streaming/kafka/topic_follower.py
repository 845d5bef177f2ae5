"""Handles every new record of some topics, and commits offsets, so that a restart skips no record."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException, Message, TopicPartition

from streaming.kafka.clients import ClusterUnavailable, confluent_config
from streaming.settings.connection import KafkaSettings

_log = logging.getLogger(__name__)
_POLL_SECONDS: Final = 0.5
_TIMEOUT_SECONDS: Final = 10.0
_Answer = TypeVar("_Answer")
#: Errors that a later attempt can't resolve.
_DENIED_ERRORS: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "_AUTHENTICATION"})
#: Errors of a consumer that is no longer a member of its group: it rejoins at the next poll.
_NO_MEMBER: Final = frozenset({"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "_ASSIGNMENT_LOST"})


class StopRequested(Exception):  # noqa: N818 - not an error: the process ends
    """The process must end before a record is handled; the record is handled again at the next start."""


class TopicFollower:
    """Consumes topics until ``stop`` is set; without committed offsets it starts at the topics' ends."""

    def __init__(self, settings: KafkaSettings, group_id: str, topics: Sequence[str], stop: threading.Event) -> None:
        self._settings, self._group_id, self._topics, self._stop = settings, group_id, list(topics), stop
        self._consumer: confluent_kafka.Consumer

    def follow(
        self, handle: Callable[[Message], None], restore: Callable[[TopicPartition], None] = lambda _: None
    ) -> None:
        """Call ``handle`` with each record and then commit its offset, until ``stop`` is set.

        ``handle`` may wait with :meth:`wait`. ``restore`` is called for each assigned partition that has a committed
        offset, before its first record, and again if the cluster was not available.
        """
        options = {"group_id": self._group_id, "enable_auto_commit": False, "auto_offset_reset": "latest"}
        self._consumer = confluent_kafka.Consumer(confluent_config(self._settings, **options))
        try:
            self._consumer.subscribe(self._topics, on_assign=partial(self._assign, restore))
            _log.info("%s: following %s", self._group_id, " and ".join(self._topics))
            while not self._stop.is_set():
                message = self._consumer.poll(_POLL_SECONDS)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    _log.warning("%s: %s", self._group_id, error.str())
                    continue
                handle(message)
                self._consumer.resume(self._consumer.assignment())
                self._commit(message=message)
        except StopRequested:
            _log.info("%s: ended before the last record was handled; it is handled at the next start", self._group_id)
        finally:
            self._consumer.close()

    def _assign(
        self, restore: Callable[[TopicPartition], None], client: confluent_kafka.Consumer, places: list[TopicPartition]
    ) -> None:
        def end_offset(place: TopicPartition) -> int:
            end: int = self._repeat_request(lambda: client.get_watermark_offsets(place, timeout=_TIMEOUT_SECONDS))[1]
            return end

        kept = self._repeat_request(lambda: client.committed(places, timeout=_TIMEOUT_SECONDS))
        restored_positions = [place for place in kept if place.offset >= 0]
        first = [TopicPartition(place.topic, place.partition, end_offset(place)) for place in kept if place.offset < 0]
        for place in restored_positions:
            self._repeat_request(partial(restore, place))
        if first:  # commit the end offsets, so that no record is skipped if this process ends before its first commit
            self._commit(offsets=first)
        client.assign([*restored_positions, *first])

    def _commit(self, **what: object) -> None:
        try:
            self._repeat_request(lambda: self._consumer.commit(**what, asynchronous=False))
        except KafkaException as error:
            if error.args[0].name() not in _NO_MEMBER:
                raise
            _log.warning("%s: not committed, its records are handled again: %s", self._group_id, error.args[0].str())

    def _repeat_request(self, request: Callable[[], _Answer]) -> _Answer:
        """Repeat a request until the cluster answers; raises StopRequested, or an error that no repetition resolves."""
        while True:
            try:
                return request()
            except ClusterUnavailable as error:
                _log.warning("%s: %s; trying again", self._group_id, error)
            except KafkaException as error:
                if error.args[0].name() in _DENIED_ERRORS | _NO_MEMBER:
                    raise
                _log.warning("%s: %s; trying again", self._group_id, error.args[0].str())
            if self._stop.wait(_POLL_SECONDS):
                raise StopRequested

    def wait(self, seconds: float) -> None:
        """Wait while a record is handled; the consumer stays in its group. Raises StopRequested if ``stop`` is set."""
        self._consumer.pause(self._consumer.assignment())
        by = time.monotonic() + seconds
        while time.monotonic() < by:
            self._consumer.poll(0)
            if self._stop.wait(min(_POLL_SECONDS, max(0.0, by - time.monotonic()))):
                raise StopRequested
