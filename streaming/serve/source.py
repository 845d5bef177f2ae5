"""Sources of the server's records: the topics of diffs, assignments and stories, or a recording."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.kafka.access import require_permissions
from streaming.kafka.background_reader import BufferedTopicReader
from streaming.kafka.clients import require_same_cluster
from streaming.kafka.metadata import Place
from streaming.kafka.producer import EventProducer
from streaming.kafka.topic_reader import TopicReader
from streaming.recording.file import Recording
from streaming.records.codec import ce_attributes
from streaming.records.episodes import ANNOTATION_TYPE
from streaming.records.events import Event
from streaming.serve.board import Stale
from streaming.serve.records import TopicRecord
from streaming.serve.stories import Sort
from streaming.settings.config import Settings

log = logging.getLogger(__name__)
#: The most records in one transaction of the history.
MAX_BATCH_RECORDS: Final = 500
#: The kinds of stories in the topics of a recording, in which a topic's name is its role.
RECORDED_STORY_SORTS: Final[dict[str, Sort]] = {"episodes": "episode", "incidents": "incident"}


class Source:
    """Reads diffs and assignments with one reader from the history's positions, without a consumer group.

    The episode and incident topics have a reader each, so that the feed continues if one of them can't be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, topics = settings, settings.topics
        self.topics = (topics.diffs, topics.assignments)
        self.stories: dict[str, Sort] = {topics.episodes: "episode", topics.incidents: "incident"}
        self.cluster_id = require_permissions(settings, "serve")
        self._opened = ExitStack()
        self._reader: TopicReader
        self._story_readers: list[BufferedTopicReader] = []
        self._next_offsets: dict[tuple[str, int], int] = {}
        self._ids: dict[str, str] = {}
        self._story_ids: dict[str, str] = {}
        self._missing_since: dict[str, int] = {}
        self._leaderless: dict[Place, int] = {}
        self._is_silent = False

    @property
    def default_history(self) -> Path:
        """The default path of the history file of this cluster."""
        return self._settings.default_history(self.cluster_id)

    def open(self, positions: Mapping[tuple[str, int], int], ids: Mapping[str, str]) -> None:
        """Start reading at ``{(topic, partition): next offset}`` if a topic still has its id, else at its beginning.

        A missing topic is read once it exists. Raise OutsideFailure if the servers now belong to another cluster.
        """
        fetch = {"fetch.wait.max.ms": 100, "queued.max.messages.kbytes": 16 * 1024}
        reader = TopicReader(
            self._settings.kafka, self.topics, positions=positions, ids=ids, wait=True, follow=True, properties=fetch
        )
        self._reader = self._opened.enter_context(closing(reader))
        self._update_state()
        for topic, sort in self.stories.items():
            stories = BufferedTopicReader(
                self._settings.kafka, topic, f"{sort}s", positions=positions, topic_id=ids.get(topic)
            )
            self._story_readers.append(self._opened.enter_context(stories))

    def poll(self, timeout: float) -> list[TopicRecord]:
        """Return new records, at most ``BATCH`` diffs and assignments; wait only for the first diff or assignment.

        Raise NoPermission if this user may not read a topic any more, and the errors of :meth:`open`.
        """
        records = [_record(message) for message in self._reader.poll(timeout, MAX_BATCH_RECORDS)]
        self._update_state()
        for record in records:
            self._check_offsets(record)
        return [*records, *self._stories()]

    def _stories(self) -> Iterator[TopicRecord]:
        """Yield new records of the episode and incident topics; the topic id is stored before the first record."""
        for reader in self._story_readers:
            batch = reader.take()
            if batch is not None:
                self._story_ids[reader.topic] = batch.topic_id
                ce_type = f"rebalance.{self.stories[reader.topic]}"
                records = (_record(message, ce_type) for message in batch.messages)
                yield from (record for record in records if record.type in (ce_type, ANNOTATION_TYPE))

    def _update_state(self) -> None:
        """Update the topics' ids and offsets from the reader; check the cluster id when brokers answer again."""
        reader = self._reader
        if reader.ids != self._ids:
            require_same_cluster(self._settings.kafka, self.cluster_id)
            self._ids, self._next_offsets = reader.ids, {}
        now = time.time_ns() // 1_000_000
        self._missing_since = {topic: self._missing_since.get(topic, now) for topic in reader.missing}
        self._leaderless = {place: self._leaderless.get(place, now) for place in sorted(reader.leaderless_partitions)}
        was_silent, self._is_silent = self._is_silent, reader.silent_since is not None
        if self._is_silent != was_silent:
            servers = self._settings.kafka.bootstrap_servers
            log.warning("cluster %s: %s", servers, "no contact" if self._is_silent else "answers again")
            if was_silent:
                require_same_cluster(self._settings.kafka, self.cluster_id)

    def _check_offsets(self, record: TopicRecord) -> None:
        """Log a warning if offsets of the diff topic are missing: rounds are lost. Other topics are compacted."""
        place = (record.topic, record.partition)
        expected = self._next_offsets.get(place, record.offset)
        if record.offset > expected and record.topic == self.topics[0]:
            log.warning("%s partition %d: offsets %d to %d are gone", *place, expected, record.offset - 1)
        self._next_offsets[place] = record.offset + 1

    @property
    def ids(self) -> dict[str, str]:
        """Topic ids of the topics that exist."""
        return self._ids | self._story_ids

    @property
    def caught_up(self) -> bool:
        """True if the diff topic and the topic of latest assignments exist and were read to their ends."""
        return self._reader.at_end

    @property
    def lag(self) -> int:
        """The number of unread records, by the end offsets in the last fetch responses."""
        return self._reader.lag

    @property
    def stale(self) -> Stale | None:
        """The reason why the data may be outdated, as of the last poll; None if there is no reason."""
        since = self._reader.silent_since
        if since is not None:
            return Stale("kafka-unreachable", "No contact with Kafka", int(since * 1000))
        for topic, missing_since_ms in self._missing_since.items():
            return Stale("topic-missing", f"Topic {topic} is missing", missing_since_ms)
        for (topic, number), missing_since_ms in self._leaderless.items():
            return Stale("partition-offline", f"Topic {topic} partition {number} has no leader", missing_since_ms)
        return None

    @property
    def whole(self) -> frozenset[Sort]:
        """The record types (episodes, incidents) whose topics have been read to their ends."""
        return frozenset(self.stories[reader.topic] for reader in self._story_readers if reader.is_complete)

    def publish(self, event: Event) -> None:
        """Write an event to the membership topic; raise MonitorError if Kafka does not accept it."""
        with EventProducer(self._settings, component="serve") as producer:
            producer.send(event)

    def close(self) -> None:
        """Close the topic readers."""
        self._opened.close()


