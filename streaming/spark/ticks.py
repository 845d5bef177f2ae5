"""The topic of ticks: a record in it has a batch look at the buckets' session timeouts.

A tick decides nothing: the bucket does, by the time of its batch, and all it does is to write a fence to the
membership log. When to tick: :class:`streaming.spark.pacing.Timers`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from streaming.kafka.access import NotAllowed, Permission, denied
from streaming.kafka.clients import confluent_config
from streaming.kafka.topics import ensure_ticks

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from streaming.settings.config import Settings


#: A tick that is not delivered by then goes with its client, which may have lost its brokers.
_LATE_SECONDS: Final = 10.0


class TickTopic:
    """Writes ticks; makes the topic when it is missing."""

    def __init__(self, settings: Settings) -> None:
        ensure_ticks(settings)
        self._kafka = settings.kafka
        self._topic = settings.topics.ticks
        self._producer = self._connect()
        self._delivered = time.monotonic()
        self._failure: NotAllowed | None = None

    def _connect(self) -> Producer:
        from confluent_kafka import Producer

        return Producer(confluent_config(self._kafka) | {"linger.ms": 0})

    def tick(self) -> None:
        """Write one; if the broker is away it, or the next, arrives when it is back.

        Raises:
            NotAllowed: the broker did not take one before, as this user may not write.
        """
        self._producer.poll(0)
        now = time.monotonic()
        if not len(self._producer):
            self._delivered = now
        elif now - self._delivered > _LATE_SECONDS:
            self._producer, self._delivered = self._connect(), now
        value = str(int(time.time() * 1000)).encode()
        self._producer.produce(self._topic, value=value, on_delivery=self._told)
        self._producer.poll(0)
        if self._failure is not None:
            raise self._failure

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and error.name() == "TOPIC_AUTHORIZATION_FAILED":
            lacking = Permission("Write", self._topic)
            self._failure = NotAllowed(denied(self._kafka, lacking, "which stream must: no timer would fire"))
