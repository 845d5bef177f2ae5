"""How the collector is doing, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from streaming.collect.outgoing import Outgoing

_NAME = "rebalance_monitor_collect"


class CollectMetrics:
    """Counters and gauges in ``registry``; in one of their own when None."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._read = Counter(f"{_NAME}_records", "Records of __consumer_offsets read.", registry=registry)
        self._events = Counter(f"{_NAME}_events", "Membership events published.", registry=registry)
        self._dead = Counter(f"{_NAME}_dead_letters", "Records that could not be used.", registry=registry)
        self._lag = Gauge(
            f"{_NAME}_lag_records", "Records of __consumer_offsets not read yet.", registry=registry
        )
        self._behind = Gauge(
            f"{_NAME}_partitions_behind",
            "Partitions not read to their end since the start.",
            registry=registry,
        )

    def read(self, records: int, *, lag: int, behind: int) -> None:
        """So many records were read, so many not yet; so many partitions never to their end since the start."""
        self._read.inc(records)
        self._lag.set(lag)
        self._behind.set(behind)

    def published(self, batch: Iterable[Outgoing]) -> None:
        """One batch is in the topics."""
        for one in batch:
            (self._dead if one.dead else self._events).inc()
