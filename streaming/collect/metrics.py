"""The collectors' Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from streaming.collect.broker_log.log import LogCounts
from streaming.collect.lag import LagMetrics
from streaming.collect.publisher import OutgoingRecord

_NAME = "rebalance_monitor_collect"
_Metric = TypeVar("_Metric", Counter, Gauge)


class PublishMetrics:
    """Metrics of both collectors, in ``registry`` or in one of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry or CollectorRegistry()
        self._events = self._metric(Counter, "events", "Membership events published.")
        self._dead = self._metric(Counter, "dead_letters", "Records that could not be used.")

    def _metric(self, kind: type[_Metric], name: str, what: str) -> _Metric:
        return kind(f"{_NAME}_{name}", what, registry=self._registry)

    def published(self, batch: Iterable[OutgoingRecord]) -> None:
        """Count a published batch."""
        for record in batch:
            (self._dead if record.dead else self._events).inc()


class CollectMetrics(PublishMetrics):
    """Metrics of the collector of ``__consumer_offsets``; ``lag``: whether those of the groups' lag are served."""

    def __init__(self, registry: CollectorRegistry | None = None, *, lag: bool = True) -> None:
        super().__init__(registry)
        self.groups = LagMetrics(self._registry if lag else None)
        self._read = self._metric(Counter, "records", "Records of __consumer_offsets read.")
        self._lag = self._metric(Gauge, "lag_records", "Records of __consumer_offsets not read yet.")
        self._behind = self._metric(Gauge, "partitions_behind", "Partitions not read to their end since the start.")
        self._newer = self._metric(Counter, "newer_records", "Records skipped: of a type or version of a newer Kafka.")
        self._log_lines = self._metric(Counter, "log_lines", "Lines of coordinator logs read.")
        self._log_understood = self._metric(
            Counter, "log_lines_understood", "Lines of coordinator logs that reported something of a group."
        )
        self._log_undated = self._metric(Counter, "log_lines_undated", "Lines of those whose timestamp can't be read.")
        self._logged = LogCounts()

    def read(self, records: int, *, lag: int, behind: int) -> None:
        """Count read records; set the lag and the number of partitions that were not read to their end yet."""
        self._read.inc(records)
        self._lag.set(lag)
        self._behind.set(behind)

    def skipped(self) -> None:
        """Count a record of a newer Kafka."""
        self._newer.inc()

    def logged(self, total: LogCounts) -> None:
        """Set the counts of coordinator logs since the start."""
        self._log_lines.inc(total.read - self._logged.read)
        self._log_understood.inc(total.understood - self._logged.understood)
        self._log_undated.inc(total.undated - self._logged.undated)
        self._logged = total


class PollMetrics(PublishMetrics):
    """Metrics of the polling collector."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__(registry)
        self._answers = self._metric(Counter, "answers", "Descriptions of groups received.")
        self._groups = self._metric(Gauge, "groups", "Groups that are asked about.")
        self._unanswered = self._metric(Gauge, "groups_unanswered", "Groups whose coordinator does not answer.")
        self._overdue = self._metric(
            Gauge, "overdue_seconds", "How long the group that waits the longest should have been asked about."
        )

    def answered(self) -> None:
        """Count a description of a group."""
        self._answers.inc()

    def unanswered(self, groups: int) -> None:
        """Set the number of groups whose coordinator does not answer."""
        self._unanswered.set(groups)

    def listed(self, groups: int, *, overdue: float) -> None:
        """Set the number of polled groups, and how long the oldest request is overdue."""
        self._groups.set(groups)
        self._overdue.set(overdue)
