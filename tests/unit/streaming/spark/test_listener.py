"""Progress of a batch, in the form Spark 4.0 prints it, as metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from streaming.spark.listener import BatchMetrics

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
    "observedMetrics": {"monitor": {"diffs": 4, "deadLetters": 1}},
}


def samples(registry: CollectorRegistry) -> dict[str, float]:
    return {
        sample.name.removeprefix("rebalance_monitor_stream_"): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_batches_add_up_and_the_clocks_rows_are_no_events() -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    metrics.add(PROGRESS)
    metrics.add(PROGRESS)
    assert samples(registry) == {
        "batch_duration_seconds_count": 2,
        "batch_duration_seconds_sum": 0.5,
        "input_records_total": 20,
        "diffs_total": 8,
        "dead_letters_total": 2,
        "lag_records": 3,
        "state_rows": 16,
        "state_bytes": 4096,
        "last_trigger_timestamp_seconds": 1767323045,
    }


def test_what_spark_leaves_out_stays_as_it_was() -> None:
    registry = CollectorRegistry()
    metrics = BatchMetrics(registry)
    metrics.add(PROGRESS)
    before = samples(registry)
    metrics.add({"sources": [{"description": "KafkaV2[…]", "metrics": None}]})
    assert samples(registry) == before
