"""Tests of the metrics of a batch, which are read from Spark's progress report (format of Spark 4.0)."""

import json
import logging
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streaming.spark.progress import BatchMetrics, BatchReport, BucketReport, ProgressReader, batch_report, log_batch

PROGRESS = {
    "timestamp": "2026-01-02T03:04:05.000Z",
    "batchId": 7,
    "durationMs": {"addBatch": 200, "triggerExecution": 250},
    "numInputRows": 12,
    "stateOperators": [{"memoryUsedBytes": 4096}],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[rebalance.membership]]",
            "numInputRows": 10,
            "metrics": {"avgOffsetsBehindLatest": "1.5", "maxOffsetsBehindLatest": "3", "minOffsetsBehindLatest": "0"},
        },
        {"description": "KafkaV2[Subscribe[rebalance.ticks]]", "numInputRows": 2, "metrics": {}},
    ],
}
BUCKETS = [BucketReport(0, diffs=3, retired=1), BucketReport(7, 1, 1, bytes=700), BucketReport(0, bytes=33)]


class Query:
    """A fake StreamingQuery that keeps the progress of its last four batches."""

    def __init__(self) -> None:
        self.recentProgress: list[Any] = []

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        return self.recentProgress[-1] if self.recentProgress else None

    def run(self, *batches: int, has_processed_events: bool = True) -> None:
        for batch in batches:
            durations = {"addBatch": 1} if has_processed_events else {"latestOffset": 2}
            name = f"{batch}" if has_processed_events else f"before {batch}"
            self.recentProgress.append(FakeProgress(batchId=batch, timestamp=name, durationMs=durations))
            del self.recentProgress[:-4]  # Spark keeps the last 100 batches


class FakeProgress(dict[str, Any]):
    json = property(json.dumps)


def test_progress_reader_returns_each_batch_once() -> None:
    query: Any = Query()
    reader = ProgressReader(query)
    assert reader.read() == []
    query.run(0, 1)
    assert [progress["batchId"] for progress in reader.read()] == [0, 1]
    assert reader.read() == []
    query.run(2)
    assert [progress["batchId"] for progress in reader.read()] == [2]
    query.run(3, has_processed_events=False)
    assert reader.read() == [{"timestamp": "before 3"}]
    query.run(3, 4, 5)
    assert [progress["batchId"] for progress in reader.read()] == [3, 4, 5]
    query.run(6, 7, 8, 9, 10)
    assert [progress["batchId"] for progress in reader.read()] == [7, 8, 9, 10]


def samples(registry: CollectorRegistry) -> dict[str, float]:
    return {
        " ".join([sample.name.removeprefix("rebalance_monitor_stream_"), *sample.labels.values()]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_batch_metrics_add_up_without_ticks() -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    metrics.add(batch_report(PROGRESS, BUCKETS))
    metrics.add(batch_report(PROGRESS, BUCKETS))
    metrics.lag.set(3)
    assert samples(registry) == {
        "batch_duration_seconds_count": 2,
        "batch_duration_seconds_sum": 0.5,
        "input_records_total": 20,
        "diffs_total": 8,
        "dead_letters_total": 2,
        "retired_records_total": 2,
        "lag_records": 3,
        "state_bytes": 4096,
        "last_trigger_timestamp_seconds": 1767323045,
    }


def test_figure_missing_in_progress_leaves_metric_unchanged() -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    metrics.add(batch_report(PROGRESS, BUCKETS))
    before = samples(registry)
    metrics.add(batch_report({"sources": [{"description": "KafkaV2[…]", "metrics": None}]}))
    assert samples(registry) == before


def test_a_batch_is_one_line_with_its_figures_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_batch(batch_report(PROGRESS, BUCKETS))
        log_batch(batch_report({"timestamp": "2026-01-02T03:04:05.000Z"}))
        log_batch(BatchReport(number=8))
    (line,) = caplog.records
    assert line.getMessage() == "batch 7: 10 events, 4 diffs in 0.25 s, 3 behind"
    assert (vars(line)["batch"], vars(line)["events"], vars(line)["bytes"]) == (7, 10, 733)


def test_figure_that_spark_omits_is_null_in_the_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_batch(BatchReport(number=8, events=3))
    (line,) = caplog.records
    assert line.getMessage() == "batch 8: 3 events, 0 diffs in 0.00 s, ? behind"
    unknown = ("events_per_second", "seconds", "lag_records", "state_bytes")
    assert {name: vars(line)[name] for name in unknown} == dict.fromkeys(unknown)
    source = {"description": "KafkaV2[Subscribe[rebalance.membership]]"}
    report_without_metrics = batch_report(
        {"batchId": 9, "sources": [source, source | {"numInputRows": -1, "metrics": None}]}
    )
    assert report_without_metrics == BatchReport(number=9)
