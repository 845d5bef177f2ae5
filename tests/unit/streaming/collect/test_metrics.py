from prometheus_client import CollectorRegistry, generate_latest

from streaming.collect.broker_log.log import LogCounts
from streaming.collect.metrics import CollectMetrics, LagMetrics, PollMetrics
from streaming.collect.publisher import OutgoingRecord
from streaming.records.events import GroupDeleted, GroupProgress

EVENT = OutgoingRecord("membership", b"k", b"v", [])


def values(registry: CollectorRegistry) -> dict[str, float]:
    return {
        sample.name.removeprefix("rebalance_monitor_collect_"): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_polling_metrics_are_exported() -> None:
    registry = CollectorRegistry()
    metrics = PollMetrics(registry)
    metrics.descriptions.inc()
    metrics.groups.set(7)
    metrics.overdue.set(1.5)
    metrics.unanswered_groups.set(3)
    metrics.published([EVENT])
    assert values(registry) == {
        "answers_total": 1,
        "events_total": 1,
        "dead_letters_total": 0,
        "groups": 7,
        "groups_unanswered": 3,
        "overdue_seconds": 1.5,
    }


def test_collector_metrics_are_exported() -> None:
    registry = CollectorRegistry()
    metrics = CollectMetrics(registry)
    metrics.records.inc(7)
    metrics.lag.set(6)
    metrics.behind.set(2)
    metrics.published([EVENT, EVENT, OutgoingRecord("dlt", b"k", b"v", [], is_letter=True)])
    metrics.logged(LogCounts(read=10, understood_messages=4, undated_lines=1))
    metrics.logged(LogCounts(read=12, understood_messages=5, undated_lines=1))
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


def sample(at: int, group: str = "g", **offsets: tuple[int | None, int]) -> GroupProgress:
    return GroupProgress(
        group_id=group, timestamp=at, partitions={"t": {name.lstrip("p"): pair for name, pair in offsets.items()}}
    )


def exported_samples(*events: object) -> list[str]:
    registry = CollectorRegistry()
    LagMetrics(registry).take(events)
    text = generate_latest(registry).decode()
    return sorted(line.removeprefix("kafka_consumergroup_") for line in text.splitlines() if line[0] != "#")


def test_newest_sample_gives_offset_lag_and_lag_seconds() -> None:
    assert exported_samples(sample(1000, p0=(5, 5), p1=(7, 9)), sample(4000, p0=(5, 8), p1=(9, 9))) == [
        'current_offset{consumergroup="g",partition="0",topic="t"} 5.0',
        'current_offset{consumergroup="g",partition="1",topic="t"} 9.0',
        'lag_seconds{consumergroup="g",partition="0",topic="t"} 3.0',
        'lag_seconds{consumergroup="g",partition="1",topic="t"} 0.0',
        'lag_sum{consumergroup="g",topic="t"} 3.0',
        'lag{consumergroup="g",partition="0",topic="t"} 3.0',
        'lag{consumergroup="g",partition="1",topic="t"} 0.0',
    ]


def test_a_partition_without_a_commit_has_no_series() -> None:
    assert exported_samples(sample(1000, p0=(None, 5))) == []


def test_a_lag_older_than_the_samples_has_no_age() -> None:
    assert [line for line in exported_samples(sample(1000, p0=(2, 5))) if "seconds" in line] == []


def test_a_topic_that_was_created_again_starts_over() -> None:
    lines = exported_samples(sample(1000, p0=(5, 5)), sample(4000, p0=(0, 2)))
    assert [line for line in lines if "seconds" in line] == []


def test_a_deleted_group_has_no_series() -> None:
    kept = sample(1000, group="h", p0=(1, 1))
    gone = sample(1000, p0=(1, 1)), kept, GroupDeleted(group_id="g", timestamp=2000)
    assert exported_samples(*gone) == exported_samples(kept)
