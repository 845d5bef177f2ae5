"""Where the membership topic ends, and a transaction that keeps its newest records from readers.

The stream reads committed records. While anybody's transaction is open, it gets nothing from behind the
transaction's first record (the last stable offset), and Spark counts its lag to that offset alone: it would look
idle.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streaming.kafka.clients import answer_of, confluent_config, reader_config

if TYPE_CHECKING:
    from concurrent.futures import Future

    from streaming.settings.connection import KafkaSettings

#: Seconds between two questions, and those that brokers have for an answer.
_EVERY_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 5.0
#: Seconds that the record of an open transaction is waited for.
_READ_SECONDS: Final = 3.0


class Ends(NamedTuple):
    """Ends of the partitions that are read.

    Attributes:
        stable: last stable offset by partition: where a reader of committed records ends.
        log: the next offset by partition, open transactions included.
    """

    stable: Mapping[int, int]
    log: Mapping[int, int]


class EndsWatch:
    """Asks the cluster for the topic's ends again and again, and never waits for the answer."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._settings = settings
        self._topic = topic
        self._admin = AdminClient(confluent_config(settings))
        self._next = float("-inf")
        self._asked: tuple[dict[Any, Future[Any]], ...] = ()

    def look(self, now: float, partitions: int) -> Ends | None:
        """Return an answer that came since the last call; None without one. Failures are not reported here."""
        found = None
        if self._asked and all(future.done() for part in self._asked for future in part.values()):
            found = self._answer()
            self._asked = ()
        elif self._asked and now > self._next + 2 * _ANSWER_SECONDS:
            self._asked = ()
        if not self._asked and now >= self._next:
            self._next = now + _EVERY_SECONDS
            self._asked = self._ask(partitions)
        return found

    def _ask(self, partitions: int) -> tuple[dict[Any, Future[Any]], ...]:
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        wanted = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in range(partitions)}
        return tuple(
            self._admin.list_offsets(wanted, isolation_level=level, request_timeout=_ANSWER_SECONDS)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )

    def _answer(self) -> Ends | None:
        from confluent_kafka import KafkaException

        try:
            stable, log = (
                {place.partition: answer_of(future).offset for place, future in part.items()}
                for part in self._asked
            )
        except KafkaException:  # the identity watch reports a cluster that is away
            return None
        return Ends(stable, log)


class Blocked(NamedTuple):
    """An open transaction that readers wait for.

    Attributes:
        partition: of the membership topic.
        offset: of its first record.
        since: when it was first seen, seconds since the epoch.
    """

    partition: int
    offset: int
    since: float


def describe_record(settings: KafkaSettings, topic: str, blocked: Blocked) -> str:
    """Return what is known of the open transaction's first record; an empty text when it can't be read."""
    from confluent_kafka import Consumer, TopicPartition

    config = reader_config(settings, "rebalance-monitor-reader") | {"isolation.level": "read_uncommitted"}
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, blocked.partition, blocked.offset)])
        message = consumer.poll(_READ_SECONDS)
        if message is None or message.error() is not None:
            return ""
        headers = dict(message.headers() or ())
        source = headers.get("ce_source") or b"not named"
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(message.timestamp()[1] / 1000))
        key = (message.key() or b"").decode(errors="replace")
        return f"written {written} for group {key!r} by source {source.decode(errors='replace')}"
    finally:
        consumer.close()
