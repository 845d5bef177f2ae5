"""Writes ticks, and requests the ends of the membership topic, while the job runs.

A tick is a record in a separate topic. It starts a batch, in which every bucket checks its session timeouts.
"""

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message

from streaming.kafka.access import NoPermission, Permission, denial
from streaming.kafka.metadata import OffsetRequest
from streaming.kafka.producer import ReplaceableProducer
from streaming.kafka.topics import ensure_ticks
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings

#: Seconds between two requests for the topic's ends.
_REQUEST_INTERVAL_SECONDS: Final = 5.0


class TickTopic:
    """Writes ticks; creates the topic of ticks if it is missing."""

    def __init__(self, settings: Settings) -> None:
        ensure_ticks(settings)
        self._kafka = settings.kafka
        self._topic = settings.topics.ticks
        self._producer = ReplaceableProducer(settings.kafka)
        self._failure: NoPermission | None = None

    def tick(self) -> None:
        """Write a tick without waiting; while no broker answers, the tick is delivered later."""
        self._producer.send(self._topic, self._on_delivery, value=str(int(time.time() * 1000)).encode())
        if self._failure is not None:
            raise self._failure

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and error.name() == "TOPIC_AUTHORIZATION_FAILED":
            permission = Permission("Write", self._topic)
            self._failure = NoPermission(denial(self._kafka, permission, "which stream must: no timer would fire"))


class TopicEnds(NamedTuple):
    """End offsets by partition: up to the last stable offset (``stable``), and of the whole log (``log``)."""

    stable: Mapping[int, int]
    log: Mapping[int, int]


class EndOffsetWatch:
    """Requests the membership topic's end offsets every five seconds, without waiting for the answers.

    Spark reports its lag only up to the last stable offset, so the stream would look idle during an open transaction.
    """

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        self._requests = (OffsetRequest(settings, committed=True), OffsetRequest(settings))
        self._offsets: list[Mapping[int, int] | None] = [None, None]
        self._partitions = 0
        self._next = float("-inf")

    def poll(self, now: float, partitions: int) -> TopicEnds | None:
        """Return the topic's end offsets if they have arrived, else None; send the next request when it is due."""
        for number, request in enumerate(self._requests):
            if request.is_pending and (offsets := request.take(now)) is not None:
                self._offsets[number] = {partition: offset for (_, partition), offset in offsets.items()}
        stable, log = self._offsets
        ends = None
        if stable is not None and log is not None:
            self._offsets = [None, None]
            # IdentityWatch reports a cluster that does not answer.
            ends = TopicEnds(stable, log) if len(stable) == len(log) == self._partitions else None
        if now >= self._next and not any(request.is_pending for request in self._requests):
            self._next, self._partitions = now + _REQUEST_INTERVAL_SECONDS, partitions
            for request in self._requests:
                request.send([(self._topic, number) for number in range(partitions)], now)
        return ends
