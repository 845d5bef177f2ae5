"""Sends membership events and dead letters to the partitions that Kafka's murmur2 partitioner computes from their keys.

The partition is computed here, because librdkafka's default partitioner uses CRC32. With idempotence and
``acks=all`` each record is in the log once and in order, or an error is raised.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from assignors.errors import OutsideFailure
from assignors.partitioner import partition_for_key
from streaming.kafka.access import NoPermission, Permission, denial
from streaming.kafka.clients import ClusterUnavailable, confluent_config
from streaming.records import codec
from streaming.records.events import Event
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings

_METADATA_SECONDS = 30.0
#: Seconds without a delivery after which a client may have lost its brokers, and is replaced.
LATE_DELIVERY_SECONDS = 10.0
_TOPIC_DENIED = "TOPIC_AUTHORIZATION_FAILED"
#: Advice when a broker refuses a record's timestamp: by default, a timestamp more than an hour ahead of the broker's
#: clock.
CLOCK_HINT = "is this host's clock right, and the brokers'?"


class SendFailed(OutsideFailure):
    """The cluster did not accept a record."""


class ReplaceableProducer:
    """Sends records without waiting; its client is replaced once it has delivered nothing for ``LATE_SECONDS``."""

    def __init__(self, settings: KafkaSettings, properties: dict[str, Any] | None = None) -> None:
        self._settings, self._properties = settings, {"linger.ms": 0} | (properties or {})
        self.client = self._connect()
        self._last_delivery_at = time.monotonic()

    def _connect(self) -> confluent_kafka.Producer:
        return confluent_kafka.Producer(confluent_config(self._settings) | self._properties)

    def send(self, topic: str, on_delivery: Callable[[KafkaError | None, Message], None], **record: Any) -> None:
        """Send a record; while no broker answers, the record is delivered later."""
        self.client.poll(0)
        now = time.monotonic()
        if not len(self.client):
            self._last_delivery_at = now
        elif now - self._last_delivery_at > LATE_DELIVERY_SECONDS:
            self.client, self._last_delivery_at = self._connect(), now
        with suppress(BufferError):  # no broker answers, and the next record replaces this one
            self.client.produce(topic, on_delivery=on_delivery, **record)
        self.client.poll(0)


class EventProducer:
    """Sends membership events; the end of its ``with`` block flushes them.

    ``extra``: further librdkafka properties. ``component``: the user of the producer, for messages about a missing ACL.
    """

    def __init__(
        self, settings: Settings, extra: dict[str, Any] | None = None, *, component: str = "a producer to it"
    ) -> None:
        self._settings = settings
        self._component = component
        self._counts: dict[str, tuple[int, float]] = {}
        self._failure: OutsideFailure | None = None
        self.client = confluent_kafka.Producer(
            confluent_config(settings.kafka)
            | {
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                # Snapshots are repetitive: a snapshot of 1,000 members with 467 kB takes 66 kB compressed.
                "compression.type": "zstd",
                # Uncompressed snapshots of groups with thousands of members exceed the default of 1 MB.
                "message.max.bytes": codec.RECORD_BYTES_LIMIT,
                # Raise an error if the cluster accepts no records for a minute.
                "delivery.timeout.ms": 60_000,
            }
            | (extra or {})
        )

    def prepare(self) -> None:
        """Request the membership topic's partition count, so that the first event need not wait for it."""
        self._partitions(self._settings.topics.membership)

    def send(self, event: Event, topic: str | None = None) -> None:
        """Send one event to the membership topic, or to ``topic``; return before it is delivered.

        Raises SendFailed if the cluster did not accept a record that was sent earlier.
        """
        key, value, headers = codec.encode_event(event)
        self.send_record(topic or self._settings.topics.membership, key, value, headers)

    def send_record(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()
    ) -> None:
        """Send one record unchanged to the partition of its key; a record without a key goes to any partition."""
        self._raise_failure()
        placed = {} if key is None else {"partition": partition_for_key(key, self._partitions(topic))}
        while True:
            try:
                self.client.produce(
                    topic, key=key, value=value, headers=list(headers), on_delivery=self._on_delivery, **placed
                )
            except BufferError:  # the local queue is full: wait until some records are delivered
                self.client.poll(0.1)
                self._raise_failure()
            else:
                self.client.poll(0)
                return

    def flush(self, timeout: float = 30.0) -> None:
        """Wait until all sent records are in the log; raise SendFailed after ``timeout`` seconds."""
        undelivered = self.client.flush(timeout)
        self._raise_failure()
        if undelivered:
            raise SendFailed(f"{undelivered} records are not delivered after {timeout:g} s; is the cluster up?")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def _partitions(self, topic: str) -> int:
        """Return the topic's partition count, which is requested again every half minute, because it may grow."""
        count, requested_at = self._counts.get(topic, (0, 0.0))
        now = time.monotonic()
        if count and now - requested_at < _METADATA_SECONDS:
            return count
        try:
            metadata = self.client.list_topics(topic, timeout=10).topics[topic]
        except KafkaException as error:
            raise ClusterUnavailable(f"topic {topic}: {error.args[0].str()}") from error
        if metadata.error is not None:
            if metadata.error.name() == _TOPIC_DENIED:
                raise self._not_allowed_error(topic)
            raise SendFailed(f"topic {topic}: {metadata.error.str()}; `rebalance-monitor topics --create` creates it")
        self._counts[topic] = (len(metadata.partitions), now)
        return len(metadata.partitions)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        topic = message.topic() or ""
        if error is not None and error.name() == _TOPIC_DENIED:
            self._failure = self._not_allowed_error(topic)
        elif error is not None:
            # A refused timestamp, of the record or of its batch.
            advice = f"; {CLOCK_HINT}" if error.name() in ("INVALID_RECORD", "INVALID_TIMESTAMP") else ""
            self._failure = SendFailed(f"topic {topic}, key {message.key()!r}: {error.str()}{advice}")

    def _not_allowed_error(self, topic: str) -> NoPermission:
        return NoPermission(denial(self._settings.kafka, Permission("Write", topic), f"which {self._component} must"))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
