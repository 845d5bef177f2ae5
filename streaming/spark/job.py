"""Start, watch and stop the query.

A signal handler only sets a flag; :func:`run` looks at it a few times a second, stops the query between two
calls into the JVM and ends. What was read is emitted by the next start: the batch that is running is either
committed or run again, with the same ids.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs
from prometheus_client import CollectorRegistry

from assignors.errors import BadInput, OutsideFailure
from streaming.kafka.access import require
from streaming.kafka.clients import ClusterUnavailable, check_reachable, spark_options
from streaming.kafka.topics import ensure_topics, longest_records
from streaming.monitor.bucket import Sinks
from streaming.monitor.liveness import FORGET_AFTER_MS
from streaming.process.exporter import serve_metrics
from streaming.settings.config import Settings
from streaming.spark import checkpoint
from streaming.spark.bound import Bound
from streaming.spark.checkpoint import Card, OnDataLoss, TopicRecreated
from streaming.spark.clock import Clock, TickTopic
from streaming.spark.growth import Growth
from streaming.spark.listener import Batch, BatchMetrics, batch, listener, log_batch
from streaming.spark.session import SessionOptions, session
from streaming.wire.codec import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from streaming.spark.tally import Tally

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
_GUARD_SECONDS = 10.0
#: The sink's producer.
PRODUCE = {
    "linger.ms": "0",
    # What is longer than its topic takes never comes here: the producer's own limit must not be lower.
    "max.request.size": str(MAX_RECORD_BYTES),
    # A diff of a large group fills the usual 16 KiB at once: a backlog would be a request a handful of records.
    "batch.size": str(256 * 1024),
}
#: Our own errors in the stack trace of a Python worker.
_OURS = re.compile(r"(?:assignors|streaming)\.[\w.]+: (.+)")
#: Kafka's retriable errors as they stand in a failed query's text.
_AWAY = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.NetworkException",
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException",
    "org.apache.kafka.common.errors.LeaderNotAvailableException",
    "java.util.concurrent.TimeoutException",
)


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
        max_offsets_per_trigger: the most events of one batch; None: no bound.
        batch_seconds: batches that take longer get fewer events (:mod:`streaming.spark.bound`).
        trigger_interval: Spark interval (``500ms``, ``2 seconds``); None: the next batch follows at once.
        buckets: groups share this many state blobs. Frozen into the checkpoint.
        forget_after_ms: how long the state keeps a group that is empty.
        session: how Spark itself runs.
        metrics_host: address the driver's metrics are served at.
        metrics_port: their port; None: not served.
        on_data_loss: when the topic lost records or is a new one: ``stop``, ``continue`` or ``restart``.
    """

    checkpoint: str
    available_now: bool = False
    max_offsets_per_trigger: int | None = None
    batch_seconds: float = 20.0
    trigger_interval: str | None = None
    buckets: int = 16
    forget_after_ms: int = FORGET_AFTER_MS
    session: SessionOptions = field(default_factory=SessionOptions)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    on_data_loss: OnDataLoss = "stop"

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise InvalidStreamOptions(f"--buckets {self.buckets}: at least 1")
        if self.max_offsets_per_trigger is not None and self.max_offsets_per_trigger < 1:
            raise InvalidStreamOptions(
                f"--max-offsets-per-trigger {self.max_offsets_per_trigger}: at least 1"
            )
        if not self.batch_seconds > 0:
            raise InvalidStreamOptions(f"--batch-seconds {self.batch_seconds:g}: more than 0")


def run(
    settings: Settings,
    options: StreamOptions,
    stop: threading.Event,
    report: Callable[[Batch], None] = log_batch,
) -> None:
    """Run the job until ``stop`` is set or, with ``available_now``, until everything there is processed.

    ``report`` is told of each batch, on a thread of py4j's.

    Raises:
        ClusterUnavailable, TopicMisconfigured, TopicsNotCreated: the topics can't be had.
        SparkUnavailable: Spark did not start.
        CheckpointOfAnotherJob, TopicRecreated, CheckpointUnusable: the checkpoint does not fit.
        MetricsPortUnusable: the metrics can't be served there.
        StreamFailed: the query failed; the message is the reason without a stack trace.
    """
    require(settings, "stream")
    topics = ensure_topics(settings)
    sinks = Sinks(
        membership=settings.topics.membership,
        diffs=settings.topics.diffs,
        assignments=settings.topics.assignments,
        dead_letters=settings.topics.dead_letters,
        partitions={topic.name: topic.partitions or 1 for topic in topics},
        max_bytes=longest_records(topics),
        forget_after_ms=options.forget_after_ms,
    )
    now = checkpoint.current(settings, options.buckets)
    card = checkpoint.claim(options.checkpoint, now, options.on_data_loss)
    guard = Guard(settings, options, card)
    guard.grown(now.partitions)
    alarm = TickTopic(settings)
    if stop.is_set():
        return
    registry = CollectorRegistry()
    serve_metrics(registry, options.metrics_host, options.metrics_port)
    local = "://" not in options.checkpoint or options.checkpoint.startswith("file:")
    with session(replace(options.session, local_checkpoint=local)) as spark:
        from streaming.spark.tally import Tally

        if stop.is_set():
            return
        clock, tally = Clock(), Tally(spark)
        metrics = BatchMetrics(registry)

        def finished(progress: Mapping[str, Any]) -> None:
            told = tally.of(progress.get("batchId", -1))
            clock.heard({bucket: one.due for bucket, one in told.items()})
            done = batch(progress, told.values())
            guard.growth.progress(progress, done.at or 0.0)
            guard.bound.heard(done.events, done.seconds or 0.0)
            metrics.add(done)
            report(done)

        spark.streams.addListener(listener(finished))
        while _follow(_query(spark, settings, sinks, guard, tally), stop, clock, alarm, guard):
            _wait_for_cluster(settings, stop)


