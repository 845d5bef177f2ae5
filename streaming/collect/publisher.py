"""Where events are published: with dead letters and the place to go on from, in one transaction each time.

A transaction makes "published" and "read up to here" one step: after any crash the collector goes on exactly
behind what is published. Readers of the membership topic must read committed records only (librdkafka's
default; Java and Spark: ``isolation.level=read_committed``), else they may see a batch that was given up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from assignors.errors import OutsideFailure
from streaming.collect.fold import Outcome
from streaming.collect.outgoing import Outgoing, outgoing
from streaming.collect.source import HELD
from streaming.kafka.access import refusal
from streaming.kafka.clients import ClusterUnavailable, check_reachable, confluent_config, same_cluster
from streaming.kafka.producer import EventProducer, NotDelivered
from streaming.kafka.topics import describe_topics, longest_records
from streaming.records.events import Event

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer

    from streaming.collect.source import ResumePoint
    from streaming.settings.config import Settings
    from streaming.settings.topics import TopicSettings

_log = logging.getLogger(__name__)
_TIMEOUT = 30.0
_OFFSETS_TIMEOUT = 8.0
#: For one try of a call that goes on where it was when it is tried again.
_TRY_SECONDS = 8.0
#: After which a call counts as one that never ends.
_ENDLESS_SECONDS = 15.0
_REACH_SECONDS = 5.0
_RETRY_SECONDS = 0.5


class Superseded(OutsideFailure):
    """Another collector with the same group id has taken over; run one, or give it a group_id of its own."""


class NotPublished(OutsideFailure):
    """The cluster does not take what was collected."""


def written(topics: TopicSettings) -> tuple[str, ...]:
    """Names of the topics that are written."""
    return topics.membership, topics.dead_letters


class _ClientLost(OutsideFailure):
    """The producer does not reach the cluster, which answers another client (:mod:`streaming.kafka.metadata`)."""


def _to_its_end(call: Callable[[], object]) -> None:
    """Call librdkafka where it may never answer.

    It does not keep to its own timeouts while it waits for a coordinator (issue 5511): after a broker that stood
    still for a moment it may wait for ever.

    Raises:
        _ClientLost: it does not answer.
        KafkaException: it says so.
    """
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised where the call was made
            ended.put(error)
        else:
            ended.put(None)

    # One that never ends keeps its thread, which is no reason for the process not to end.
    threading.Thread(target=run, name="transaction", daemon=True).start()
    try:
        error = ended.get(timeout=_ENDLESS_SECONDS)
    except Empty:
        raise _ClientLost(f"no answer within {_ENDLESS_SECONDS:g} s") from None
    try:
        if error is not None:
            raise error
    finally:
        del error  # by its traceback it holds this frame


class Publisher:
    """Publishes batches exactly once.

    Args:
        settings: the cluster and the topics.
        group_id: the collector's group: its offsets are the place to go on from, and its transactions are fenced by
            this name, so that two collectors never publish the same.
        stopping: whether to give up waiting for the cluster.
    """

    def __init__(self, settings: Settings, group_id: str, stopping: Callable[[], bool]) -> None:
        self._settings = settings
        self._stopping = stopping
        self._group_id = group_id
        self._cluster = check_reachable(settings.kafka)
        self._limits = longest_records(describe_topics(settings, written(settings.topics)))
        self._kept: Mapping[int, int] | None = None
        self._producer = self._begin()

    def _begin(self) -> EventProducer:
        """A new producer under the collector's name; what an earlier one had open is ended."""
        while True:
            producer = EventProducer(
                self._settings,
                {
                    "transactional.id": self._group_id,
                    "transaction.timeout.ms": 60_000,
                    # With "rebootstrap" a restarted broker is decommissioned first, and adding offsets to a
                    # transaction then waits for it for ever (librdkafka issue 5511).
                    "metadata.recovery.strategy": "none",
                    # A batch of several records must not be longer than what the topics take either.
                    "batch.size": min(1_000_000, *self._limits.values()),
                },
            )
            try:
                self._retry(lambda client: client.init_transactions(_TRY_SECONDS), producer)
            except _ClientLost:
                continue
            return producer

    def publish(self, items: Iterable[Outcome | Event], place: ResumePoint | None) -> list[Outgoing]:
        """Write a batch and the place behind it; returns what was written.

        Args:
            items: events, and records that could not be used.
            place: where the source goes on after them; None: it needs no more than what is published.

        Raises:
            AnotherCluster: it took the place of the one that was there before; that knows nothing of this producer.
            Superseded: another collector has taken over.
            NotAllowed: an ACL was taken away.
            NotPublished: the cluster refuses, or does not answer while this process is asked to stop.
        """
        items = list(items)
        batch = self._outgoing(items)
        while not self._committed(batch, place):
            _log.warning("the transaction was aborted; writing the batch again")
            if self._stopping():
                raise NotPublished(
                    "the cluster did not take the last batch; it is read again at the next start"
                )
            time.sleep(_RETRY_SECONDS)
            same_cluster(self._settings.kafka, self._cluster)
            if self._limits_changed():
                self._producer = self._begin()
                batch = self._outgoing(items)
        self._kept = None if place is None else place.offsets
        return batch

    def _committed(self, batch: list[Outgoing], place: ResumePoint | None) -> bool:
        """One try; False when the transaction was aborted and can be repeated."""
        try:
            return self._once(batch, place)
        except _ClientLost as lost:
            _log.warning("the cluster answers others, but not this producer (%s): a new one", lost)
            self._producer = self._begin()
            return self._is_kept(place)

    def _is_kept(self, place: ResumePoint | None) -> bool:
        """Whether a transaction whose end was not told is committed: its place is kept then.

        Where the place may not have moved, the batch is written again: its events have the same ids.
        """
        from confluent_kafka import Consumer, TopicPartition

        if place is None or self._kept in (None, place.offsets):
            return False
        consumer = Consumer(confluent_config(self._settings.kafka) | {"group.id": self._group_id})
        try:
            asked = [TopicPartition(place.topic, number) for number in place.offsets]
            kept = consumer.committed(asked, timeout=_TIMEOUT)
        finally:
            consumer.close()
        return {one.partition: one.offset for one in kept} == dict(place.offsets)

    def _outgoing(self, items: Iterable[Outcome | Event]) -> list[Outgoing]:
        batch = [outgoing(item, self._settings.topics, self._limits) for item in items]
        for one in batch:
            if one.dead:
                reason = dict(one.headers)["dlt_message"] or b""
                _log.warning("dead-lettered to %s: %r", one.topic, reason.decode(errors="replace"))
        return batch

    def _limits_changed(self) -> bool:
        """Whether the topics take other lengths than before; without an answer, or a topic, it is not known."""
        from confluent_kafka import KafkaException

        try:
            states = describe_topics(self._settings, written(self._settings.topics))
        except (ClusterUnavailable, KafkaException) as error:
            _log.warning("the topics' limits are not known: %s", error)
            return False
        gone = [state.name for state in states if not state.exists]
        if gone:
            _log.warning(
                "no topic %s: waiting until `rebalance-monitor topics --create` makes it", ", ".join(gone)
            )
            return False
        limits = longest_records(states)
        changed, self._limits = limits != self._limits, limits
        return changed

    def _once(self, batch: list[Outgoing], place: ResumePoint | None) -> bool:
        """One try; False when the transaction was aborted and can be repeated."""
        from confluent_kafka import KafkaException, TopicPartition

        client = self._producer.client
        try:
            client.begin_transaction()
            for one in batch:
                self._producer.send_record(one.topic, one.key, one.value, one.headers)
            if place is not None:
                places = [
                    TopicPartition(place.topic, number, offset, HELD if number in place.held else "")
                    for number, offset in place.offsets.items()
                ]
                group = place.group
                _to_its_end(lambda: client.send_offsets_to_transaction(places, group, _OFFSETS_TIMEOUT))
            self._producer.flush(_TIMEOUT)
            self._retry(lambda client: client.commit_transaction(_TRY_SECONDS))
        except (KafkaException, NotDelivered, ClusterUnavailable) as error:
            if isinstance(error, KafkaException):
                self._raise_fatal(error)
                if error.args[0].retriable() and not error.args[0].txn_requires_abort():
                    # librdkafka issue 5511, when a broker has left the cluster: a new producer finds the others.
                    _log.warning("offsets were not added to the transaction: %s", error.args[0].str())
                    self._producer = self._begin()
                    return False
                if not error.args[0].txn_requires_abort():
                    raise NotPublished(
                        f"the cluster refuses what was collected: {error.args[0].str()}"
                    ) from error
            _log.warning("transaction failed: %s", error)
            self._retry(lambda client: client.abort_transaction(_TRY_SECONDS))
            return False
        return True

    def _retry(self, call: Callable[[Producer], object], producer: EventProducer | None = None) -> None:
        """Repeat a call of the producer's client while the cluster is away.

        Raises:
            _ClientLost: the cluster is there for others.
        """
        from confluent_kafka import KafkaException

        client = (producer or self._producer).client
        tries = 0
        while True:
            try:
                _to_its_end(lambda: call(client))
            except KafkaException as error:
                self._raise_fatal(error)
                problem = error.args[0]
                if not problem.retriable() or problem.txn_requires_abort():
                    raise
                if self._stopping():
                    raise NotPublished(f"the cluster does not answer: {problem.str()}") from error
                tries += 1
                if tries > 1 and self._answers():
                    raise _ClientLost(problem.str()) from error
                _log.warning("no contact with Kafka (%s): waiting for it", problem.str())
            else:
                return

    def _answers(self) -> bool:
        """Whether the cluster answers a client that is new to it."""
        try:
            check_reachable(self._settings.kafka, timeout=_REACH_SECONDS)
        except OutsideFailure:
            return False
        return True

    def _raise_fatal(self, error: KafkaException) -> None:
        from confluent_kafka import KafkaError

        problem = error.args[0]
        if (not_allowed := refusal(problem, self._settings, "collect")) is not None:
            raise not_allowed from error
        fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)  # noqa: SLF001 - librdkafka's own codes are spelled so
        if problem.code() in fenced:
            raise Superseded from error
        if problem.fatal():
            raise NotPublished(f"the cluster refuses what was collected: {problem.str()}") from error
