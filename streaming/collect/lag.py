"""Lag of consumer groups as Prometheus metrics, under the names that dashboards of lag exporters use.

Each value is that of the group's last sample (``group.progress``); what is unknown has no series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from streaming.records.events import GroupDeleted, GroupProgress

#: Partitions that have series of their own; those of further groups are in the sums alone.
_MOST_PARTITIONS: Final = 20_000
#: End offsets that are kept of each partition, to tell how old a lag is.
_MOST_ENDS: Final = 30

_PARTITION: Final = ("consumergroup", "topic", "partition")
_TOPIC: Final = ("consumergroup", "topic")


class LagMetrics(Collector):
    """The last sample of each group."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._last: dict[str, GroupProgress] = {}
        self._ends: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
        if registry is not None:
            registry.register(self)

    def take(self, events: Iterable[object]) -> None:
        """Take samples and deletions of groups; other events are ignored."""
        for data in events:
            if isinstance(data, GroupProgress):
                self._sample(data)
            elif isinstance(data, GroupDeleted) and self._last.pop(data.group_id, None) is not None:
                self._ends = {key: ends for key, ends in self._ends.items() if key[0] != data.group_id}

    def _sample(self, data: GroupProgress) -> None:
        self._last[data.group_id] = data
        for topic, offsets in data.partitions.items():
            for partition, (_, end) in offsets.items():
                ends = self._ends.setdefault((data.group_id, topic, partition), [])
                if ends and end < ends[-1][1]:
                    ends.clear()  # the topic was created again
                ends.append((data.timestamp, end))
                del ends[:-_MOST_ENDS]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics."""
        name = "kafka_consumergroup"
        lag = GaugeMetricFamily(f"{name}_lag", "End offset minus committed offset.", labels=_PARTITION)
        offset = GaugeMetricFamily(f"{name}_current_offset", "Committed offset.", labels=_PARTITION)
        age = GaugeMetricFamily(
            f"{name}_lag_seconds", "Longest time that the oldest message in the lag waits.", labels=_PARTITION
        )
        total = GaugeMetricFamily(f"{name}_lag_sum", "Lag of a topic's partitions together.", labels=_TOPIC)
        for key, (committed, end) in islice(self._offsets(), _MOST_PARTITIONS):
            lag.add_metric(key, max(0, end - committed))
            offset.add_metric(key, committed)
            seconds = self._seconds(key, committed, end)
            if seconds is not None:
                age.add_metric(key, seconds)
        sums: dict[tuple[str, str], int] = {}
        for (group_id, topic, _), (committed, end) in self._offsets():
            sums[group_id, topic] = sums.get((group_id, topic), 0) + max(0, end - committed)
        for labels, value in sums.items():
            total.add_metric(labels, value)
        yield from (lag, offset, age, total)

    def _offsets(self) -> Iterator[tuple[tuple[str, str, str], tuple[int, int]]]:
        for group_id, data in list(self._last.items()):
            for topic, offsets in data.partitions.items():
                for partition, (committed, end) in offsets.items():
                    if committed is not None:
                        yield (group_id, topic, partition), (committed, end)

    def _seconds(self, key: tuple[str, str, str], committed: int, end: int) -> float | None:
        """Return the age of the oldest message that is not committed, at most; None: older than the samples."""
        if end <= committed:
            return 0.0
        ends = self._ends[key]
        produced_after = [at for at, offset in ends if offset <= committed]
        return (ends[-1][0] - produced_after[-1]) / 1000 if produced_after else None
