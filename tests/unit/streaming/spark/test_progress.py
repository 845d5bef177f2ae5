"""Progress of a batch, in the form Spark 4.0 prints it, as metrics."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import CollectorRegistry

from streaming.spark.progress import BatchMetrics, BatchReport, Told, finished, log_batch, report

PROGRESS = {
    "timestamp": "2026-01-02T03:04:05.000Z",
    "batchId": 7,
    "durationMs": {"addBatch": 200, "triggerExecution": 250},
    "numInputRows": 12,
    "stateOperators": [{"numRowsTotal": 16, "memoryUsedBytes": 4096}],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[rebalance.membership]]",
            "numInputRows": 10,
            "metrics": {
                "avgOffsetsBehindLatest": "1.5",
                "maxOffsetsBehindLatest": "3",
                "minOffsetsBehindLatest": "0",
            },
        },
        {"description": "KafkaV2[Subscribe[rebalance.ticks]]", "numInputRows": 2, "metrics": {}},
    ],
}
TOLD = [
    Told(0, diffs=3, oldest=1767323044900, retired={"group.changed": 2}),
    Told(7, 1, 1, 1767323044750, bytes=700, retired={"group.changed": 1}),
    Told(0, bytes=33),
]


def test_a_look_that_found_nothing_is_no_finished_batch() -> None:
    """Spark counts it as the batch to come: a quiet stream ended after a minute, for nobody had heard of that."""
    quiet = PROGRESS | {"batchId": 8, "durationMs": {"latestOffset": 2, "triggerExecution": 3}}
    assert [finished(one) for one in (PROGRESS, quiet, None)] == [7, -1, -1]


def samples(registry: CollectorRegistry) -> dict[str, float]:
    return {
        " ".join(
            [sample.name.removeprefix("rebalance_monitor_stream_"), *sample.labels.values()]
        ): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_batches_add_up_and_the_clocks_rows_are_no_events() -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    metrics.add(report(PROGRESS, TOLD))
    metrics.add(report(PROGRESS, TOLD))
    metrics.set_lag(3)
    metrics.set_lag(None)  # not known
    assert (
        samples(registry)
        == {
            "batch_duration_seconds_count": 2,
            "batch_duration_seconds_sum": 0.5,
            "phase_seconds_total process": 0.4,
            "input_records_total": 20,
            "input_bytes_total": 1466,
            "diffs_total": 8,
            "dead_letters_total": 2,
            "retired_records_total group.changed": 6,
            "retired_records_total group.asked": 0,  # there from the start: an increase shows from the first record
            "lag_records": 3,
            "lag_seconds": 0.5,
            "state_rows": 16,
            "state_bytes": 4096,
            "last_trigger_timestamp_seconds": 1767323045,
        }
    )


def test_what_spark_leaves_out_stays_as_it_was() -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    metrics.add(report(PROGRESS, TOLD))
    before = samples(registry)
    metrics.add(report({"sources": [{"description": "KafkaV2[…]", "metrics": None}]}))
    assert samples(registry) == before


def test_a_batch_is_one_line_with_its_figures_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_batch(report(PROGRESS, TOLD))
        log_batch(report({"timestamp": "2026-01-02T03:04:05.000Z"}))
        log_batch(BatchReport(number=8))
    (line,) = caplog.records
    assert line.getMessage() == "batch 7: 10 events, 4 diffs in 0.25 s, 3 behind"
    fields = {
        name: value
        for name, value in vars(line).items()
        if name in ("batch", "events", "bytes", "lag_seconds", "phases")
    }
    assert fields == {"batch": 7, "events": 10, "bytes": 733, "lag_seconds": 0.5, "phases": {"process": 0.2}}


def test_a_batchs_line_has_its_figures_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_batch(report(PROGRESS, TOLD))
    log_batch(report(PROGRESS | {"durationMs": {"addBatch": 1, "triggerExecution": 300}}, TOLD))
    assert [record.getMessage() for record in caplog.records] == [
        "batch 7: 10 events, 4 diffs in 0.25 s, 3 behind",
        "batch 7: 10 events, 4 diffs in 0.30 s, 3 behind",
    ]
    assert [vars(record)["events_per_second"] for record in caplog.records] == [40.0, 33.3]


def test_what_spark_leaves_out_is_no_figure_of_the_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_batch(BatchReport(number=8, events=3))
    (line,) = caplog.records
    assert line.getMessage() == "batch 8: 3 events, 0 diffs in 0.00 s, ? behind"
    unknown = ("events_per_second", "seconds", "lag_records", "lag_seconds", "state_bytes")
    assert {name: vars(line)[name] for name in unknown} == dict.fromkeys(unknown)
    assert (vars(line)["dead_letters"], vars(line)["phases"]) == (0, {})
    source = {"description": "KafkaV2[Subscribe[rebalance.membership]]"}
    bare = report({"batchId": 9, "sources": [source, source | {"numInputRows": -1, "metrics": None}]})
    assert bare == BatchReport(number=9)
