"""The topic of ticks: a record in it has a batch look at the buckets' session timeouts.

A tick decides nothing: the bucket does, by the time of its batch, and all it does is to write a fence to the
membership log. When to tick: :mod:`streaming.spark.timers`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from assignors.errors import OutsideFailure
from streaming.kafka.clients import confluent_config

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_RETENTION_MS = 3_600_000


class TicksUnavailable(OutsideFailure):
    """The topic of the stream's ticks can't be made."""


class TickTopic:
    """Writes ticks; makes the topic when it is missing."""

    def __init__(self, settings: Settings) -> None:
        from confluent_kafka import KafkaError, KafkaException, Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        self._topic = settings.topics.ticks
        topic = NewTopic(
            self._topic,
            num_partitions=1,
            replication_factor=settings.topics.replication_factor,
            config={"cleanup.policy": "delete", "retention.ms": str(_RETENTION_MS)},
        )
        admin = AdminClient(confluent_config(settings.kafka))
        try:
            admin.create_topics([topic], operation_timeout=30)[self._topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TicksUnavailable(f"topic {self._topic}: {error.args[0].str()}") from error
        self._producer = Producer(confluent_config(settings.kafka) | {"linger.ms": 0})

    def tick(self) -> None:
        """Write one; if the broker is away it arrives when it is back."""
        self._producer.produce(self._topic, value=str(int(time.time() * 1000)).encode())
        self._producer.poll(0)
