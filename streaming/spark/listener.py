"""What Spark says of each batch, as Prometheus metrics of the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming import StreamingQueryListener

#: The observation that the query carries, see :func:`streaming.spark.plan.writes`.
OBSERVATION = "monitor"
_NAME = "rebalance_monitor_stream"


class BatchMetrics:
    """The metrics, fed with one batch's progress at a time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Summary

        def counter(name: str, text: str) -> Counter:
            return Counter(f"{_NAME}_{name}", text, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{_NAME}_{name}", text, registry=registry)

        self._batches = Summary(
            f"{_NAME}_batch_duration_seconds",
            "Time a batch took, planning and commit included.",
            registry=registry,
        )
        self._read = counter("input_records", "Membership events read.")
        self._diffs = counter("diffs", "Diffs written.")
        self._dead = counter("dead_letters", "Records sent to the dead-letter topic.")
        self._lag = gauge("lag_records", "Membership events behind in the partition that is furthest behind.")
        self._rows = gauge("state_rows", "Buckets of groups in the state store.")
        self._bytes = gauge("state_bytes", "Memory the state store uses.")
        self._last = gauge(
            "last_trigger_timestamp_seconds", "Last batch, or last look that found no new record."
        )

    def add(self, progress: Mapping[str, Any]) -> None:
        """One batch's progress, as Spark's JSON form has it; what Spark left out stays as it was."""
        from datetime import datetime

        duration = progress.get("durationMs", {}).get("triggerExecution")
        if duration is not None:
            self._batches.observe(duration / 1000)
        # The other source is the clock's ticks.
        kafka = [
            source
            for source in progress.get("sources", ())
            if not source["description"].endswith("rebalance.ticks]]")
        ]
        self._read.inc(sum(max(source.get("numInputRows", 0), 0) for source in kafka))
        observed = progress.get("observedMetrics", {}).get(OBSERVATION, {})
        self._diffs.inc(observed.get("diffs") or 0)
        self._dead.inc(observed.get("deadLetters") or 0)
        lags = [(source.get("metrics") or {}).get("maxOffsetsBehindLatest") for source in kafka]
        known = [int(lag) for lag in lags if lag is not None]
        if known:
            self._lag.set(max(known))
        operators = progress.get("stateOperators", ())
        if operators:
            self._rows.set(sum(operator["numRowsTotal"] for operator in operators))
            self._bytes.set(sum(operator["memoryUsedBytes"] for operator in operators))
        if "timestamp" in progress:
            self._last.set(datetime.fromisoformat(progress["timestamp"]).timestamp())


def listener(finished: Callable[[Mapping[str, Any]], None]) -> StreamingQueryListener:
    """A listener that hands on each batch's progress; give it to ``spark.streams.addListener``.

    A look that found nothing is handed on as its ``timestamp`` alone.

    ``finished`` is called on a thread of py4j's.
    """
    import json

    from pyspark.sql.streaming import StreamingQueryListener as Listener
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    class Progress(Listener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
            """Nothing to count."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            finished(json.loads(event.progress.json))

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            finished({"timestamp": event.timestamp})

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            """The job itself reports the end."""

    return Progress()