class RecordedSource:
    """Source of a recording's diffs, assignments, episodes and incidents, without Kafka."""

    stale = None
    cluster_id, topics, stories = "recording", ("diffs", "assignments"), RECORDED_STORY_SORTS

    def __init__(self, recording: Recording) -> None:
        self._records = self._replay_records(recording)
        self.caught_up = False
        self.ids = dict.fromkeys((*self.topics, *self.stories), "recording")

    def open(self, positions: Mapping[tuple[str, int], int], ids: Mapping[str, str]) -> None:
        """Do nothing: the server of a recording starts with an empty history, without positions."""

    def poll(self, timeout: float) -> list[TopicRecord]:
        """Return the next records of the recording; an empty list at its end."""
        del timeout
        batch = list(islice(self._records, MAX_BATCH_RECORDS))
        self.caught_up = not batch
        return batch

    @property
    def whole(self) -> frozenset[Sort]:
        """The record types (episodes, incidents) whose topics have been read to their ends."""
        return frozenset(RECORDED_STORY_SORTS.values() if self.caught_up else ())

    @property
    def lag(self) -> int:
        """The recording's lag: 1 until all its records are read, then 0."""
        return 0 if self.caught_up else 1

    def publish(self, event: Event) -> None:
        """Raise BadInput, as events can't be added to a recording."""
        raise BadInput(f"{event.type}: a recording can't be changed; serve a cluster instead")

    def close(self) -> None:
        """Do nothing, as a recording in memory has no file or connection to close."""

    def _replay_records(self, recording: Recording) -> Iterator[TopicRecord]:
        offsets: Counter[str] = Counter()
        for outputs in recording.steps():
            for write in (output.write for output in outputs):
                ce = ce_attributes(write.headers)
                offsets[write.topic] += 1
                place = write.topic, 0, offsets[write.topic] - 1
                yield TopicRecord(*place, write.key, write.value, ce.get("id"), type=ce.get("type", ""))


def _record(message: Message, default_type: str = "") -> TopicRecord:
    ce = ce_attributes(message.headers())
    try:
        event_ms = round(datetime.fromisoformat(ce.get("time", "")).timestamp() * 1000)
    except ValueError:
        event_ms = 0
    return TopicRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.key(),
        message.value(),
        id=ce.get("id"),
        timestamp=message.timestamp()[1],
        type=ce.get("type", default_type),
        event_ms=event_ms,
    )
