from __future__ import annotations

from prometheus_client import CollectorRegistry

from streaming.collect.broker_log.log import LogCounts
from streaming.collect.metrics import CollectMetrics, PollMetrics
from streaming.collect.publisher import OutgoingRecord

EVENT = OutgoingRecord("membership", b"k", b"v", [])


def values(registry: CollectorRegistry) -> dict[str, float]:
    return {
        sample.name.removeprefix("rebalance_monitor_collect_"): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_answers_events_and_waiting_members() -> None:
    registry = CollectorRegistry()
    metrics = PollMetrics(registry)
    metrics.answered()
    metrics.listed(7, overdue=1.5)
    metrics.unanswered(3)
    metrics.published([EVENT])
    assert values(registry) == {
        "answers_total": 1,
        "events_total": 1,
        "dead_letters_total": 0,
        "groups": 7,
        "groups_unanswered": 3,
        "overdue_seconds": 1.5,
    }


def test_events_dead_letters_and_lag() -> None:
    registry = CollectorRegistry()
    metrics = CollectMetrics(registry)
    metrics.read(7, lag=6, behind=2)
    metrics.published([EVENT, EVENT, OutgoingRecord("dlt", b"k", b"v", [], dead=True)])
    metrics.logged(LogCounts(read=10, understood=4, undated=1))
    metrics.logged(LogCounts(read=12, understood=5, undated=1))
    assert values(registry) == {
        "records_total": 7,
        "events_total": 2,
        "dead_letters_total": 1,
        "lag_records": 6,
        "partitions_behind": 2,
        "newer_records_total": 0,
        "log_lines_total": 12,
        "log_lines_understood_total": 5,
        "log_lines_undated_total": 1,
    }
