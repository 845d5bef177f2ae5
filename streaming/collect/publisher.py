"""Publishes events, dead letters and the source's offsets in one transaction.

A restarted collector therefore resumes exactly after the last published event. Readers of the membership topic must
read only committed records (librdkafka's default; Java and Spark: ``isolation.level=read_committed``), or they
see aborted batches.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from assignors.errors import MonitorError, OutsideFailure
from streaming.collect.coordinator.records import OFFSETS_TOPIC, RawRecord
from streaming.collect.fold import Outcome, RejectedRecord
from streaming.collect.source import ResumePoint
from streaming.kafka import clients
from streaming.kafka.access import refusal
from streaming.kafka.producer import EventProducer, SendFailed
from streaming.kafka.topics import describe_topics, max_record_bytes_by_topic
from streaming.records import codec
from streaming.records.dead_letters import dead_letter_headers, shorten_dead_letter
from streaming.records.events import Event
from streaming.settings.config import Settings, TopicSettings

_log = logging.getLogger(__name__)
_TIMEOUT = 30.0
#: The first and the longest timeout of a call (s), after which the producer is replaced. Each replacement doubles the
#: timeout until a batch is written, because the cluster may be slow.
_CALL_TIMEOUT_SECONDS = 5.0
_MAX_CALL_TIMEOUT_SECONDS = 40.0
#: librdkafka's fatal error after an unclean leader election in which the topic lost this producer's newest records.
_OUT_OF_ORDER_TEXT = "out of order sequence number"
#: The timeout of librdkafka's own call, as a part of that timeout.
_CALL_TIMEOUT_SHARE = 0.8
_RETRY_SECONDS = 0.5


class OutgoingRecord(NamedTuple):
    """The Kafka record of one outcome: a membership event, or (``is_letter``) a dead letter."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    is_letter: bool = False


def encode_outcome(item: Outcome | Event, topics: TopicSettings, limits: Mapping[str, int]) -> OutgoingRecord:
    """Return the Kafka record for an event, or for a rejected record.

    If an event can't be encoded or is too large for its topic, the result is a dead letter with the event's source
    record, or with the event itself if it has no source record. The group's next event is a complete snapshot again.
    """
    record = None if isinstance(item, Event) else item.record
    error: MonitorError
    if isinstance(item, RejectedRecord):
        error = item.error
    else:
        event = item if isinstance(item, Event) else item.event
        try:
            key, value, headers = codec.encode_event(event)
        except codec.MalformedEvent as malformed:
            error = malformed
        else:
            size, limit = codec.record_bytes(key, value, headers), limits[topics.membership]
            if size <= limit:
                return OutgoingRecord(topics.membership, key, value, [*headers])
            record = record or RawRecord(-1, -1, -1, key, value)
            error = codec.RecordTooLarge(
                f"{event.type} of group {event.data.group_id!r} would have {size} bytes, "
                f"max.message.bytes of {topics.membership} is {limit}"
            )
    record = record or RawRecord(-1, -1, -1, None, None)
    origin = dead_letter_headers(None, error, topic=OFFSETS_TOPIC, partition=record.partition, offset=record.offset)
    topic = topics.dead_letters
    return OutgoingRecord(topic, *shorten_dead_letter(record.key, record.value, origin, limits[topic]), is_letter=True)


class ReplacedByOtherCollector(OutsideFailure):
    """Another collector with the same group id has taken over; stop one, or set another collect.group_id."""


def output_topics(topics: TopicSettings) -> tuple[str, ...]:
    """Return the names of the topics that a collector writes."""
    return topics.membership, topics.dead_letters


class _ClientUnusable(OutsideFailure):
    """The producer can't reach the cluster, but other clients can (:mod:`streaming.kafka.metadata`)."""


def _call_with_timeout(call: Callable[[], object], seconds: float) -> None:
    """Call librdkafka with a timeout of ``seconds``, because its calls may never return.

    librdkafka ignores its timeouts while it waits for a coordinator (issue 5511): after a short pause of a broker it
    may wait forever.
    """
    ended: Future[object] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the call was made
            # A traceback would create a reference cycle of this frame, the future and the error: see clients.result_of.
            ended.set_exception(error.with_traceback(None))

    # A call that never ends blocks its thread, but a daemon thread does not keep the process alive.
    threading.Thread(target=run, name="transaction", daemon=True).start()
    try:
        clients.result_of(ended, seconds)
    except TimeoutError:
        raise _ClientUnusable(f"no answer within {seconds:g} s") from None


