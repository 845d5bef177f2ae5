"""The collector that follows ``__consumer_offsets`` and publishes membership events, each exactly once."""

import logging
import threading
import time

from streaming.collect.broker_log.events import CoordinatorEvent
from streaming.collect.broker_reasons import BrokerReasons, add_reasons, stop_event
from streaming.collect.cluster import max_silence_ms
from streaming.collect.commit_pauses import CommitPauses
from streaming.collect.coordinator.layout_check import LayoutCheck
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.collect.coordinator.schema import NewerRecord
from streaming.collect.counts import read_published
from streaming.collect.fold import CollectedEvent, Fold, Outcome
from streaming.collect.group_states import GroupStates
from streaming.collect.lifecycle import BaseCollector, state_event
from streaming.collect.metrics import CollectMetrics
from streaming.collect.progress import ProgressSampler
from streaming.collect.rebalances import Rebalances
from streaming.collect.source import OffsetsBatch, OffsetsTopic
from streaming.records.events import ClusterObserved, Event, GroupProgress, GroupRebalancing
from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


class Collector(BaseCollector):
    """The collector that reads ``__consumer_offsets`` of one cluster."""

    by = "offsets"

    def __init__(self, settings: Settings, stop: threading.Event, metrics: CollectMetrics | None = None) -> None:
        super().__init__(settings, stop)
        self._metrics = metrics or CollectMetrics()
        self._logs = BrokerReasons(settings.collect.coordinator_logs)

    def run(self) -> None:
        """Collect until stopped (:meth:`BaseCollector.run`), then close the coordinators' logs."""
        try:
            super().run()
        finally:
            self._logs.close()

    def _collect(self) -> None:
        settings, topics = self._settings, self._topics
        alive_ms = max_silence_ms(settings.kafka)
        published = read_published(settings, self._counts_source)
        self._count(published)
        self._rebalances = Rebalances(published.rebalances)
        self._states_source = f"kafka://{self._cluster}/groups/state"
        source = f"kafka://{self._cluster}/{OFFSETS_TOPIC}"
        self._ownership_checked_at = time.monotonic()
        self._layout = LayoutCheck()
        self._groups_with_newer_records: set[str] = set()
        self._source = OffsetsTopic(
            settings.kafka,
            settings.collector_id,
            self._stop,
            lambda partition: Fold(source, partition, topics.name, self._is_wanted_group, alive_ms),
            waiting=lambda: self._heartbeats.write(up_to=time.time()),
            on_fetch=topics.on_fetch,
        )
        self._states = GroupStates(settings.kafka, self._is_wanted_group)
        self._pauses = CommitPauses(f"kafka://{self._cluster}/cluster")
        self._progress = ProgressSampler(settings.kafka, settings.collect.progress_rest_seconds)
        self._last_list_number = 0
        try:
            while self._should_continue():
                self._publish(self._source.read())
            # Without more records in the log, the last run of each partition counts as complete.
            self._publish(self._source.read(settle_seconds=0, flush_seconds=0))
            if self._stop.is_set():
                self._heartbeats.write_last()
        finally:
            self._states.close()
            self._source.close()

    def _add_reasons(self, item: Outcome) -> list[Outcome]:
        if not isinstance(item, CollectedEvent):
            return [item]
        reasons, previous = self._logs.reasons, item.previous
        events = add_reasons(item.event, reasons, previous), stop_event(item.event, reasons, previous)
        return [item._replace(event=event) for event in events if event is not None]

    def _publish(self, batch: OffsetsBatch) -> None:
        self._metrics.records.inc(batch.records)
        self._metrics.lag.set(batch.lag)
        self._metrics.behind.set(batch.behind)
        now = time.time_ns() // 1_000_000

        def add_line(event: CoordinatorEvent) -> None:
            # Lines from before the start are too old to infer a time zone from their age.
            if not batch.behind and self._is_wanted_group(event.group_id):
                self._rebalances.add_log_event(event, now)

        self._metrics.logged(self._logs.read(add_line))
        outcomes = [outcome for item in batch.outcomes if self._is_usable(item) for outcome in self._add_reasons(item)]
        # Subscriptions are complete once every partition was read to its end.
        is_complete = not batch.behind and not self._stop.is_set()
        items = self._counts_publisher.add_counts(
            outcomes, self._source.snapshots if is_complete else None, away=self._source.away
        )
        event_data = [outcome.event.data for outcome in outcomes if isinstance(outcome, CollectedEvent)]
        for data in event_data:
            self._rebalances.apply_event(data)
        self._metrics.groups.take(event_data)
        if is_complete:
            listing = self._states.latest
            if listing.number != self._last_list_number:
                self._last_list_number = listing.number
                self._rebalances.apply_list(listing.groups, now, complete=listing.complete)
            changed: list[GroupRebalancing | GroupProgress] = [*self._rebalances.events(self._source.group, now)]
            moment = time.monotonic()
            self._progress.schedule.sample_often(self._rebalances.groups(), moment, changed=False)
            # The sooner samples follow a round or the proof of an outage's end, the closer are the bounds of the cost.
            self._progress.schedule.sample_often((data.group_id for data in event_data), moment, changed=True)
            changed += self._progress.sample(self._source.group, self._source.groups, moment, now)
            items += [state_event(self._states_source, data) for data in changed]
            self._metrics.groups.take(changed)
            for item in items:
                if isinstance(item, Event) and isinstance(item.data, ClusterObserved):
                    self._pauses.add_change(item.data)
            if (pauses := self._pauses.event(self._source.group, self._topics.snapshot, now)) is not None:
                items.append(pauses)
        if items:
            self._metrics.published(self._publisher.publish(items, batch.place))
            self._ownership_checked_at = time.monotonic()
        else:
            self._confirm_ownership(batch)
        self._heartbeats.write(up_to=time.time() if batch.is_up_to_date else None, positions=batch.place.offsets)

    def _is_usable(self, outcome: Outcome) -> bool:
        """False for a record of a newer Kafka version; such a record is counted and skipped."""
        if isinstance(outcome, CollectedEvent):
            self._layout.mark_used()
        elif isinstance(outcome.error, NewerRecord):
            self._metrics.newer_count.inc()
            if str(outcome.error) not in self._groups_with_newer_records:
                self._groups_with_newer_records.add(str(outcome.error))
                _log.warning("%s: %s is newer than this collector and skipped; update it", OFFSETS_TOPIC, outcome.error)
            return False
        else:
            self._layout.refused(outcome.record.key, outcome.record.value, outcome.error)
        return True

    def _confirm_ownership(self, batch: OffsetsBatch) -> None:
        """Commit the offsets again before a heartbeat is written; this fails if another collector has taken over."""
        now = time.monotonic()
        if now - self._ownership_checked_at < self._settings.signs.every_ms / 1000:
            return
        if batch.place.offsets and not self._source.away:
            self._publisher.publish([], batch.place)
            self._ownership_checked_at = now
