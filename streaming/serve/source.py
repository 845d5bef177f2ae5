"""The diff and assignment topics, read from where the history stands."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from streaming.kafka.access import require
from streaming.kafka.clients import confluent_config
from streaming.serve.history import Record
from streaming.serve.standing import Stale
from streaming.serve.topicwatch import TopicsUnreadable, TopicWatch
from streaming.wire import codec

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from streaming.settings.config import Settings

log = logging.getLogger(__name__)

#: Records a transaction; a burst is written in transactions of this size.
BATCH: Final = 500
#: Seconds to wait at the start for the cluster to describe the topics.
_START_SECONDS: Final = 10.0


class Source(Protocol):
    """What the follower reads; Kafka in production."""

    def open(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Go on from ``{(topic, partition): next offset}``; what is not named starts at its beginning.

        Called again, it starts over: what was read before counts no more.
        """

    def topic_ids(self) -> dict[str, str]:
        """``{topic: id}`` of the topics that exist; to be asked before each poll, and never waits after the first.

        A topic of the same name with another id is another topic: the source must be opened anew.
        """

    def poll(self, timeout: float) -> list[Record]:
        """Records that arrived, or none after ``timeout`` seconds."""

    @property
    def caught_up(self) -> bool:
        """Whether every partition has been read to the end that is known of it."""

    @property
    def lag(self) -> int:
        """Records between what was read and the ends that are known."""

    @property
    def stale(self) -> Stale | None:
        """Why there may be more than is known; None when that can't be."""

    def close(self) -> None:
        """Give the connections back."""


class KafkaSource:
    """Both topics through one consumer, without a consumer group: positions are the history's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.topics = (settings.topics.diffs, settings.topics.assignments)
        self.cluster_id = require(settings, "serve")
        self._watch = TopicWatch(settings.kafka, self.topics, self.cluster_id)
        self._consumer: Consumer | None = None
        self._positions: Mapping[tuple[str, int], int] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._present: set[str] = set()

    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics that exist, as of the last answer."""
        if self._watch.ends is None:
            self._watch.first(_START_SECONDS)
        self._watch.turn()
        return self._watch.ids

    def open(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Begin with no partition; those that exist are taken up by polling."""
        from confluent_kafka import Consumer

        self.close()
        self._positions, self._next = dict(positions), {}
        self._present = set(self._watch.ids)
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

    def _take_up(self) -> None:
        """Read partitions that were not there before, and topics that were away."""
        from confluent_kafka import TopicPartition

        present = set(self._watch.ids)
        if present - self._present:
            # librdkafka gives up on a topic that was gone, also when its metadata alone was late.
            self.open({**self._positions, **self._next})
        self._present = present
        new = []
        for place in self._watch.ends or {}:
            if place not in self._next:
                self._next[place] = self._positions.get(place, 0)
                new.append(TopicPartition(*place, self._next[place]))
        if new and self._consumer is not None:
            self._consumer.incremental_assign(new)

    def poll(self, timeout: float) -> list[Record]:
        """What arrived, at most ``BATCH`` records; the first is waited for, the rest is taken as it is there."""
        self._take_up()
        if self._consumer is None:
            raise TopicsUnreadable("the source is not open")
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        return [record for record in map(self._record, [first, *self._consumer.consume(BATCH, 0)]) if record]

    def _record(self, message: Message) -> Record | None:
        from confluent_kafka import KafkaError

        place = (message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is None:
            return self._read(message, place)
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public constant
            # The end may lie behind the last record: markers of transactions, records that were deleted.
            self._next[place] = message.offset() or 0
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
        """Both topics exist, and were read to the ends that the last answer named."""
        return len(self._watch.ids) == len(self.topics) and self._watch.ends is not None and self.lag == 0

    @property
    def lag(self) -> int:
        """Summed over partitions."""
        ends = self._watch.ends or {}
        return sum(max(0, end - self._next.get(place, 0)) for place, end in ends.items())

    @property
    def stale(self) -> Stale | None:
        """What the last look at the topics found."""
        return self._watch.stale

    def close(self) -> None:
        """Leave the cluster."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
