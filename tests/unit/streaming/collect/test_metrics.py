"""What the collector counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from streaming.collect.metrics import CollectMetrics
from streaming.collect.sink import Letter


def test_events_dead_letters_and_lag() -> None:
    registry = CollectorRegistry()
    metrics = CollectMetrics(registry)
    metrics.read(7)
    event = Letter("membership", b"k", b"v", [])
    metrics.published([event, event, Letter("dlt", b"k", b"v", [], dead=True)])
    metrics.place(ends={0: 10, 1: -1001, 2: 4}, following={0: 8, 1: 5}, behind=2)
    values = {
        sample.name.removeprefix("rebalance_monitor_collect_"): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert values == {
        "records_total": 7,
        "events_total": 2,
        "dead_letters_total": 1,
        "lag_records": 6,
        "partitions_behind": 2,
    }
