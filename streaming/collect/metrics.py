"""How the collector is doing, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from streaming.collect.broker_log.log import LogCounts
from streaming.collect.publisher import OutgoingRecord

_NAME = "rebalance_monitor_collect"
_Metric = TypeVar("_Metric", Counter, Gauge)


class PublishMetrics:
    """What every collector counts, in ``registry``; in one of its own when None."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry or CollectorRegistry()
        self._events = self._metric(Counter, "events", "Membership events published.")
        self._dead = self._metric(Counter, "dead_letters", "Records that could not be used.")

    def _metric(self, kind: type[_Metric], name: str, what: str) -> _Metric:
        return kind(f"{_NAME}_{name}", what, registry=self._registry)

    def published(self, batch: Iterable[OutgoingRecord]) -> None:
        """One batch is in the topics."""
        for one in batch:
            (self._dead if one.dead else self._events).inc()


class CollectMetrics(PublishMetrics):
    """How far the collector of ``__consumer_offsets`` has read."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__(registry)
        self._read = self._metric(Counter, "records", "Records of __consumer_offsets read.")
        self._lag = self._metric(Gauge, "lag_records", "Records of __consumer_offsets not read yet.")
        self._behind = self._metric(
            Gauge, "partitions_behind", "Partitions not read to their end since the start."
        )
        self._log_lines = self._metric(Counter, "log_lines", "Lines of coordinator logs read.")
        self._log_understood = self._metric(
            Counter, "log_lines_understood", "Lines of coordinator logs that reported something of a group."
        )
        self._log_undated = self._metric(
            Counter, "log_lines_undated", "Lines of those whose timestamp can't be read."
        )
        self._logged = LogCounts()

    def read(self, records: int, *, lag: int, behind: int) -> None:
        """So many records were read, so many not yet; so many partitions never to their end since the start."""
        self._read.inc(records)
        self._lag.set(lag)
        self._behind.set(behind)

    def logged(self, total: LogCounts) -> None:
        """So much of the coordinator logs was read since the start."""
        self._log_lines.inc(total.read - self._logged.read)
        self._log_understood.inc(total.understood - self._logged.understood)
        self._log_undated.inc(total.undated - self._logged.undated)
        self._logged = total


class PollMetrics(PublishMetrics):
    """What the collector by polling asks, and how late it is."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__(registry)
        self._answers = self._metric(Counter, "answers", "Descriptions of groups received.")
        self._groups = self._metric(Gauge, "groups", "Groups that are asked about.")
        self._unanswered = self._metric(
            Gauge, "groups_unanswered", "Groups whose coordinator does not answer."
        )
        self._overdue = self._metric(
            Gauge,
            "overdue_seconds",
            "How long the group that waits the longest should have been asked about.",
        )

    def answered(self) -> None:
        """One group was described."""
        self._answers.inc()

    def unanswered(self, groups: int) -> None:
        """The coordinators of so many groups don't answer."""
        self._unanswered.set(groups)

    def listed(self, groups: int, *, overdue: float) -> None:
        """So many groups are followed, one of them due for so many seconds."""
        self._groups.set(groups)
        self._overdue.set(overdue)
