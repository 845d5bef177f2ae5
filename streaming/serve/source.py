"""The diff and assignment topics, read from where the history stands."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from assignors.errors import OutsideFailure
from streaming.kafka.access import require
from streaming.kafka.clients import confluent_config
from streaming.serve.history import Record
from streaming.wire import codec

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

    from streaming.settings.config import Settings

log = logging.getLogger(__name__)

#: Records a transaction; a burst is written in transactions of this size.
BATCH: Final = 500
#: Seconds between looks for topics and partitions that were not there before.
_LOOK_EVERY: Final = 10.0


class TopicsUnreadable(OutsideFailure):
    """The diff topics can't be read."""


class Source(Protocol):
    """What the follower reads; Kafka in production."""

    def open(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Go on from ``{(topic, partition): next offset}``; what is not named starts at its beginning."""

    def topic_ids(self) -> dict[str, str]:
        """``{topic: id}``: a topic of the same name with another id is another topic."""

    def poll(self, timeout: float) -> list[Record]:
        """Records that arrived, or none after ``timeout`` seconds."""

    @property
    def caught_up(self) -> bool:
        """Whether every partition has been read to its end since the source was opened."""

    @property
    def lag(self) -> int:
        """Records between what was read and the ends, as far as is known."""

    def close(self) -> None:
        """Give the connections back."""


class KafkaSource:
    """Both topics through one consumer, without a consumer group: positions are the history's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.topics = (settings.topics.diffs, settings.topics.assignments)
        self.cluster_id = require(settings, "serve")
        self._consumer: Consumer | None = None
        self._admin_client: AdminClient | None = None
        self._positions: dict[tuple[str, int], int] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._unread: set[tuple[str, int]] = set()
        self._missing: set[str] = set(self.topics)
        self._named: set[str] = set()
        self._looked = 0.0

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._admin_client is None:
            self._admin_client = AdminClient(confluent_config(self._settings.kafka))
        return self._admin_client

    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics that exist."""
        from confluent_kafka import KafkaException, TopicCollection

        found = {}
        asked = self._admin().describe_topics(TopicCollection(list(self.topics)), request_timeout=10)
        for topic, future in asked.items():
            try:
                found[topic] = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise TopicsUnreadable(f"topic {topic}: {error.args[0].str()}") from error
        return found

    def open(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Assign every partition that exists; others are looked for while polling."""
        from confluent_kafka import Consumer

        self._positions = dict(positions)
        self._consumer = Consumer(
            confluent_config(self._settings.kafka)
            | {
                "group.id": "rebalance-monitor-serve",  # required by the client, never joined: we assign
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 16 * 1024,
            }
        )
        self._look(self._consumer)

    def _look(self, consumer: Consumer) -> None:
        """Take up partitions that were not there before."""
        from confluent_kafka import KafkaException, TopicPartition

        self._looked = time.monotonic()
        try:
            known = consumer.list_topics(timeout=5).topics
        except KafkaException as error:
            log.warning("cluster %s: %s", self._settings.kafka.bootstrap_servers, error.args[0].str())
            return
        new = []
        for topic in self.topics:
            if topic not in known or known[topic].error is not None:
                if topic not in self._named:
                    self._named.add(topic)
                    log.warning("topic %s does not exist yet: waiting for it", topic)
                self._missing.add(topic)
                continue
            self._missing.discard(topic)
            for partition in known[topic].partitions:
                if (topic, partition) not in self._next:
                    offset = self._positions.get((topic, partition), 0)
                    self._next[topic, partition] = offset
                    self._unread.add((topic, partition))
                    new.append(TopicPartition(topic, partition, offset))
        if new:
            consumer.incremental_assign(new)

    def poll(self, timeout: float) -> list[Record]:
        """What arrived, at most ``BATCH`` records; the first is waited for, the rest is taken as it is there."""
        consumer = self._consumer
        if consumer is None:
            raise TopicsUnreadable("the source is not open")
        if time.monotonic() - self._looked > (_LOOK_EVERY if not self._missing else 1.0):
            self._look(consumer)
        first = consumer.poll(timeout)
        if first is None:
            return []
        return [record for record in map(self._record, [first, *consumer.consume(BATCH, 0)]) if record]

    def _record(self, message: Message) -> Record | None:
        from confluent_kafka import KafkaError

        place = (message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is None:
            return self._read(message, place)
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public constant
            self._unread.discard(place)
        elif error.fatal() or error.code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError._AUTHENTICATION,  # noqa: SLF001 - same
        ):
            raise TopicsUnreadable(f"topic {place[0]}: {error.str()}")
        return None

    def _read(self, message: Message, place: tuple[str, int]) -> Record:
        offset: Any = message.offset()
        expected = self._next[place]
        if offset > expected and place[0] == self.topics[0] and expected > 0:
            # Gaps are normal under compaction and transactions; in the diff topic they mean lost rounds.
            log.warning("%s partition %d: offsets %d to %d are gone", *place, expected, offset - 1)
        self._next[place] = offset + 1
        ce = codec.ce_attributes(message.headers())
        return Record(*place, offset, message.key(), message.value(), ce.get("id"))

    @property
    def caught_up(self) -> bool:
        """Every partition's end was seen, and both topics exist."""
        return not self._unread and not self._missing

    @property
    def lag(self) -> int:
        """From the ends that came with the last fetches: no request of its own."""
        from confluent_kafka import TopicPartition

        total = 0
        for (topic, partition), offset in self._next.items():
            if self._consumer is not None:
                _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
                total += max(0, end - offset)  # an unknown end is a negative number
        return total

    def close(self) -> None:
        """Leave the cluster."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
