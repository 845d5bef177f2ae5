"""The collector: follows ``__consumer_offsets`` and publishes membership events, each exactly once.

A loop: read (:mod:`streaming.collect.source`), add the brokers' reasons and the partition counts that groups were
not told, publish together with the place to go on from.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.collect.cluster import ClusterTopics, surely_alive_ms
from streaming.collect.counts import PartitionCounts, subscribed
from streaming.collect.fold import OFFSETS_TOPIC, Fold, Found, Outcome
from streaming.collect.metrics import CollectMetrics
from streaming.collect.published import published_counts
from streaming.collect.publisher import Publisher, written
from streaming.collect.reasons import Reasons
from streaming.collect.selection import selection
from streaming.collect.source import Batch, OffsetsTopic
from streaming.kafka.access import refusal, require
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.renewal import Renewal
from streaming.kafka.topics import ensure_topics
from streaming.wire.events import Event, GroupObserved

if TYPE_CHECKING:
    from streaming.settings.config import Settings
    from streaming.wire.events import TopicMetadata

_log = logging.getLogger(__name__)


class Collector:
    """Collects from one cluster.

    Args:
        settings: the cluster, the topics, and which groups (``[collect]``).
        stop: set to end: what was read is published first.
        coordinator_logs: brokers' logs, besides those in the settings.
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
        self._group_id = settings.collector_id
        self._reasons = Reasons((*settings.collect.coordinator_logs, *coordinator_logs))
        self._renewal = Renewal(settings.kafka)
        self._counts_due = 0.0

    def run(self) -> None:
        """Collect until ``stop`` is set.

        Raises:
            ClusterUnavailable: no broker answers.
            NotAllowed: an ACL is missing, or was taken away.
            Superseded: another collector has taken over.
            TopicMisconfigured, TopicsNotCreated, NotPublished, LogUnreadable: as named.
        """
        from confluent_kafka import KafkaException

        try:
            self._run()
            while not self._stop.is_set():
                self._run()
            _log.info("stopped")
        except KafkaException as error:
            raise refusal(error.args[0], self._settings, "collect") or ClusterUnavailable(
                f"bootstrap_servers {self._settings.kafka.bootstrap_servers}: {error.args[0].str()}; "
                "started again, the collector goes on where it stopped"
            ) from error
        finally:
            self._reasons.close()

    def _run(self) -> None:
        """Collect until ``stop`` is set or there are new secrets or certificates: these begin as a restart does."""
        settings = self._settings
        cluster = require(settings, "collect")
        ensure_topics(settings, written(settings.topics))
        self._topics = ClusterTopics(settings.kafka)
        wanted = selection(settings.collect.include_groups, settings.collect.exclude_groups)
        alive_ms = surely_alive_ms(settings.kafka)
        self._publisher = Publisher(settings, self._group_id, self._stop.is_set)
        counts_source = f"kafka://{cluster}/metadata"
        self._counts = PartitionCounts(counts_source, published_counts(settings, counts_source))
        source = f"kafka://{cluster}/{OFFSETS_TOPIC}"

        def fold(partition: int) -> Fold:
            return Fold(source, partition, self._topics.name, wanted, alive_ms)

        self._source = OffsetsTopic(settings.kafka, self._group_id, self._stop, fold)
        try:
            while not (self._stop.is_set() or self._renewal.renewed(time.monotonic())):
                self._publish(self._source.read())
            # What was read is published: runs that are complete as far as anybody can see.
            self._publish(self._source.read(settle_seconds=0))
        finally:
            self._source.close()

    def _publish(self, batch: Batch) -> None:
        self._metrics.read(batch.records, lag=batch.lag, behind=batch.behind)
        self._reasons.listen()
        outcomes = [
            replace(item, event=self._reasons.explained(item.event)) if isinstance(item, Found) else item
            for item in batch.outcomes
        ]
        # What groups subscribe to is not known before every partition was read to its end.
        due = time.monotonic() >= self._counts_due and not batch.behind and not self._stop.is_set()
        items = self._with_counts(outcomes, self._source.subscriptions() if due else {})
        if due:
            self._counts_due = time.monotonic() + self._settings.collect.metadata_interval_ms / 1000
        if items:
            self._metrics.published(self._publisher.publish(items, batch.place))

    def _with_counts(
        self, outcomes: list[Outcome], due: Mapping[str, frozenset[str]]
    ) -> list[Outcome | Event]:
        """``outcomes`` with the partition counts that groups were not told, before what shows them.

        ``due``: groups that are told what changed in any case, with the topics that they subscribe to.
        """
        events = [item.event for item in outcomes if isinstance(item, Found)]
        views = [event.data for event in events if isinstance(event.data, GroupObserved)]
        current: Mapping[str, TopicMetadata] = {}
        if due or self._counts.lack(events):
            current = self._asked(
                topic for topics in (*due.values(), *map(subscribed, views)) for topic in topics
            )
        items: list[Outcome | Event] = []
        for item in outcomes:
            if isinstance(item, Found):
                items += self._counts.before(item.event, current)
            items.append(item)
        now = int(time.time() * 1000)
        for group_id, topics in due.items():
            items += self._counts.tell(group_id, topics, current, now)
        return items

    def _asked(self, topics: Iterable[str]) -> Mapping[str, TopicMetadata]:
        """What the cluster says of these topics; nothing while it does not answer."""
        from confluent_kafka import KafkaException

        try:
            return self._topics.refresh(topics)
        except KafkaException as error:
            _log.warning("topic metadata: %s", error.args[0].str())
            return {}
