"""Spark's reports of its batches, as a line of the log and as the driver's Prometheus metrics."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from streaming.records.events import RETIRED_TYPES

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming import StreamingQueryListener

log = logging.getLogger(__name__)

_NAME = "rebalance_monitor_stream"
#: Spark's name of a part of the batch → ours.
_PHASES = {
    "latestOffset": "latest_offsets",
    "walCommit": "offset_log",
    "queryPlanning": "planning",
    "addBatch": "process",
    "commitOffsets": "commit",
}


class Told(NamedTuple):
    """What a bucket reports of one batch.

    Attributes:
        due: when its first timer is due, ms; 0 when it has none.
        diffs: diffs it gave.
        dead_letters: records it could not use.
        oldest: when its oldest record was appended to its topic, ms; None without records.
        bytes: of its events' values.
        retired: records passed over because their type no longer exists, by type.
    """

    due: int
    diffs: int = 0
    dead_letters: int = 0
    oldest: int | None = None
    bytes: int = 0
    retired: Mapping[str, int] = {}


class BatchReport(NamedTuple):
    """One batch, or a look that found nothing new (``number`` None).

    Attributes:
        number: Spark's batch id.
        at: when it began, seconds since the epoch; None when Spark left it out.
        seconds: how long it took, planning and commit included; None when Spark left it out.
        phases: seconds of its parts.
        events: membership events read.
        bytes: of their values.
        diffs: diffs written.
        dead_letters: records sent to the dead-letter topic.
        retired: records passed over because their type no longer exists, by type.
        lag: unread events in the partition that is furthest behind; None when unknown.
        waited: seconds from the oldest event of the batch to the batch's end: the lag in time; None without events.
        buckets: buckets of groups in the state store; None when the batch does not say.
        state_bytes: memory the state store uses; None when the batch does not say.
    """

    number: int | None = None
    at: float | None = None
    seconds: float | None = None
    phases: Mapping[str, float] = {}
    events: int = 0
    bytes: int = 0
    diffs: int = 0
    dead_letters: int = 0
    retired: Mapping[str, int] = {}
    lag: int | None = None
    waited: float | None = None
    buckets: int | None = None
    state_bytes: int | None = None


#: A batch's progress in Spark's JSON form; a look that found nothing new is its ``timestamp`` alone.
QueryProgress = dict[str, Any]


def listener(progress: SimpleQueue[QueryProgress]) -> StreamingQueryListener:
    """Return a listener for ``spark.streams.addListener`` that puts each batch's progress into the queue.

    It runs on py4j's thread, which shares nothing but the queue with the job's.
    """
    from pyspark.sql.streaming import StreamingQueryListener as Listener
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    class BatchListener(Listener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
            """Nothing to hand on."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - same
            progress.put(json.loads(event.progress.json))

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - same
            progress.put({"timestamp": event.timestamp})

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - same
            """The job itself sees the end."""

    return BatchListener()


def report(progress: Mapping[str, Any], told: Iterable[Told] = ()) -> BatchReport:
    """One batch: its progress, in Spark's JSON form, and what its buckets told."""
    durations = progress.get("durationMs", {})
    taken = durations.get("triggerExecution")
    # The other source is the clock's ticks.
    kafka = [
        source
        for source in progress.get("sources", ())
        if not source["description"].endswith("rebalance.ticks]]")
    ]
    lags = [(source.get("metrics") or {}).get("maxOffsetsBehindLatest") for source in kafka]
    known = [int(lag) for lag in lags if lag is not None]
    told = list(told)
    oldest = min((one.oldest for one in told if one.oldest is not None), default=None)
    at = datetime.fromisoformat(progress["timestamp"]).timestamp() if "timestamp" in progress else None
    operators = progress.get("stateOperators", ())
    return BatchReport(
        number=progress.get("batchId"),
        at=at,
        seconds=None if taken is None else taken / 1000,
        phases={ours: durations[name] / 1000 for name, ours in _PHASES.items() if name in durations},
        events=sum(max(source.get("numInputRows", 0), 0) for source in kafka),
        bytes=sum(one.bytes for one in told),
        diffs=sum(one.diffs for one in told),
        dead_letters=sum(one.dead_letters for one in told),
        retired=sum((Counter(one.retired) for one in told), Counter()),
        lag=max(known, default=None),
        waited=None
        if oldest is None or at is None
        else max(0.0, round(at + (taken or 0) / 1000 - oldest / 1000, 3)),
        buckets=sum(operator["numRowsTotal"] for operator in operators) if operators else None,
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators) if operators else None,
    )


