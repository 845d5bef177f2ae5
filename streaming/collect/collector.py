"""The collector: follows ``__consumer_offsets`` and publishes membership events, each exactly once.

A shell: it reads, folds (:mod:`streaming.collect.fold`), adds the broker's reasons and writes. At the start it
reads the compacted offsets topic from its beginning to rebuild what it knows, and publishes from its place on.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from streaming.collect.commits import unexplained
from streaming.collect.coordinator_log import CoordinatorLog
from streaming.collect.fold import Fold, Found, Outcome, Row
from streaming.collect.log_tail import LogTail
from streaming.collect.metadata import ClusterTopics, Told, subscribed, surely_alive_ms
from streaming.collect.metrics import CollectMetrics
from streaming.collect.published import published_topics
from streaming.collect.sink import OFFSETS_TOPIC, Sink
from streaming.kafka.access import require
from streaming.kafka.clients import ClusterUnavailable, check_reachable, confluent_config
from streaming.kafka.topics import ensure_topics
from streaming.wire.events import Event, GroupObserved

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

    from streaming.settings.config import Settings
    from streaming.wire.events import TopicMetadata

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
_BATCH = 2000
#: After the end of a partition was reached: all records of one millisecond are in the log by then.
_SETTLE_SECONDS = 0.05
_TIMEOUT = 30.0
#: What a broker answers whose group coordinator is about to be there.
_LOADING = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})


class Collector:
    """Collects from one cluster.

    Args:
        settings: the cluster, the topics, and which groups (``[collect]``).
        coordinator_logs: brokers' logs, besides those in the settings.
        stop: set to end: what was read is published first.
        metrics: told how it goes.
    """

    def __init__(
        self,
        settings: Settings,
        stop: threading.Event,
        coordinator_logs: Sequence[Path] = (),
        metrics: CollectMetrics | None = None,
    ) -> None:
        self._metrics = metrics or CollectMetrics()
        self._settings = settings
        self._stop = stop
        self._group_id = settings.topics.prefix + settings.collect.group_id
        # Group ids may hold line breaks: "." stands for them too.
        self._include = [re.compile(pattern, re.DOTALL) for pattern in settings.collect.include_groups]
        self._exclude = [re.compile(pattern, re.DOTALL) for pattern in settings.collect.exclude_groups]
        self._wanted: dict[str, bool] = {}
        self._tails = [LogTail(path) for path in (*settings.collect.coordinator_logs, *coordinator_logs)]
        self._reasons = CoordinatorLog()
        self._folds: dict[int, Fold] = {}
        self._next: dict[int, int] = {}
        self._start: dict[int, int] = {}
        self._at_end: dict[int, float] = {}
        self._metadata_due = 0.0
        #: Partitions that have not been read to their end yet: what groups subscribe to is not known before.
        self._behind: set[int] = set()

    def run(self) -> None:
        """Collect until ``stop`` is set.

        Raises:
            ClusterUnavailable: no broker answers.
            Superseded: another collector has taken over.
            TopicMisconfigured, TopicsNotCreated, NotPublished, LogUnreadable: as named.
        """
        from confluent_kafka import KafkaException

        try:
            self._run()
        except KafkaException as error:
            raise ClusterUnavailable(
                f"bootstrap_servers {self._settings.kafka.bootstrap_servers}: {error.args[0].str()}; "
                "started again, the collector goes on where it stopped"
            ) from error

    def _run(self) -> None:
        from confluent_kafka import Consumer
        from confluent_kafka.admin import AdminClient

        cluster = check_reachable(self._settings.kafka)
        require(self._settings, "collect")
        ensure_topics(self._settings)
        self._source = f"kafka://{cluster}/{OFFSETS_TOPIC}"
        metadata_source = f"kafka://{cluster}/metadata"
        config = confluent_config(self._settings.kafka)
        admin = AdminClient(config)
        self._topics = ClusterTopics(admin)
        self._surely_alive_ms = surely_alive_ms(admin)
        sink = Sink(self._settings, self._group_id, self._stop.is_set)
        self._told = Told(metadata_source, published_topics(self._settings, metadata_source))
        consumer = Consumer(
            config
            | {
                "group.id": self._group_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                # Others' open transactions may hold offset commits back; members are never in transactions.
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            self._begin(consumer)
            while not self._stop.is_set():
                self._step(consumer, sink)
            self._finish(consumer, sink)
        finally:
            consumer.close()
            for tail in self._tails:
                tail.close()

    def _begin(self, consumer: Consumer) -> None:
        """Assign every partition of the offsets topic from its beginning, once the topic is there."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        partitions: list[int] = []
        while not partitions and not self._stop.is_set():
            found = consumer.list_topics(OFFSETS_TOPIC, timeout=_TIMEOUT).topics[OFFSETS_TOPIC]
            partitions = sorted(found.partitions) if found.error is None else []
            if not partitions:  # no group has ever been in this cluster
                self._stop.wait(0.2)
        wanted = [TopicPartition(OFFSETS_TOPIC, number) for number in partitions]
        for place in self._committed(consumer, wanted) if wanted else ():
            self._start[place.partition] = max(place.offset, 0)
            self._folds[place.partition] = Fold(
                self._source, place.partition, self._topics.name, self._follows, self._surely_alive_ms
            )
        self._behind = set(partitions)
        consumer.assign([TopicPartition(OFFSETS_TOPIC, number, OFFSET_BEGINNING) for number in partitions])
        _log.info("following %d partitions of %s as %s", len(partitions), OFFSETS_TOPIC, self._group_id)

    def _committed(self, consumer: Consumer, wanted: list[TopicPartition]) -> list[TopicPartition]:
        """The places; a coordinator that is still loading, as in a new cluster, is waited for."""
        from confluent_kafka import KafkaException

        by = time.monotonic() + _TIMEOUT
        while True:
            try:
                places: list[TopicPartition] = consumer.committed(wanted, timeout=_TIMEOUT)
            except KafkaException as error:
                if error.args[0].name() not in _LOADING or time.monotonic() > by or self._stop.is_set():
                    raise
                self._stop.wait(0.2)
            else:
                return places

    def _step(self, consumer: Consumer, sink: Sink) -> None:
        """Read once, and publish what is complete."""
        messages = consumer.consume(_BATCH, _POLL_SECONDS)
        self._measure(consumer, sum(message.error() is None for message in messages))
        for tail in self._tails:
            for line in tail.lines():
                self._reasons.feed(line)
        out: list[Outcome] = []
        for message in messages:
            self._read(message, out)
        now = time.monotonic()
        for number, since in list(self._at_end.items()):
            if now - since >= _SETTLE_SECONDS:
                del self._at_end[number]
                out += self._published(number, self._folds[number].settle())
        self._publish(out, consumer, sink, metadata_due=now >= self._metadata_due and not self._behind)

    def _measure(self, consumer: Consumer, read: int) -> None:
        from confluent_kafka import TopicPartition

        self._metrics.read(read)
        ends = {}
        for number in self._folds:  # what librdkafka has seen: no request
            _, ends[number] = consumer.get_watermark_offsets(
                TopicPartition(OFFSETS_TOPIC, number), cached=True
            )
        self._metrics.place(ends, self._next, len(self._behind))

    def _read(self, message: Any, out: list[Outcome]) -> None:
        from confluent_kafka import KafkaError

        number, error = message.partition(), message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                self._at_end[number] = time.monotonic()
                self._behind.discard(number)
            elif error.fatal():
                raise ClusterUnavailable(f"{OFFSETS_TOPIC}: {error.str()}")
            else:
                _log.warning("%s: %s", OFFSETS_TOPIC, error.str())
            return
        self._at_end.pop(number, None)
        self._next[number] = message.offset() + 1
        row = Row(number, message.offset(), message.timestamp()[1], message.key(), message.value())
        out += self._published(number, self._folds[number].add(row))

    def _published(self, number: int, outcome: list[Outcome]) -> list[Outcome]:
        """Of a run's outcome what is new, with the broker's reasons."""
        return [
            replace(item, event=self._explained(item.event)) if isinstance(item, Found) else item
            for item in outcome
            if item.row.offset >= self._start[number]
        ]

    def _follows(self, group_id: str) -> bool:
        """Whether a group is asked for."""
        known = self._wanted.get(group_id)
        if known is None:
            known = self._wanted[group_id] = any(
                pattern.fullmatch(group_id) for pattern in self._include
            ) and not any(pattern.fullmatch(group_id) for pattern in self._exclude)
        return known

    def _explained(self, event: Event) -> Event:
        data = event.data
        if not isinstance(data, GroupObserved):
            return event
        number = data.group_epoch if data.group_protocol == "consumer" else data.generation
        logged = self._reasons.evidence(data.group_id, number or 0)
        if not logged:
            return event
        evidence = [*logged, *unexplained(data.evidence, logged)]
        return structs.replace(event, data=structs.replace(data, evidence=evidence))

    def _publish(self, out: list[Outcome], consumer: Consumer, sink: Sink, *, metadata_due: bool) -> None:
        batch = self._with_counts(out, metadata_due=metadata_due)
        if not batch:
            return
        positions = {}
        for number, following in self._next.items():
            unsettled = self._folds[number].open_offset
            # Never behind the place itself: while the past is read again nothing moves.
            positions[number] = max(following if unsettled is None else unsettled, self._start[number])
        self._metrics.published(sink.publish(batch, positions, consumer.consumer_group_metadata()))

    def _with_counts(self, out: list[Outcome], *, metadata_due: bool) -> list[Outcome | Event]:
        """``out`` with the partition counts that groups were not told: before what shows them, or when due."""
        from confluent_kafka import KafkaException

        events = [item.event for item in out if isinstance(item, Found)]
        followed: dict[str, frozenset[str]] = {}
        if metadata_due:
            self._metadata_due = time.monotonic() + self._settings.collect.metadata_interval_ms / 1000
            for fold in self._folds.values():
                followed |= fold.subscriptions()
        current: Mapping[str, TopicMetadata] = {}
        if metadata_due or self._told.asks(events):
            views = [event.data for event in events if isinstance(event.data, GroupObserved)]
            try:
                current = self._topics.refresh(frozenset().union(*followed.values(), *map(subscribed, views)))
            except KafkaException as error:
                _log.warning("topic metadata: %s", error.args[0].str())
        batch: list[Outcome | Event] = []
        for item in out:
            told = self._told.before(item.event, current) if isinstance(item, Found) else None
            batch += [item] if told is None else [told, item]
        now = int(time.time() * 1000)
        for group_id, topics in followed.items():
            told = self._told.tell(group_id, topics, current, now)
            batch += [] if told is None else [told]
        return batch

    def _finish(self, consumer: Consumer, sink: Sink) -> None:
        """Publish what was read: runs that are complete as far as anybody can see."""
        self._step(consumer, sink)
        out = [
            item
            for number in sorted(self._at_end)
            for item in self._published(number, self._folds[number].settle())
        ]
        self._publish(out, consumer, sink, metadata_due=False)
        _log.info("stopped")
