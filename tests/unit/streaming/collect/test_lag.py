"""Metrics of lag, as a scrape returns them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from streaming.collect.metrics import LagMetrics
from streaming.records.events import GroupDeleted, GroupProgress


def sample(at: int, group: str = "g", **offsets: tuple[int | None, int]) -> GroupProgress:
    return GroupProgress(
        group_id=group, timestamp=at, partitions={"t": {name.lstrip("p"): pair for name, pair in offsets.items()}}
    )


def scraped(*events: object) -> list[str]:
    registry = CollectorRegistry()
    LagMetrics(registry).take(events)
    text = generate_latest(registry).decode()
    return sorted(line.removeprefix("kafka_consumergroup_") for line in text.splitlines() if line[0] != "#")


def test_lag_offset_sum_and_age_of_the_last_sample() -> None:
    assert scraped(sample(1000, p0=(5, 5), p1=(7, 9)), sample(4000, p0=(5, 8), p1=(9, 9))) == [
        'current_offset{consumergroup="g",partition="0",topic="t"} 5.0',
        'current_offset{consumergroup="g",partition="1",topic="t"} 9.0',
        'lag_seconds{consumergroup="g",partition="0",topic="t"} 3.0',
        'lag_seconds{consumergroup="g",partition="1",topic="t"} 0.0',
        'lag_sum{consumergroup="g",topic="t"} 3.0',
        'lag{consumergroup="g",partition="0",topic="t"} 3.0',
        'lag{consumergroup="g",partition="1",topic="t"} 0.0',
    ]


def test_a_partition_without_a_commit_has_no_series() -> None:
    assert scraped(sample(1000, p0=(None, 5))) == []


def test_a_lag_older_than_the_samples_has_no_age() -> None:
    assert [line for line in scraped(sample(1000, p0=(2, 5))) if "seconds" in line] == []


def test_a_topic_that_was_created_again_starts_over() -> None:
    lines = scraped(sample(1000, p0=(5, 5)), sample(4000, p0=(0, 2)))
    assert [line for line in lines if "seconds" in line] == []


def test_a_deleted_group_has_no_series() -> None:
    kept = sample(1000, group="h", p0=(1, 1))
    gone = sample(1000, p0=(1, 1)), kept, GroupDeleted(group_id="g", timestamp=2000)
    assert scraped(*gone) == scraped(kept)
