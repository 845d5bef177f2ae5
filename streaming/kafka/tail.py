"""Read a topic from a known place on, without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from assignors.errors import OutsideFailure
from streaming.kafka.access import NotAllowed, denied
from streaming.kafka.clients import check_reachable, confluent_config
from streaming.settings.config import Settings

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

#: A cluster that does not answer for so long at the start is an error; later it is waited for.
START_SECONDS = 10.0


class TopicUnreadable(OutsideFailure):
    """The topic can't be read."""


class TopicTail:
    """All partitions of a topic, each in order; no offsets are committed anywhere.

    Args:
        settings: how to reach the cluster.
        topic: what to read.
        from_beginning: start at the earliest record; otherwise at the end.
        positions: ``{partition: next offset}``, goes before ``from_beginning``.

    Raises:
        TopicUnreadable: there is no such topic.
        NotAllowed: this user may not read it.
        ClusterUnavailable, AuthenticationRefused, CertificateRefused, WrongSecurityProtocol: as named.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        *,
        from_beginning: bool = False,
        positions: Mapping[int, int] | None = None,
    ) -> None:
        from confluent_kafka import Consumer

        check_reachable(settings.kafka)
        self._topic = topic
        self._kafka = settings.kafka
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._consumer: Consumer = Consumer(
            confluent_config(settings.kafka)
            | {
                "group.id": "rebalance-monitor-reader",  # required by the client, never joined: we assign
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                # Tells ends that are no records: markers of transactions, records that were deleted.
                "enable.partition.eof": True,
            }
        )
        try:
            self._start(from_beginning, positions or {})
        except BaseException:
            self._consumer.close()
            raise

    def _start(self, from_beginning: bool, positions: Mapping[int, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                bounds = self._bounds()
                break
            except KafkaException as error:
                self._unless_denied(error.args[0])
                # A topic that was just created, or moves: its leader is found within moments.
                if time.monotonic() > deadline:
                    raise TopicUnreadable(f"topic {self._topic}: {error.args[0].str()}") from error
                self._consumer.poll(0.2)
        for partition, (low, high) in bounds.items():
            self._ends[partition] = high
            self._positions[partition] = positions.get(partition, low if from_beginning else high)
        self._consumer.assign(
            [TopicPartition(self._topic, p, offset) for p, offset in self._positions.items()]
        )

    def _bounds(self) -> dict[int, tuple[int, int]]:
        """``{partition: (earliest offset, next offset)}``."""
        from confluent_kafka import TopicPartition

        metadata = self._consumer.list_topics(self._topic, timeout=START_SECONDS).topics[self._topic]
        if metadata.error is not None:
            self._unless_denied(metadata.error)
        if metadata.error is not None or not metadata.partitions:
            raise TopicUnreadable(
                f"topic {self._topic}: does not exist; `rebalance-monitor topics --create` makes it"
            )
        return {
            partition: self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=START_SECONDS
            )
            for partition in metadata.partitions
        }

    def _unless_denied(self, error: KafkaError) -> None:
        if error.name() == "TOPIC_AUTHORIZATION_FAILED":
            raise NotAllowed(denied(self._kafka, self._topic, "Read", "which a reader of it must"))

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    @property
    def positions(self) -> dict[int, int]:
        """``{partition: next offset}``: give it to a later reader to go on there."""
        return dict(self._positions)

    @property
    def at_end(self) -> bool:
        """Whether everything that was in the topic at the start has been read."""
        return all(self._positions[partition] >= end for partition, end in self._ends.items())

    def poll(self, timeout: float) -> Message | None:
        """The next record, or None after ``timeout`` seconds.

        Raises:
            TopicUnreadable: the topic is gone.
        """
        message = self._consumer.poll(timeout)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            if error.name() == "_PARTITION_EOF":
                self._positions[message.partition()] = message.offset()
                return None
            if error.fatal() or error.name() == "UNKNOWN_TOPIC_OR_PART":
                raise TopicUnreadable(f"topic {self._topic}: {error.str()}")
            return None  # librdkafka reconnects by itself; a broker that is away is waited for
        self._positions[message.partition()] = message.offset() + 1
        return message

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
