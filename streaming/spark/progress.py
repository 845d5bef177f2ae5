"""Reports of batches, from Spark's progress and the buckets' reports, as log lines and Prometheus metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

log = logging.getLogger(__name__)

_NAME: Final = "rebalance_monitor_stream"
#: Spark's name of a phase of a batch → the name in the metrics.
_PHASES: Final = {
    "latestOffset": "latest_offsets",
    "walCommit": "offset_log",
    "queryPlanning": "planning",
    "addBatch": "process",
    "commitOffsets": "commit",
}


class BucketReport(NamedTuple):
    """The report of one bucket for one batch."""

    #: When the bucket's first timer is due (ms); 0 without a timer.
    due: int
    diffs: int = 0
    dead_letters: int = 0
    #: When the bucket's oldest record was appended to its topic (ms); None without records.
    oldest: int | None = None
    #: The size of the values of the bucket's events.
    bytes: int = 0
    #: The number of records that were skipped because their type no longer exists.
    retired: int = 0


class BatchReport(NamedTuple):
    """The report of one batch, or of a trigger without new records (``number`` None)."""

    number: int | None = None
    #: When the batch began (seconds since the epoch), and how long it took, including planning and commit.
    at: float | None = None
    seconds: float | None = None
    phases: Mapping[str, float] = {}
    events: int = 0
    bytes: int = 0
    diffs: int = 0
    dead_letters: int = 0
    retired: int = 0
    #: Unread events in the partition that is furthest behind; None if Spark left the figure out.
    lag: int | None = None
    #: Seconds from the oldest event of the batch to the batch's end.
    lag_seconds: float | None = None
    #: The number of buckets in the state store, and the memory (bytes) that the store uses.
    buckets: int | None = None
    state_bytes: int | None = None


#: A batch's progress in Spark's JSON form; for a trigger without new records only its ``timestamp``.
QueryProgress = dict[str, Any]


class ProgressReader:
    """Reads a query's progress, which Spark keeps for the last hundred batches."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last: StreamingQueryProgress | None = None

    def read(self) -> list[QueryProgress]:
        """Return the query's progress since the last call, oldest first."""
        last = self._query.lastProgress
        if last is None or last == self._last:
            return []
        before, self._last = self._last, last
        new = [last]
        if before is None or last["batchId"] > before["batchId"] + 1:
            recent = self._query.recentProgress
            new = recent[recent.index(before) + 1 :] if before in recent else recent
            self._last = recent[-1]
        decoded = [json.loads(progress.json) for progress in new]
        # A trigger without new records reports the number of the next batch (``ProgressReporter.updateIdleness``).
        return [
            progress if "addBatch" in progress["durationMs"] else {"timestamp": progress["timestamp"]}
            for progress in decoded
        ]


def batch_report(progress: Mapping[str, Any], buckets: Iterable[BucketReport] = ()) -> BatchReport:
    """Return the report of a batch, from Spark's progress and the buckets' reports."""
    durations = progress.get("durationMs", {})
    duration_ms = durations.get("triggerExecution")
    # The source of ticks is left out.
    kafka = [
        source for source in progress.get("sources", ()) if not source["description"].endswith("rebalance.ticks]]")
    ]
    lags = [(source.get("metrics") or {}).get("maxOffsetsBehindLatest") for source in kafka]
    buckets = list(buckets)
    oldest = min((bucket.oldest for bucket in buckets if bucket.oldest is not None), default=None)
    at = datetime.fromisoformat(progress["timestamp"]).timestamp() if "timestamp" in progress else None
    lag_seconds = None
    if oldest is not None and at is not None:
        lag_seconds = max(0.0, round(at + (duration_ms or 0) / 1000 - oldest / 1000, 3))
    operators = progress.get("stateOperators", ())
    return BatchReport(
        number=progress.get("batchId"),
        at=at,
        seconds=None if duration_ms is None else duration_ms / 1000,
        phases={ours: durations[name] / 1000 for name, ours in _PHASES.items() if name in durations},
        events=sum(max(source.get("numInputRows", 0), 0) for source in kafka),
        bytes=sum(bucket.bytes for bucket in buckets),
        diffs=sum(bucket.diffs for bucket in buckets),
        dead_letters=sum(bucket.dead_letters for bucket in buckets),
        retired=sum(bucket.retired for bucket in buckets),
        lag=max((int(lag) for lag in lags if lag is not None), default=None),
        lag_seconds=lag_seconds,
        buckets=sum(operator["numRowsTotal"] for operator in operators) if operators else None,
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators) if operators else None,
    )


def log_batch(report: BatchReport) -> None:
    """Log one line for a batch that read events; a JSON log line has the report's figures as fields."""
    if report.number is None or not report.events:
        return
    fields = report._asdict()
    del fields["at"], fields["buckets"]
    fields |= {"batch": fields.pop("number"), "lag_records": fields.pop("lag")}
    fields["events_per_second"] = round(report.events / report.seconds, 1) if report.seconds else None
    lag = "?" if report.lag is None else report.lag
    values = (report.number, report.events, report.diffs, report.seconds or 0.0, lag)
    log.info("batch %d: %d events, %d diffs in %.2f s, %s behind", *values, extra=fields)


#: Field of a report → the name and text of its counter.
_COUNTERS: Final = {
    "events": ("input_records", "Membership events read."),
    "bytes": ("input_bytes", "Bytes of the values of membership events read."),
    "diffs": ("diffs", "Diffs written."),
    "dead_letters": ("dead_letters", "Records sent to the dead-letter topic."),
    "retired": ("retired_records", "Records passed over because their type no longer exists."),
}
#: Field of a report → the name and text of its gauge.
_GAUGES: Final = {
    "lag_seconds": ("lag_seconds", "From the oldest event of the last batch to the end of the batch."),
    "buckets": ("state_rows", "Buckets of groups in the state store."),
    "state_bytes": ("state_bytes", "Memory the state store uses."),
    "at": ("last_trigger_timestamp_seconds", "Last batch, or last trigger without a new record."),
}


class BatchMetrics:
    """The driver's Prometheus metrics, updated after each batch."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Summary

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_NAME}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{_NAME}_{name}", text, registry=registry)

        self._batches = Summary(
            f"{_NAME}_batch_duration_seconds", "Duration of a batch, planning and commit included.", registry=registry
        )
        self._phases = counter("phase_seconds", "Time spent in each part of the batches.", "phase")
        self._counters = {field: counter(*texts) for field, texts in _COUNTERS.items()}
        self._gauges = {field: gauge(*texts) for field, texts in _GAUGES.items()}
        self._lag = gauge(
            "lag_records",
            "Membership events up to the log's end, open transactions included, in the partition furthest behind.",
        )

    def set_lag(self, records: int | None) -> None:
        """Set the number of unread events; None leaves the metric unchanged."""
        if records is not None:
            self._lag.set(records)

    def add(self, report: BatchReport) -> None:
        """Add a batch to the metrics; a figure that Spark left out leaves its metric unchanged."""
        if report.seconds is not None:
            self._batches.observe(report.seconds)
        for phase, seconds in report.phases.items():
            self._phases.labels(phase).inc(seconds)
        for field, counter in self._counters.items():
            counter.inc(getattr(report, field))
        for field, gauge in self._gauges.items():
            if (value := getattr(report, field)) is not None:
                gauge.set(value)
