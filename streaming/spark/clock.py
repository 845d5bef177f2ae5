"""The stream's alarm clock: writes a tick when a session timeout is due, so that a batch looks at it.

It knows each bucket's next deadline from the batches themselves. A tick decides nothing: the bucket does, by the
time of its batch, and all it does is to write a fence to the membership log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from assignors.errors import OutsideFailure
from streaming.kafka.clients import confluent_config

if TYPE_CHECKING:
    from streaming.settings.config import Settings

#: Ticks are at least this far apart: a batch needs time to answer.
_APART_SECONDS = 0.5
_RETENTION_MS = 3_600_000


class TicksUnavailable(OutsideFailure):
    """The topic of the stream's ticks can't be made."""


class Clock:
    """Knows when the next timer of any bucket is due.

    ``next_ms`` of a bucket comes with :meth:`heard`; until all buckets have told theirs, which the first tick makes
    them do, nothing is due.
    """

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._last = float("-inf")
        self._first = True

    def heard(self, due: Mapping[int, int]) -> None:
        """Take in what buckets told: when their next timers are due, ms, 0 for none."""
        self._due.update(due)

    def ticks(self, now: float) -> bool:
        """Whether to tick at ``now`` (seconds since the epoch); if so, it counts as done."""
        due = min((ms for ms in self._due.values() if ms), default=None)
        wanted = self._first or (due is not None and due <= now * 1000)
        if not wanted or now - self._last < _APART_SECONDS:
            return False
        self._first = False
        self._last = now
        return True


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
