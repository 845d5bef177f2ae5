"""Starts, watches and stops the Spark query.

A signal handler only sets a flag. :func:`run` checks the flag five times per second, stops the query between two calls
into the JVM, and ends. The next start commits the running batch or runs it again, with the same ids.
:mod:`streaming.spark.supervisor` decides what the job does next.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from msgspec import structs
from prometheus_client import CollectorRegistry

from assignors.errors import OutsideFailure
from streaming.freshness import STREAM_ID
from streaming.kafka import security
from streaming.kafka.access import NoPermission, missing
from streaming.kafka.clients import ClusterUnavailable, require_same_cluster, wait_until_reachable
from streaming.kafka.heartbeats import HeartbeatWriter
from streaming.kafka.metadata import IdentityWatch, request_identities
from streaming.process.service import serve_metrics
from streaming.settings.config import Settings
from streaming.spark import checkpoint, failures
from streaming.spark.checkpoint import Checkpoint, LocalCheckpoint, RemoteCheckpoint, TopicDeleted
from streaming.spark.failures import reason, spark_errors
from streaming.spark.progress import BatchMetrics, BatchReport, ProgressReader, batch_report, log_batch
from streaming.spark.session import StartInterrupted, session
from streaming.spark.start import PreparedStream, StreamOptions, check_lost_records, claim, lost_records_text, prepare
from streaming.spark.supervisor import Action, Supervisor
from streaming.spark.topics import EndOffsetWatch, TickTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)
_POLL_INTERVAL_SECONDS: Final = 0.2
_RESTART_ACTIONS: Final = (Action.CONFIRM_TOPICS, Action.CHANGE_LIMIT, Action.READ_ALL_PARTITIONS, Action.RENEW_SECRETS)


def run(
    settings: Settings,
    options: StreamOptions,
    stop: threading.Event,
    on_batch: Callable[[BatchReport], None] = log_batch,
) -> None:
    """Run the job until ``stop`` is set or, with ``available_now``, until all existing records are processed."""
    setup = prepare(settings, options)
    if stop.is_set():
        return
    registry = CollectorRegistry()
    serve_metrics(registry, options.metrics_host, options.metrics_port)
    is_remote = checkpoint.is_remote(options.checkpoint)
    with ExitStack() as stack:
        store: Checkpoint
        if not is_remote:
            store = stack.enter_context(LocalCheckpoint(options.checkpoint))
            setup = claim(setup, store)
        jvm = replace(
            options.session,
            local_checkpoint=not is_remote or options.checkpoint.startswith("file:"),
            java_options=security.java_options(settings.kafka),
            packages=security.java_packages(settings.kafka),
        )
        try:
            spark = stack.enter_context(session(jvm, stop))
        except StartInterrupted:
            return
        if is_remote:
            store = RemoteCheckpoint(options.checkpoint, spark)
            setup = claim(setup, store)
        if stop.is_set():
            return
        job = _StreamJob(setup, spark, stop, BatchMetrics(registry), store=store, on_batch=on_batch)
        try:
            while job.run_query():
                pass
        except TopicDeleted:
            require_same_cluster(settings.kafka, setup.metadata.cluster_id)
            raise
        job.write_last_heartbeat()


class _StreamJob:
    """The job in one Spark session, which restarts the query when its settings change."""

    def __init__(
        self,
        setup: PreparedStream,
        spark: "SparkSession",
        stop: threading.Event,
        metrics: BatchMetrics,
        *,
        store: Checkpoint,
        on_batch: Callable[[BatchReport], None],
    ) -> None:
        from streaming.spark.operator import BucketReports

        self._setup, self._spark, self._stop = setup, spark, stop
        self._metrics, self._on_batch, self._metadata_store = metrics, on_batch, store
        self._metadata, kafka = setup.metadata, setup.settings.kafka
        self._supervisor = Supervisor(setup.options, self._metadata.topic, setup.topics, self._metadata.partitions)
        self._supervisor.set_topics(setup.topics, time.time())
        self._ends = EndOffsetWatch(kafka, self._metadata.topic)
        self._credential_renewal = security.CredentialRenewal(kafka)
        self._reports = BucketReports(spark)
        self._connect()

    def _connect(self) -> None:
        """Create the watch of topic ids and, unless the job only reads existing records, the writer of heartbeats."""
        settings = self._setup.settings
        self._watch = IdentityWatch(settings.kafka, self._setup.topics)
        self._heartbeats = None if self._setup.options.available_now else HeartbeatWriter(settings, "stream", STREAM_ID)

    def run_query(self) -> bool:
        """Run the query until it ends; return True if the query must be started again."""
        options = self._setup.options
        try:
            return self._follow_query(self._start())
        except spark_errors() as error:
            self._metadata_store.check()
            failure = failures.checkpoint_failure(error, options.checkpoint, options.location)
            if failure is not None:
                raise failure from error
            self._confirm_topics()
            text = str(error)
            if failures.RECORDS_LOST.search(text):
                lost = check_lost_records(self._setup.settings, options.checkpoint, self._metadata)
                raise OutsideFailure(lost_records_text(self._metadata.topic, lost or reason(error))) from error
            if "AuthorizationException" in text and (line := next(missing(self._setup.settings, "stream"), None)):
                raise NoPermission(line) from error
            if not failures.UNAVAILABLE_ERROR.search(text):
                raise OutsideFailure(reason(error)) from error
            log.warning("no broker answers, the query waits: %s", reason(error))
            return wait_until_reachable(self._setup.settings.kafka, self._stop)

    def _start(self) -> "StreamingQuery":
        from streaming.spark import query

        setup, supervisor = self._setup, self._supervisor
        read = {self._metadata.topic: supervisor.growth.partitions}
        sinks = setup.sinks._replace(partitions=setup.sinks.partitions | read)
        sources = query.sources(self._spark, setup.settings, setup.options, sinks, supervisor.limit.value)
        rows = query.writes(*sources, self._metadata.buckets, sinks, self._reports.accumulator)
        return query.start(rows, setup.settings, setup.options)

    def _follow_query(self, query: "StreamingQuery") -> bool:
        progress = ProgressReader(query)
        while not query.awaitTermination(_POLL_INTERVAL_SECONDS):
            self._add_batches(progress)
            action = self._choose_action()
            if self._stop.is_set() or action in _RESTART_ACTIONS:
                query.stop()
                self._add_batches(progress)
                return self._prepare_next_query(action)
        self._add_batches(progress)
        # With --available-now the query has read the old partitions to their ends.
        return self._supervisor.growth.is_pending and self._prepare_next_query(Action.READ_ALL_PARTITIONS)

    def _add_batches(self, reader: ProgressReader) -> None:
        for progress in reader.read():
            buckets = self._reports.reports_of_batch(progress.get("batchId", -1))
            report = batch_report(progress, buckets.values())
            self._supervisor.add_batch(progress, buckets, report)
            self._metrics.add(report)
            self._on_batch(report)

    def _prepare_next_query(self, action: Action) -> bool:
        """Perform an action that needs a stopped query; return True if the query must be started again."""
        if self._stop.is_set():
            return False
        match action:
            case Action.CONFIRM_TOPICS:
                self._confirm_topics()
            case Action.RENEW_SECRETS:
                self._setup = replace(self._setup, ticks=TickTopic(self._setup.settings))
                self._connect()
            case Action.CHANGE_LIMIT:
                log.info("batches have at most %d events from now on", self._supervisor.limit.value)
            case Action.READ_ALL_PARTITIONS:
                growth = self._supervisor.growth
                growth.finish()
                self._metadata = structs.replace(self._metadata, partitions=growth.partitions)
                self._metadata_store.write(self._metadata)
                log.info("all %d partitions of topic %s are read now", growth.partitions, self._metadata.topic)
        return not self._stop.is_set()

    def _choose_action(self) -> Action:
        """Update the supervisor, write ticks and heartbeats, and return the supervisor's next action."""
        if self._credential_renewal.renewed(time.monotonic()):
            return Action.RENEW_SECRETS
        self._metadata_store.check()
        supervisor, now = self._supervisor, time.time()
        topics = self._watch.poll(time.monotonic())
        supervisor.report_contact(self._watch.trouble)
        if topics is not None:
            supervisor.set_topics(topics, now)
        ends = self._ends.poll(time.monotonic(), supervisor.growth.partitions)
        if ends is not None:
            supervisor.set_end_offsets(ends, now)
            if (lag := supervisor.lag) is not None:
                self._metrics.lag.set(lag)
        action = supervisor.next_action(now)
        for warning in supervisor.take_warnings():
            log.warning("%s", warning)
        if action is Action.TICK:
            self._setup.ticks.tick()
        self._write_heartbeat(now)
        return action

    def _write_heartbeat(self, now: float) -> None:
        if self._heartbeats is None:
            return
        reached = self._supervisor.reached
        # An event that waits for the next trigger is not late.
        up_to = None if reached is None else min(now, reached + (self._setup.options.trigger_interval_ms or 0) / 1000)
        self._heartbeats.write(up_to=up_to, positions=self._supervisor.growth.offsets)

    def write_last_heartbeat(self) -> None:
        """Write the last heartbeat, which reports an orderly end of the Spark job."""
        if self._heartbeats is not None:
            self._heartbeats.write_last(self._supervisor.growth.offsets)

    def _confirm_topics(self) -> None:
        by = time.monotonic() + 2.0  # a topic that is still missing then counts as deleted
        while not self._stop.is_set():
            try:
                topics = request_identities(self._setup.settings.kafka, self._watch.topics)
            except ClusterUnavailable:
                return
            self._supervisor.set_topics(topics, time.time())
            if None not in topics.values():
                return
            if time.monotonic() > by:
                self._supervisor.require_topics()
            self._stop.wait(_POLL_INTERVAL_SECONDS)
