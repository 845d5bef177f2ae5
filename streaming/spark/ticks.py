"""The topic of ticks: a record in it has a batch look at the buckets' session timeouts.

A tick decides nothing: the bucket does, by the time of its batch, and all it does is to write a fence to the
membership log. When to tick: :mod:`streaming.spark.timers`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from streaming.kafka.clients import confluent_config
from streaming.kafka.topics import ensure_ticks

if TYPE_CHECKING:
    from streaming.settings.config import Settings


class TickTopic:
    """Writes ticks; makes the topic when it is missing."""

    def __init__(self, settings: Settings) -> None:
        from confluent_kafka import Producer

        ensure_ticks(settings)
        self._topic = settings.topics.ticks
        self._producer = Producer(confluent_config(settings.kafka) | {"linger.ms": 0})

    def tick(self) -> None:
        """Write one; if the broker is away it arrives when it is back."""
        self._producer.produce(self._topic, value=str(int(time.time() * 1000)).encode())
        self._producer.poll(0)
