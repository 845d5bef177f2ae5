"""The source of records: the diff, assignment and story topics, read from the history's positions."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import structs

from streaming.kafka.access import require
from streaming.kafka.background_reader import BufferedTopicReader
from streaming.kafka.clients import same_cluster
from streaming.kafka.producer import EventProducer
from streaming.kafka.topic_reader import TopicReader
from streaming.records import codec
from streaming.records.episodes import ANNOTATION_TYPE
from streaming.records.events import Event
from streaming.serve.board import Stale
from streaming.serve.records import TopicRecord
from streaming.serve.stories import Sort

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.kafka.metadata import Place
    from streaming.settings.config import Settings

log = logging.getLogger(__name__)

#: Records a transaction; a burst is written in transactions of this size.
BATCH: Final = 500


class Source:
    """Diffs and assignments through one reader, without a consumer group: positions are those of the history.

    Each topic of stories has a reader of its own: where one is missing, or not readable, the feed goes on.
    """

    def __init__(self, settings: Settings) -> None:
        self.stories: dict[str, Sort] = {settings.topics.episodes: "episode", settings.topics.incidents: "incident"}
        self._story_readers: list[BufferedTopicReader] = []
        self._story_ids: dict[str, str] = {}
        self._settings = settings
        self.topics = (settings.topics.diffs, settings.topics.assignments)
        self.cluster_id = require(settings, "serve")
        self._reader: TopicReader | None = None
        self._expected: dict[tuple[str, int], int] = {}
        self._ids: dict[str, str] = {}
        self._missing: dict[str, int] = {}
        self._leaderless: dict[Place, int] = {}
        self._silent = False

    def open(self, positions: Mapping[tuple[str, int], int], ids: Mapping[str, str]) -> None:
        """Start at ``{(topic, partition): next offset}`` of topics with these ids; others start at their beginning.

        A missing topic is looked for while polling.

        Raises:
            AnotherCluster: it took the place of the one that was there before.
        """
        self._reader = TopicReader(
            self._settings.kafka,
            self.topics,
            positions=positions,
            ids=ids,
            wait=True,
            follow=True,
            properties={"fetch.wait.max.ms": 100, "queued.max.messages.kbytes": 16 * 1024},
        )
        self._note(self._reader)
        for topic, sort in self.stories.items():
            aside = BufferedTopicReader(
                *(self._settings.kafka, topic, f"{sort}s"), positions=positions, topic_id=ids.get(topic)
            )
            self._story_readers.append(aside.__enter__())

    def _opened(self) -> TopicReader:
        if self._reader is None:
            raise RuntimeError("the source is not open")
        return self._reader

    def poll(self, timeout: float) -> list[TopicRecord]:
        """Return new records, at most ``BATCH``; wait for the first one only.

        Raises:
            NotAllowed: this user may not read a topic any more.
            AnotherCluster: it took the place of the one that was there before.
        """
        reader = self._opened()
        messages = reader.poll(timeout, BATCH)
        self._note(reader)
        return [*(self._record(message) for message in messages), *self._stories()]

    def _stories(self) -> Iterator[TopicRecord]:
        """Yield new records of the story topics; a recreated topic's id is set before its first record."""
        for aside in self._story_readers:
            batch = aside.take()
            if batch is None:
                continue
            self._story_ids[aside.topic] = batch.topic_id
            wanted = f"rebalance.{self.stories[aside.topic]}"
            for message in batch.messages:
                ce = codec.ce_attributes(message.headers())
                if ce.get("type", wanted) in (wanted, ANNOTATION_TYPE):
                    happened = _event_time(ce.get("time", ""))
                    record = _record(message, ce.get("id"))
                    yield structs.replace(record, type=ce.get("type", wanted), happened=happened)

    def _note(self, reader: TopicReader) -> None:
        if reader.ids != self._ids:
            same_cluster(self._settings.kafka, self.cluster_id)
            self._ids, self._expected = reader.ids, {}
        now = time.time_ns() // 1_000_000
        self._missing = {topic: self._missing.get(topic, now) for topic in reader.missing}
        self._leaderless = {place: self._leaderless.get(place, now) for place in sorted(reader.leaderless)}
        silent = reader.silent_since is not None
        if silent != self._silent:
            servers = self._settings.kafka.bootstrap_servers
            log.warning("cluster %s: %s", servers, "no contact" if silent else "answers again")
            self._silent = silent
            if not silent:
                same_cluster(self._settings.kafka, self.cluster_id)

    def _record(self, message: Message) -> TopicRecord:
        place = (message.topic() or "", message.partition() or 0)
        offset = message.offset() or 0
        expected = self._expected.get(place, offset)
        if offset > expected and place[0] == self.topics[0]:
            # Gaps are normal under compaction and transactions; in the diff topic they mean lost rounds.
            log.warning("%s partition %d: offsets %d to %d are gone", *place, expected, offset - 1)
        self._expected[place] = offset + 1
        return _record(message, codec.ce_attributes(message.headers()).get("id"))

    @property
    def ids(self) -> dict[str, str]:
        """Ids of the topics that exist."""
        return self._ids | self._story_ids

    @property
    def caught_up(self) -> bool:
        """Both topics exist, and every partition's end was seen."""
        return self._opened().at_end

    @property
    def lag(self) -> int:
        """From the ends that came with the last fetches: no request of its own."""
        return self._opened().lag

    @property
    def stale(self) -> Stale | None:
        """The reason why the data may be outdated, by the last poll."""
        since = self._opened().silent_since
        if since is not None:
            return Stale("kafka-unreachable", "No contact with Kafka", int(since * 1000))
        for topic, noticed in self._missing.items():
            return Stale("topic-missing", f"Topic {topic} is missing", noticed)
        for (topic, number), noticed in self._leaderless.items():
            return Stale("partition-offline", f"Topic {topic} partition {number} has no leader", noticed)
        return None

    @property
    def whole(self) -> frozenset[Sort]:
        """The sorts of stories that are read completely."""
        return frozenset(self.stories[aside.topic] for aside in self._story_readers if aside.is_complete)

    def publish(self, event: Event) -> None:
        """Write an event to the membership topic.

        Raises:
            MonitorError: Kafka did not take it.
        """
        with EventProducer(self._settings, component="serve") as producer:
            producer.send(event)

    def close(self) -> None:
        """Close the readers."""
        for aside in self._story_readers:
            aside.__exit__()
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _event_time(ce_time: str) -> int:
    """Return the time of a ``ce_time`` header, ms; 0 if it is none."""
    try:
        return round(datetime.fromisoformat(ce_time).timestamp() * 1000)
    except ValueError:
        return 0


def _record(message: Message, ce_id: str | None) -> TopicRecord:
    return TopicRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.key(),
        message.value(),
        ce_id,
        message.timestamp()[1],
    )