def _query(
    spark: SparkSession,
    settings: Settings,
    sinks: Sinks,
    guard: Guard,
    tally: Tally,
) -> StreamingQuery:
    from streaming.spark import plan

    options, bound = guard.options, guard.bound
    topic, partitions = settings.topics.membership, guard.growth.partitions
    sinks = sinks._replace(partitions=sinks.partitions | {topic: partitions})

    # The collector publishes in transactions: what it gave up must not be read.
    kafka = spark_options(settings.kafka, {"fetch.max.wait.ms": "5", "isolation.level": "read_committed"})
    # Named one by one: when there are more, the guard says when they may be read.
    assigned = json.dumps({topic: list(range(partitions))})
    membership = {**kafka, "assign": assigned, "startingOffsets": "earliest"}
    if options.on_data_loss != "stop":
        membership["failOnDataLoss"] = "false"
    if bound.value is not None:
        membership["maxOffsetsPerTrigger"] = str(bound.value)
    # Old ticks are worth nothing and soon deleted.
    ticks = {
        **kafka,
        "subscribe": settings.topics.ticks,
        "startingOffsets": "latest",
        "failOnDataLoss": "false",
    }
    writer = (
        plan.writes(plan.source(spark, membership), plan.source(spark, ticks), options.buckets, sinks, tally)
        .writeStream.format("kafka")
        .options(includeHeaders="true", **spark_options(settings.kafka, PRODUCE))
        .option("checkpointLocation", options.checkpoint)
        .queryName("rebalance-monitor")
        .outputMode("append")
    )
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    elif options.trigger_interval is not None:
        writer = writer.trigger(processingTime=options.trigger_interval)
    return writer.start()


def _follow(
    query: StreamingQuery,
    stop: threading.Event,
    clock: Clock,
    alarm: TickTopic,
    guard: Guard,
) -> bool:
    """Watch the query to its end; True when it is to be started again."""
    from pyspark.errors import StreamingQueryException

    try:
        while not query.awaitTermination(_LOOK_SECONDS):
            if stop.is_set():
                query.stop()
                return False
            guard.look(time.monotonic())
            if guard.growth.ready():
                query.stop()
                guard.read_all()
                return True
            if guard.bound.moved():
                log.info("batches have at most %d events from now on", guard.bound.value)
                query.stop()
                return True
            if not guard.options.available_now and clock.ticks(time.time()):
                alarm.tick()
    except StreamingQueryException as error:
        if cluster_is_away(str(error)):
            log.warning("the cluster is away, the query waits for it: %s", _reason(error))
            return not stop.is_set()
        raise StreamFailed(_reason(error)) from error
    if guard.growth.pending and not stop.is_set():  # --available-now has read the old partitions to their end
        guard.read_all()
        return True
    return False


class Guard:
    """Says when the query must not go on as it is.

    The membership topic is another than the checkpoint's, or has more partitions; batches take too long.
    """

    def __init__(self, settings: Settings, options: StreamOptions, card: Card) -> None:
        self.options = options
        self.growth = Growth(card.topic, card.partitions)
        self.bound = Bound(options.max_offsets_per_trigger, options.batch_seconds)
        self._settings = settings
        self._card = card
        self._next = 0.0

    def look(self, now: float) -> None:
        """Raise :class:`TopicRecreated` when it is another; a cluster that does not answer is asked again later."""
        if now < self._next:
            return
        self._next = now + _GUARD_SECONDS
        try:
            card = checkpoint.current(self._settings, self.options.buckets)
            if card.topic_id != self._card.topic_id and self.options.on_data_loss != "continue":
                raise TopicRecreated(checkpoint.recreated(self.options.checkpoint, card.topic))
            self.grown(card.partitions)
            if self.growth.wants_ends(time.time()):
                ends = checkpoint.ends(self._settings, self.growth.partitions)
                self.growth.ends(ends, time.time())
        except checkpoint.CheckpointUnusable as error:
            log.warning("%s", error)

    def grown(self, partitions: int) -> None:
        """Take in how many partitions the topic has."""
        if not self.growth.seen(partitions, time.time()):
            return
        was = self.growth.partitions
        log.warning(
            "topic %s has %d partitions, %d are read: the new ones follow once the others are read to where "
            "producers left them",
            self._card.topic,
            partitions,
            was,
        )
        if not self.growth.in_order:
            log.warning(
                "%d is no multiple of %d: groups moved between old partitions too, their events around the "
                "change may be read out of order; grow by a whole multiple",
                partitions,
                was,
            )

    def read_all(self) -> None:
        """The new partitions are read from now on."""
        self.growth.done()
        self._card = structs.replace(self._card, partitions=self.growth.partitions)
        checkpoint.grow(self.options.checkpoint, self._card)
        log.info("all %d partitions of topic %s are read now", self.growth.partitions, self._card.topic)


def cluster_is_away(text: str) -> bool:
    """Whether a query's failure says that the brokers did not answer: the one failure that waiting cures."""
    return any(name in text for name in _AWAY)


def _wait_for_cluster(settings: Settings, stop: threading.Event) -> None:
    while not stop.wait(_LOOK_SECONDS):
        try:
            check_reachable(settings.kafka, timeout=5.0)
        except ClusterUnavailable:
            continue
        return


def _reason(error: Exception) -> str:
    """The line of an error that a person can act on: what our own code raised in a worker, else the last cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [found[1] for line in lines if (found := _OURS.match(line))]
    causes = [line for line in lines if line.startswith("Caused by:")]
    said = (ours or causes)[-1:] or lines[:1] or [type(error).__name__]
    return said[0][:500]
