"""The collectors' Prometheus metrics."""

from collections import Counter as Count
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from streaming.collect.broker_log.log import LogCounts
from streaming.collect.publisher import OutgoingRecord
from streaming.records.events import GroupDeleted, GroupProgress

#: The most partitions with time series of their own; further partitions are included only in the sums.
_MAX_PARTITIONS: Final = 20_000
_PARTITION_LABELS: Final = ("consumergroup", "topic", "partition")
_TOPIC: Final = ("consumergroup", "topic")


class LagMetrics(Collector):
    """The lag of consumer groups, under the metric names that dashboards for lag exporters use.

    Each value comes from the group's last sample (``group.progress``). An unknown value has no time series.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._last_progress: dict[str, GroupProgress] = {}
        self._end_offsets: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
        if registry is not None:
            registry.register(self)

    def take(self, events: Iterable[object]) -> None:
        """Update the lag from the samples and deletions of groups in ``events``; other events are ignored."""
        for data in events:
            if isinstance(data, GroupProgress):
                self._add_sample(data)
            elif isinstance(data, GroupDeleted) and self._last_progress.pop(data.group_id, None) is not None:
                self._end_offsets = {key: ends for key, ends in self._end_offsets.items() if key[0] != data.group_id}

    def _add_sample(self, data: GroupProgress) -> None:
        self._last_progress[data.group_id] = data
        for topic, offsets in data.partitions.items():
            for partition, (_, end) in offsets.items():
                ends = self._end_offsets.setdefault((data.group_id, topic, partition), [])
                if ends and end < ends[-1][1]:
                    ends.clear()  # the topic was created again
                ends.append((data.timestamp, end))
                del ends[:-30]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the lag metrics of all groups."""
        name = "kafka_consumergroup"
        lag = GaugeMetricFamily(f"{name}_lag", "End offset minus committed offset.", labels=_PARTITION_LABELS)
        offset = GaugeMetricFamily(f"{name}_current_offset", "Committed offset.", labels=_PARTITION_LABELS)
        age = GaugeMetricFamily(
            f"{name}_lag_seconds",
            "Upper bound of the age of the oldest message that is not committed.",
            labels=_PARTITION_LABELS,
        )
        total = GaugeMetricFamily(f"{name}_lag_sum", "Lag, summed over a topic's partitions.", labels=_TOPIC)
        for key, (committed, end) in islice(self._offsets(), _MAX_PARTITIONS):
            lag.add_metric(key, max(0, end - committed))
            offset.add_metric(key, committed)
            if (seconds := self._lag_in_seconds(key, committed, end)) is not None:
                age.add_metric(key, seconds)
        lag_sums: Count[tuple[str, str]] = Count()
        for (group_id, topic, _), (committed, end) in self._offsets():
            lag_sums[group_id, topic] += max(0, end - committed)
        for labels, value in lag_sums.items():
            total.add_metric(labels, value)
        yield from (lag, offset, age, total)

    def _offsets(self) -> Iterator[tuple[tuple[str, str, str], tuple[int, int]]]:
        for group_id, data in list(self._last_progress.items()):
            for topic, offsets in data.partitions.items():
                for partition, (committed, end) in offsets.items():
                    if committed is not None:
                        yield (group_id, topic, partition), (committed, end)

    def _lag_in_seconds(self, key: tuple[str, str, str], committed: int, end: int) -> float | None:
        """Return the upper bound of the oldest uncommitted message's age (s); None if it is older than all samples."""
        if end <= committed:
            return 0.0
        ends = self._end_offsets[key]
        produced_after = [at for at, offset in ends if offset <= committed]
        return (ends[-1][0] - produced_after[-1]) / 1000 if produced_after else None


_Metric = TypeVar("_Metric", Counter, Gauge)


class PublishMetrics:
    """Metrics of both collectors, registered in ``registry`` (None: in a new registry)."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry or CollectorRegistry()
        self.events = self._metric(Counter, "events", "Membership events published.")
        self.dead_letters = self._metric(Counter, "dead_letters", "Records that could not be used.")

    def _metric(self, kind: type[_Metric], name: str, documentation: str) -> _Metric:
        return kind(f"rebalance_monitor_collect_{name}", documentation, registry=self._registry)

    def published(self, batch: Iterable[OutgoingRecord]) -> None:
        """Count the events and dead letters of a published batch."""
        for record in batch:
            (self.dead_letters if record.is_letter else self.events).inc()


class CollectMetrics(PublishMetrics):
    """Metrics of the collector of ``__consumer_offsets``; with ``lag`` also :class:`LagMetrics`."""

    def __init__(self, registry: CollectorRegistry | None = None, *, lag: bool = True) -> None:
        super().__init__(registry)
        self.groups = LagMetrics(self._registry if lag else None)
        self.records = self._metric(Counter, "records", "Records of __consumer_offsets read.")
        self.lag = self._metric(Gauge, "lag_records", "Records of __consumer_offsets not read yet.")
        self.behind = self._metric(Gauge, "partitions_behind", "Partitions not read to their end since the start.")
        self.newer_count = self._metric(
            Counter, "newer_records", "Records skipped: of a type or version of a newer Kafka."
        )
        self._log_lines = self._metric(Counter, "log_lines", "Lines of coordinator logs read.")
        self._is_log_understood = self._metric(
            Counter, "log_lines_understood", "Lines of coordinator logs with a known message about a group."
        )
        self._log_undated = self._metric(
            Counter, "log_lines_undated", "Lines with a known message whose timestamp can't be read."
        )
        self._counted_lines = LogCounts()

    def logged(self, total: LogCounts) -> None:
        """Update the counters of coordinator log lines to the totals since the start."""
        self._log_lines.inc(total.read - self._counted_lines.read)
        self._is_log_understood.inc(total.understood_messages - self._counted_lines.understood_messages)
        self._log_undated.inc(total.undated_lines - self._counted_lines.undated_lines)
        self._counted_lines = total


class PollMetrics(PublishMetrics):
    """Prometheus metrics of the polling collector."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__(registry)
        self.descriptions = self._metric(Counter, "answers", "Descriptions of groups received.")
        self.groups = self._metric(Gauge, "groups", "Groups that are polled.")
        self.unanswered_groups = self._metric(Gauge, "groups_unanswered", "Groups whose coordinator does not answer.")
        self.overdue = self._metric(Gauge, "overdue_seconds", "Longest time by which a group's request is overdue.")
