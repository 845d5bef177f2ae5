"""Start, watch and stop the query.

A signal handler only sets a flag; :func:`run` looks at it a few times a second, stops the query between two
calls into the JVM and ends. What was read is emitted by the next start: the batch that is running is either
committed or run again, with the same ids.

:mod:`streaming.spark.supervisor` says what to do when; one thread does it. All that py4j's thread shares with it is
the queue of :func:`streaming.spark.progress.listener`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from msgspec import structs
from prometheus_client import CollectorRegistry

from streaming.freshness import STREAM_ID
from streaming.kafka import security
from streaming.kafka.access import NotAllowed, missing
from streaming.kafka.clients import ClusterUnavailable, same_cluster, wait_reachable
from streaming.kafka.heartbeats import HeartbeatWriter
from streaming.kafka.metadata import Identity, IdentityWatch, identify
from streaming.kafka.security import Renewal
from streaming.process.exporter import serve_metrics
from streaming.settings.config import Settings
from streaming.spark import checkpoint, failures
from streaming.spark.checkpoint import CardStore, Remote, TopicRecreated
from streaming.spark.failures import StreamFailed, errors, reason
from streaming.spark.options import StreamOptions
from streaming.spark.progress import (
    BatchMetrics,
    BatchReport,
    QueryProgress,
    finished,
    listener,
    log_batch,
    report,
)
from streaming.spark.session import session
from streaming.spark.start import (
    Prepared,
    RecordsLost,
    claim,
    listen_for_others,
    lost_message,
    lost_records,
    prepare,
)
from streaming.spark.supervisor import Do, Supervisor, TopicGone
from streaming.spark.ticks import TickTopic
from streaming.spark.topic_ends import Blocked, EndsWatch, describe_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
#: A topic that is missing from a broker's answer is believed to be gone when it is still missing so much later.
_CONFIRM_SECONDS = 2.0


#: Which stream it is: one works on these topics.


def run(
    settings: Settings,
    options: StreamOptions,
    stop: threading.Event,
    tell: Callable[[BatchReport], None] = log_batch,
) -> None:
    """Run the job until ``stop`` is set or, with ``available_now``, until everything there is processed.

    ``tell`` is told of each batch.

    Raises:
        PySparkTooOld, ConnectorMissing: the installed PySpark is too old, or has no connector.
        NotAllowed: an ACL is missing, or was taken away.
        ClusterUnavailable, TopicMisconfigured, TopicsNotCreated: the topics can't be used.
        SparkUnavailable: Spark did not start.
        CheckpointOfAnotherJob, TopicRecreated: the checkpoint does not fit.
        CheckpointInUse: another job works with it.
        CheckpointDamaged, CheckpointUnusable: its files are not as Spark left them, can't be used, or are gone.
        RecordsLost: the membership topic has lost records before they were read.
        MetricsPortUnusable: the metrics can't be served there.
        TopicGone: one of the job's topics was deleted while it ran.
        AnotherCluster: it took the place of the one that was there before.
        ListenerSilent: Spark does not tell of its batches any more.
        StreamFailed: the query failed; the message is the reason without a stack trace.
    """
    setup = prepare(settings, options)
    if stop.is_set():
        return
    registry = CollectorRegistry()
    serve_metrics(registry, options.metrics_host, options.metrics_port)
    remote = checkpoint.is_remote(options.checkpoint)
    with ExitStack() as stack:
        if remote:
            listen_for_others(settings, options.checkpoint)
        else:
            folder = stack.enter_context(checkpoint.held(options.checkpoint))
            setup = claim(setup, folder)
        in_jvm = replace(
            options.session,
            local_checkpoint=not remote or options.checkpoint.startswith("file:"),
            state_store=setup.card.state_store,
            java_options=security.java_options(settings.kafka),
        )
        spark = stack.enter_context(session(in_jvm))
        store: CardStore = Remote(options.checkpoint, spark) if remote else folder
        if remote:
            setup = claim(setup, store)
        if stop.is_set():
            return
        job = _Job(setup, spark, stop, BatchMetrics(registry), store=store, tell=tell)
        try:
            while job.run_query():
                pass
        except (TopicGone, TopicRecreated):
            same_cluster(settings.kafka, setup.card.cluster_id)
            raise
        job.tell_end()
    job.drain()  # Spark's last words came while it ended


class _Job:
    """The query of one session, again and again."""

    def __init__(
        self,
        setup: Prepared,
        spark: SparkSession,
        stop: threading.Event,
        metrics: BatchMetrics,
        *,
        store: CardStore,
        tell: Callable[[BatchReport], None],
    ) -> None:
        from streaming.spark.tally import Batches, Tally

        self._setup = setup
        self._spark = spark
        self._stop = stop
        self._metrics = metrics
        self._tell = tell
        self._store = store
        self._card = setup.card
        self._supervisor = Supervisor(
            setup.options,
            self._card.topic,
            setup.topics,
            partitions=self._card.partitions,
        )
        self._supervisor.topics_seen(setup.topics, time.time())
        self._watch = IdentityWatch(setup.settings.kafka, setup.topics)
        self._ends = EndsWatch(setup.settings.kafka, self._card.topic)
        self._reported: Blocked | None = None
        self._renewal = Renewal(setup.settings.kafka)
        self._heartbeats = self._sign_writer()
        self._tally = Tally(spark)
        self._told = Batches(self._tally)
        self._progress: SimpleQueue[QueryProgress] = SimpleQueue()
        spark.streams.addListener(listener(self._progress))

    def run_query(self) -> bool:
        """Start the query and watch it to its end; True when it is to be started again."""
        options = self._setup.options
        try:
            return self._follow(self._start())
        except errors() as error:
            self._store.check()
            told = failures.of_checkpoint(error, options.checkpoint, options.location)
            if told is not None:
                raise told from error
            self._confirm()
            if failures.records_lost(str(error)):
                raise RecordsLost(self._what_is_lost(error)) from error
            if failures.not_allowed(str(error)):
                for line in missing(self._setup.settings, "stream"):
                    raise NotAllowed(line) from error
            if not failures.cluster_is_away(str(error)):
                raise StreamFailed(reason(error)) from error
            log.warning("the cluster is away, the query waits for it: %s", reason(error))
            return wait_reachable(self._setup.settings.kafka, self._stop)

    def _what_is_lost(self, error: Exception) -> str:
        """What to tell of records that Spark misses; in Spark's words where they are not missing any more."""
        lost = lost_records(self._setup.settings, self._setup.options.checkpoint, self._card)
        return lost_message(self._card.topic, lost or reason(error))

    def _start(self) -> StreamingQuery:
        """The query with the numbers that the supervisor has now."""
        from streaming.spark import query

        setup, supervisor = self._setup, self._supervisor
        read = {self._card.topic: supervisor.growth.partitions}
        sinks = setup.sinks._replace(partitions=setup.sinks.partitions | read)
        sources = query.sources(self._spark, setup.settings, setup.options, sinks, supervisor.limit.value)
        rows = query.writes(*sources, self._card.buckets, sinks, self._tally)
        return query.start(rows, setup.settings, setup.options)

    def _follow(self, query: StreamingQuery) -> bool:
        while not query.awaitTermination(_LOOK_SECONDS):
            do = self._look(query)
            if self._stop.is_set() or do in (Do.CONFIRM, Do.REFIT, Do.READ_ALL, Do.RENEW):
                query.stop()
                return self._stopped(do)
        # --available-now has read the old partitions to their end.
        return self._supervisor.growth.pending and self._stopped(Do.READ_ALL)

    def _stopped(self, do: Do) -> bool:
        """What is to be done while no query runs; True when it is to be started again."""
        if self._stop.is_set():
            return False
        if do is Do.CONFIRM:
            self._confirm()
        elif do is Do.RENEW:
            settings = self._setup.settings
            self._setup = replace(self._setup, ticks=TickTopic(settings))
            self._heartbeats = self._sign_writer()
            self._watch = IdentityWatch(settings.kafka, self._setup.topics)
        elif do is Do.REFIT:
            log.info("batches have at most %s events from now on", self._supervisor.limit.value)
        elif do is Do.READ_ALL:
            growth = self._supervisor.growth
            growth.done()
            self._card = structs.replace(self._card, partitions=growth.partitions)
            self._store.write(self._card)
            log.info("all %d partitions of topic %s are read now", growth.partitions, self._card.topic)
        return not self._stop.is_set()

    def _look(self, query: StreamingQuery) -> Do:
        """Give the supervisor what is new, and do what needs no stop of the query."""
        if self._renewal.renewed(time.monotonic()):
            return Do.RENEW
        self._store.check()
        supervisor, now = self._supervisor, time.time()
        self.drain()
        topics = self._watch.look(time.monotonic())
        supervisor.contact(self._watch.trouble)
        self._look_at_ends(now)
        if topics is not None:
            supervisor.topics_seen(topics, now)
        if supervisor.wants_count(now):
            supervisor.counted(finished(query.lastProgress), now)
        do = supervisor.next(now)
        for note in supervisor.take_notes():
            log.warning("%s", note)
        if do is Do.TICK:
            self._setup.ticks.tick()
        self._leave_sign(now)
        return do

    def _sign_writer(self) -> HeartbeatWriter | None:
        """None for a job that ends by itself: nobody waits for its next sign."""
        if self._setup.options.available_now:
            return None
        return HeartbeatWriter(self._setup.settings, "stream", STREAM_ID)

    def _leave_sign(self, now: float) -> None:
        if self._heartbeats is None:
            return
        reached = self._supervisor.reached
        # What waits for the next trigger is not late.
        up_to = None if reached is None else min(now, reached + self._setup.options.pause_seconds)
        self._heartbeats.write(up_to=up_to, positions=self._supervisor.growth.offsets)

    def tell_end(self) -> None:
        """The job ends in order: say so."""
        if self._heartbeats is not None:
            self._heartbeats.write_last()

    def drain(self) -> None:
        """Take in the batches that ended."""
        while not self._progress.empty():
            progress = self._progress.get()
            told = self._told.of(progress.get("batchId", -1))
            done = report(progress, told.values())
            self._supervisor.batch_ended(progress, told, done)
            self._metrics.add(done)
            self._tell(done)

    def _look_at_ends(self, now: float) -> None:
        """Notice a transaction that keeps the newest records from the query."""
        supervisor = self._supervisor
        ends = self._ends.look(time.monotonic(), supervisor.growth.partitions)
        if ends is None:
            return
        supervisor.ends_seen(ends, now)
        self._metrics.set_lag(supervisor.lag)
        blocked = supervisor.blocked
        if blocked is not None and blocked != self._reported:
            settings, topic = self._setup.settings.kafka, self._card.topic
            record = describe_record(settings, topic, blocked)
            log.warning(
                "topic %s: a transaction is open since offset %d of partition %d%s; until it ends nothing behind "
                "it can be read. `kafka-transactions.sh find-hanging` and `abort` end one whose producer is gone",
                topic,
                blocked.offset,
                blocked.partition,
                f" ({record})" if record else "",
            )
        self._reported = blocked

    def _confirm(self) -> None:
        """Look whether topics are gone.

        Raises:
            TopicGone, TopicRecreated: they are.
        """
        by = time.monotonic() + _CONFIRM_SECONDS
        while not self._stop.is_set():
            found = self._found()
            if found is None:
                return  # the cluster is away: nothing is known
            self._supervisor.topics_seen(found, time.time())
            if None not in found.values():
                return
            if time.monotonic() > by:
                self._supervisor.still_missing()
            self._stop.wait(_LOOK_SECONDS)

    def _found(self) -> Mapping[str, Identity | None] | None:
        try:
            return identify(self._setup.settings.kafka, self._watch.topics)
        except ClusterUnavailable:
            return None
