"""Start, watch and stop the query.

A signal handler only sets a flag; :func:`run` looks at it a few times a second, stops the query between two
calls into the JVM and ends. What was read is emitted by the next start: the batch that is running is either
committed or run again, with the same ids.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from assignors.errors import BadInput, OutsideFailure
from streaming.config import Settings
from streaming.exporter import serve_metrics
from streaming.kafka.clients import spark_options
from streaming.kafka.topics import ensure_topics
from streaming.monitor.bucket import Sinks
from streaming.spark.clock import Clock, TickTopic
from streaming.spark.listener import OBSERVATION, BatchMetrics, listener
from streaming.spark.session import SessionOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2


class InvalidStreamOptions(BadInput):
    """An option of the stream is out of range."""


class StreamFailed(OutsideFailure):
    """The streaming query failed."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How the job runs.

    Attributes:
        checkpoint: folder or URL of Spark's checkpoint: offsets and state.
        available_now: process what is there, then end.
        max_offsets_per_trigger: bound of one batch; None: no bound.
        trigger_interval: Spark interval (``500ms``, ``2 seconds``); None: the next batch follows at once.
        buckets: groups share this many state blobs. Frozen into the checkpoint.
        session: how Spark itself runs.
        metrics_host: address the driver's metrics are served at.
        metrics_port: their port; None: not served.
    """

    checkpoint: str
    available_now: bool = False
    max_offsets_per_trigger: int | None = None
    trigger_interval: str | None = None
    buckets: int = 16
    session: SessionOptions = field(default_factory=SessionOptions)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise InvalidStreamOptions(f"--buckets {self.buckets}: at least 1")
        if self.max_offsets_per_trigger is not None and self.max_offsets_per_trigger < 1:
            raise InvalidStreamOptions(
                f"--max-offsets-per-trigger {self.max_offsets_per_trigger}: at least 1"
            )


def run(settings: Settings, options: StreamOptions, stop: threading.Event) -> None:
    """Run the job until ``stop`` is set or, with ``available_now``, until everything there is processed.

    Raises:
        ClusterUnavailable, TopicMisconfigured, TopicsNotCreated: the topics can't be had.
        SparkUnavailable: Spark did not start.
        MetricsPortUnusable: the metrics can't be served there.
        StreamFailed: the query failed; the message is the reason without a stack trace.
    """
    topics = ensure_topics(settings)
    sinks = Sinks(
        membership=settings.topics.membership,
        diffs=settings.topics.diffs,
        assignments=settings.topics.assignments,
        dead_letters=settings.topics.dead_letters,
        partitions={topic.name: topic.partitions or 1 for topic in topics},
    )
    alarm = TickTopic(settings)
    if stop.is_set():
        return
    registry = CollectorRegistry()
    serve_metrics(registry, options.metrics_host, options.metrics_port)
    with session(options.session) as spark:
        if stop.is_set():
            return
        clock = Clock()
        metrics = BatchMetrics(registry)

        def finished(progress: Mapping[str, Any]) -> None:
            clock.heard(progress.get("observedMetrics", {}).get(OBSERVATION, {}).get("due") or ())
            metrics.add(progress)

        spark.streams.addListener(listener(finished))
        query = _query(spark, settings, options, sinks)
        _follow(query, stop, None if options.available_now else clock, alarm)


def _query(spark: SparkSession, settings: Settings, options: StreamOptions, sinks: Sinks) -> StreamingQuery:
    from streaming.spark import plan

    # The collector publishes in transactions: what it gave up must not be read.
    kafka = spark_options(settings.kafka, {"fetch.max.wait.ms": "5", "isolation.level": "read_committed"})
    membership = {**kafka, "subscribe": settings.topics.membership, "startingOffsets": "earliest"}
    if options.max_offsets_per_trigger is not None:
        membership["maxOffsetsPerTrigger"] = str(options.max_offsets_per_trigger)
    # Old ticks are worth nothing and soon deleted.
    ticks = {
        **kafka,
        "subscribe": settings.topics.ticks,
        "startingOffsets": "latest",
        "failOnDataLoss": "false",
    }
    writer = (
        plan.writes(plan.source(spark, membership), plan.source(spark, ticks), options.buckets, sinks)
        .writeStream.format("kafka")
        .options(includeHeaders="true", **spark_options(settings.kafka, {"linger.ms": "0"}))
        .option("checkpointLocation", options.checkpoint)
        .queryName("rebalance-monitor")
        .outputMode("append")
    )
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    elif options.trigger_interval is not None:
        writer = writer.trigger(processingTime=options.trigger_interval)
    return writer.start()


def _follow(query: StreamingQuery, stop: threading.Event, clock: Clock | None, alarm: TickTopic) -> None:
    from pyspark.errors import StreamingQueryException

    try:
        while not query.awaitTermination(_LOOK_SECONDS):
            if stop.is_set():
                query.stop()
                return
            if clock is not None and clock.ticks(time.time()):
                alarm.tick()
    except StreamingQueryException as error:
        raise StreamFailed(_reason(error)) from error


def _reason(error: Exception) -> str:
    """The lines of an error that a person can act on: the last cause, without the stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else lines[0] if lines else type(error).__name__)[:500]
