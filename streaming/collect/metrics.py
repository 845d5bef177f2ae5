"""How the collector is doing, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from streaming.collect.sink import Letter

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

    def read(self, records: int) -> None:
        """So many records were read."""
        self._read.inc(records)

    def published(self, batch: Iterable[Letter]) -> None:
        """One batch is in the topics."""
        for letter in batch:
            (self._dead if letter.dead else self._events).inc()

    def place(self, ends: Mapping[int, int], following: Mapping[int, int], behind: int) -> None:
        """Where each partition ends and which record of it is read next; how many were not read to the end."""
        self._lag.set(sum(max(end - following.get(number, 0), 0) for number, end in ends.items()))
        self._behind.set(behind)