class Publisher:
    """Publishes batches exactly once; ``group_id`` is also the transactional id, which fences a second collector."""

    def __init__(self, settings: Settings, group_id: str, is_stopping: Callable[[], bool]) -> None:
        self._settings, self._group_id, self._stopping = settings, group_id, is_stopping
        self._cluster = clients.check_reachable(settings.kafka)
        self._max_record_bytes = max_record_bytes_by_topic(describe_topics(settings, output_topics(settings.topics)))
        self._committed_offsets: Mapping[int, int] | None = None
        self._call_timeout = _CALL_TIMEOUT_SECONDS
        self._start_producer()

    def _start_producer(self) -> None:
        """Create a transactional producer, which fences any earlier producer."""
        while True:
            self._producer = EventProducer(
                self._settings,
                {
                    "transactional.id": self._group_id,
                    "transaction.timeout.ms": 60_000,
                    # With "rebootstrap" a restarted broker is decommissioned first, and adding offsets to a
                    # transaction then waits for it for ever (librdkafka issue 5511).
                    "metadata.recovery.strategy": "none",
                    # A producer batch of several records must not exceed max.message.bytes of the topics either.
                    "batch.size": min(1_000_000, *self._max_record_bytes.values()),
                },
            )
            try:
                self._retry(lambda client, seconds: client.init_transactions(seconds))
            except _ClientUnusable as lost:
                if self._stopping():
                    raise OutsideFailure(f"the cluster does not answer: {lost}") from lost
                self._call_timeout = min(2 * self._call_timeout, _MAX_CALL_TIMEOUT_SECONDS)
            else:
                return

    def publish(self, items: Iterable[Outcome | Event], place: ResumePoint | None) -> list[OutgoingRecord]:
        """Write a batch in one transaction, with the offsets of ``place`` (None: without); return the written records.

        Raises:
            OutsideFailure: the cluster refuses, or does not answer while the collector stops.
        """
        items = list(items)
        batch = self._encode(items)
        while not self._write(batch, place):
            _log.warning("the transaction was aborted; writing the batch again")
            if self._stopping():
                raise OutsideFailure("the cluster did not accept the last batch; the next start reads it again")
            time.sleep(_RETRY_SECONDS)
            clients.require_same_cluster(self._settings.kafka, self._cluster)
            if self._has_new_limits():
                self._start_producer()
                batch = self._encode(items)
        self._committed_offsets = None if place is None else place.offsets
        self._call_timeout = _CALL_TIMEOUT_SECONDS
        return batch

    def _write(self, batch: list[OutgoingRecord], place: ResumePoint | None) -> bool:
        try:
            return self._try_transaction(batch, place)
        except _ClientUnusable as lost:
            _log.warning("the cluster answers others, but not this producer (%s): a new one", lost)
            self._call_timeout = min(2 * self._call_timeout, _MAX_CALL_TIMEOUT_SECONDS)
            self._start_producer()
            return self._is_committed(place)

    def _is_committed(self, place: ResumePoint | None) -> bool:
        """Return True if a transaction whose result is unknown was committed, according to the committed offsets."""
        if place is None or self._committed_offsets in (None, place.offsets):
            return False
        config = clients.confluent_config(self._settings.kafka) | {"group.id": self._group_id}
        consumer = confluent_kafka.Consumer(config)
        try:
            committed = clients.committed_offsets(consumer, place.partitions(), _TIMEOUT, self._stopping)
        finally:
            consumer.close()
        return {partition.partition: partition.offset for partition in committed} == dict(place.offsets)

    def _encode(self, items: Iterable[Outcome | Event]) -> list[OutgoingRecord]:
        batch = [encode_outcome(item, self._settings.topics, self._max_record_bytes) for item in items]
        for letter in (record for record in batch if record.is_letter):
            reason = dict(letter.headers)["dlt_message"] or b""
            _log.warning("dead-lettered to %s: %r", letter.topic, reason.decode(errors="replace"))
        return batch

    def _has_new_limits(self) -> bool:
        try:
            states = describe_topics(self._settings, output_topics(self._settings.topics))
        except (clients.ClusterUnavailable, KafkaException) as error:
            _log.warning("the topics' limits are unknown: %s", error)
            return False
        gone = [state.name for state in states if not state.exists]
        if gone:
            _log.warning("no topic %s: waiting until `rebalance-monitor topics --create` creates it", ", ".join(gone))
            return False
        limits = max_record_bytes_by_topic(states)
        changed, self._max_record_bytes = limits != self._max_record_bytes, limits
        return changed

    def _try_transaction(self, batch: list[OutgoingRecord], place: ResumePoint | None) -> bool:
        client = self._producer.client
        try:
            client.begin_transaction()
            for record in batch:
                self._producer.send_record(record.topic, record.key, record.value, record.headers)
            if place is not None:
                arguments = (place.partitions(), place.group, _CALL_TIMEOUT_SHARE * self._call_timeout)
                _call_with_timeout(lambda: client.send_offsets_to_transaction(*arguments), self._call_timeout)
            self._producer.flush(_TIMEOUT)
            self._retry(lambda client, seconds: client.commit_transaction(seconds))
        except (KafkaException, SendFailed, clients.ClusterUnavailable, SystemError) as error:
            # SystemError: confluent-kafka raises a fatal error of librdkafka while it calls back for a record. To
            # abort raises that error again.
            if isinstance(error, KafkaException):
                self._raise_fatal(error)
                problem = error.args[0]
                if problem.retriable() and not problem.txn_requires_abort():
                    # librdkafka issue 5511, when a broker has left the cluster: a new producer finds the others.
                    _log.warning("offsets were not added to the transaction: %s", problem.str())
                    self._start_producer()
                    return False
                if not problem.txn_requires_abort():
                    raise OutsideFailure(f"the cluster refuses the collected events: {problem.str()}") from error
            # The client has no metadata; after a restart of the only broker it may never receive metadata.
            if isinstance(error, clients.ClusterUnavailable) and error.__cause__ is not None and self._is_reachable():
                raise _ClientUnusable(str(error)) from error
            _log.warning("transaction failed: %s", error)
            self._retry(lambda client, seconds: client.abort_transaction(seconds))
            return False
        return True

    def _retry(self, call: Callable[[confluent_kafka.Producer, float], object]) -> None:
        """Call ``call(client, timeout)``, and repeat the call while the cluster does not answer."""
        client = self._producer.client
        attempt_count = 0
        while True:
            try:
                _call_with_timeout(lambda: call(client, _CALL_TIMEOUT_SHARE * self._call_timeout), self._call_timeout)
            except KafkaException as error:
                self._raise_fatal(error)
                problem = error.args[0]
                if not problem.retriable() or problem.txn_requires_abort():
                    raise
                if self._stopping():
                    raise OutsideFailure(f"the cluster does not answer: {problem.str()}") from error
                attempt_count += 1
                if attempt_count > 1 and self._is_reachable():
                    raise _ClientUnusable(problem.str()) from error
                _log.warning("no contact with Kafka (%s): waiting for it", problem.str())
            else:
                return

    def _is_reachable(self) -> bool:
        try:
            clients.check_reachable(self._settings.kafka, timeout=5.0)
        except OutsideFailure:
            return False
        return True

    def _raise_fatal(self, error: KafkaException) -> None:
        problem = error.args[0]
        if (permission_error := refusal(problem, self._settings, "collect")) is not None:
            raise permission_error from error
        fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)  # noqa: SLF001 - librdkafka's own codes are spelled so
        if problem.code() in fenced:
            raise ReplacedByOtherCollector from error
        if problem.fatal() and _OUT_OF_ORDER_TEXT in problem.str():
            raise _ClientUnusable(problem.str()) from error
        if problem.fatal():
            raise OutsideFailure(f"the cluster refuses the collected events: {problem.str()}") from error
