"""Reports batches as log lines and Prometheus metrics, from Spark's progress and the buckets' reports."""

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
#: Field of a report → the name and text of its counter.
_COUNTERS: Final = {
    "events": ("input_records", "Membership events read."),
    "diffs": ("diffs", "Diffs written."),
    "dead_letters": ("dead_letters", "Records sent to the dead-letter topic."),
    "retired": ("retired_records", "Records skipped because their event type no longer exists."),
}
#: Field of a report → the name and text of its gauge.
_GAUGES: Final = {
    "state_bytes": ("state_bytes", "Memory of the state store."),
    "at": ("last_trigger_timestamp_seconds", "Time of the last batch, or of the last trigger without new records."),
}


class BucketReport(NamedTuple):
    """The report of one bucket for one batch.

    ``due``: when the bucket's first timer is due (ms); 0 without a timer. ``bytes``: the size of its events' values.
    """

    due: int
    diffs: int = 0
    dead_letters: int = 0
    bytes: int = 0
    retired: int = 0


class BatchReport(NamedTuple):
    """The report of one batch, or of a trigger without new records (``number`` None).

    ``at``: when the batch began (seconds since the epoch). ``seconds``: its duration, planning and commit included.
    ``bytes``: the size of its events' values. ``lag``: unread events in the partition that is furthest behind.
    ``state_bytes``: the memory of the state store. Figures that Spark left out are None.
    """

    number: int | None = None
    at: float | None = None
    seconds: float | None = None
    events: int = 0
    bytes: int = 0
    diffs: int = 0
    dead_letters: int = 0
    retired: int = 0
    lag: int | None = None
    state_bytes: int | None = None


class ProgressReader:
    """Reads a query's progress, which Spark keeps for the last hundred batches."""

    def __init__(self, query: "StreamingQuery") -> None:
        self._query = query
        self._last: StreamingQueryProgress | None = None

    def read(self) -> list[dict[str, Any]]:
        """Return the Spark query's new progress, oldest first; triggers without records have only a ``timestamp``."""
        last = self._query.lastProgress
        if last is None or last == self._last:
            return []
        before, self._last = self._last, last
        new = [last]
        if before is None or last["batchId"] > before["batchId"] + 1:
            recent_progress = self._query.recentProgress
            new = recent_progress[recent_progress.index(before) + 1 :] if before in recent_progress else recent_progress
            self._last = recent_progress[-1]
        progress_documents = [json.loads(progress.json) for progress in new]
        # A trigger without new records reports the number of the next batch (``ProgressReporter.updateIdleness``).
        return [
            progress if "addBatch" in progress["durationMs"] else {"timestamp": progress["timestamp"]}
            for progress in progress_documents
        ]


def batch_report(progress: Mapping[str, Any], buckets: Iterable[BucketReport] = ()) -> BatchReport:
    """Return the report of a batch, made from Spark's progress and the reports of its buckets."""
    duration_ms = progress.get("durationMs", {}).get("triggerExecution")
    # The source of ticks is left out.
    sources = [source for source in progress.get("sources", ()) if "rebalance.ticks]]" not in source["description"]]
    lags = [(source.get("metrics") or {}).get("maxOffsetsBehindLatest") for source in sources]
    operators = progress.get("stateOperators", ())
    buckets = list(buckets)
    return BatchReport(
        number=progress.get("batchId"),
        at=datetime.fromisoformat(progress["timestamp"]).timestamp() if "timestamp" in progress else None,
        seconds=None if duration_ms is None else duration_ms / 1000,
        events=sum(max(source.get("numInputRows", 0), 0) for source in sources),
        bytes=sum(bucket.bytes for bucket in buckets),
        diffs=sum(bucket.diffs for bucket in buckets),
        dead_letters=sum(bucket.dead_letters for bucket in buckets),
        retired=sum(bucket.retired for bucket in buckets),
        lag=max((int(lag) for lag in lags if lag is not None), default=None),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators) if operators else None,
    )


def log_batch(report: BatchReport) -> None:
    """Log one line for a batch that read events; a JSON log line has the report's figures as fields."""
    if report.number is None or not report.events:
        return
    fields = report._asdict()
    del fields["at"]
    fields |= {"batch": fields.pop("number"), "lag_records": fields.pop("lag")}
    fields["events_per_second"] = round(report.events / report.seconds, 1) if report.seconds else None
    lag = "?" if report.lag is None else report.lag
    values = (report.number, report.events, report.diffs, report.seconds or 0.0, lag)
    log.info("batch %d: %d events, %d diffs in %.2f s, %s behind", *values, extra=fields)


class BatchMetrics:
    """The driver's Prometheus metrics, updated after each batch."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Gauge, Summary

        name = "rebalance_monitor_stream_{}".format
        duration = name("batch_duration_seconds")
        self._batches = Summary(duration, "Duration of a batch, planning and commit included.", registry=registry)
        self._counters = {
            field: Counter(name(metric), text, registry=registry) for field, (metric, text) in _COUNTERS.items()
        }
        self._gauges = {key: Gauge(name(metric), text, registry=registry) for key, (metric, text) in _GAUGES.items()}
        lag = "Unread membership events, open transactions included, in the partition with the most."
        self.lag = Gauge(name("lag_records"), lag, registry=registry)

    def add(self, report: BatchReport) -> None:
        """Add a batch to the metrics; a figure that Spark left out leaves its metric unchanged."""
        if report.seconds is not None:
            self._batches.observe(report.seconds)
        for field, counter in self._counters.items():
            counter.inc(getattr(report, field))
        for field, gauge in self._gauges.items():
            if (value := getattr(report, field)) is not None:
                gauge.set(value)
