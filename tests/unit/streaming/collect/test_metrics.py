"""What the collector counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from streaming.collect.metrics import CollectMetrics
from streaming.collect.outgoing import Outgoing


def test_events_dead_letters_and_lag() -> None:
    registry = CollectorRegistry()
    metrics = CollectMetrics(registry)
    metrics.read(7, lag=6, behind=2)
    event = Outgoing("membership", b"k", b"v", [])
    metrics.published([event, event, Outgoing("dlt", b"k", b"v", [], dead=True)])
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