def finished(progress: Mapping[str, Any] | None) -> int:
    """The number of the batch that this progress tells of; -1 for none, or for a look that found nothing new.

    While nothing is new, Spark's ``lastProgress`` is such a look every ten seconds. It has the number of the batch
    to come (``ProgressReporter.updateIdleness``), which nobody has heard of.
    """
    if progress is None or "addBatch" not in progress.get("durationMs", {}):
        return -1
    return int(progress["batchId"])


def log_batch(done: BatchReport) -> None:
    """One line a batch that read something, its figures as fields of their own; without text for people to skip."""
    if done.number is None or not done.events:
        return
    log.info(
        "batch %d: %d events, %d diffs in %.2f s, %s behind",
        done.number,
        done.events,
        done.diffs,
        done.seconds or 0.0,
        "?" if done.lag is None else done.lag,
        extra={
            "batch": done.number,
            "events": done.events,
            "bytes": done.bytes,
            "diffs": done.diffs,
            "dead_letters": done.dead_letters,
            "retired": dict(done.retired),
            "events_per_second": round(done.events / done.seconds, 1) if done.seconds else None,
            "seconds": done.seconds,
            "phases": dict(done.phases),
            "lag_records": done.lag,
            "lag_seconds": done.waited,
            "state_bytes": done.state_bytes,
        },
    )


class BatchMetrics:
    """The metrics, fed with one batch at a time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Summary

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_NAME}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{_NAME}_{name}", text, registry=registry)

        self._batches = Summary(
            f"{_NAME}_batch_duration_seconds",
            "Time a batch took, planning and commit included.",
            registry=registry,
        )
        self._phases = counter("phase_seconds", "Time spent in each part of the batches.", "phase")
        self._read = counter("input_records", "Membership events read.")
        self._size = counter("input_bytes", "Bytes of the values of membership events read.")
        self._diffs = counter("diffs", "Diffs written.")
        self._dead = counter("dead_letters", "Records sent to the dead-letter topic.")
        self._retired = counter(
            "retired_records", "Records passed over because their type no longer exists.", "type"
        )
        for name in RETIRED_TYPES:
            self._retired.labels(name)
        self._lag = gauge(
            "lag_records",
            "Membership events up to the log's end, open transactions included, in the partition furthest behind.",
        )
        self._waited = gauge(
            "lag_seconds", "From the oldest event of the last batch to the end of the batch."
        )
        self._rows = gauge("state_rows", "Buckets of groups in the state store.")
        self._bytes = gauge("state_bytes", "Memory the state store uses.")
        self._last = gauge(
            "last_trigger_timestamp_seconds", "Last batch, or last look that found no new record."
        )

    def set_lag(self, records: int | None) -> None:
        """Take in how many events are unread."""
        if records is not None:
            self._lag.set(records)

    def add(self, done: BatchReport) -> None:
        """Count a batch; what Spark left out stays as it was."""
        if done.seconds is not None:
            self._batches.observe(done.seconds)
        for phase, seconds in done.phases.items():
            self._phases.labels(phase).inc(seconds)
        self._read.inc(done.events)
        self._size.inc(done.bytes)
        self._diffs.inc(done.diffs)
        self._dead.inc(done.dead_letters)
        for name, number in done.retired.items():
            self._retired.labels(name).inc(number)
        for gauge, value in (
            (self._waited, done.waited),
            (self._rows, done.buckets),
            (self._bytes, done.state_bytes),
            (self._last, done.at),
        ):
            if value is not None:
                gauge.set(value)
