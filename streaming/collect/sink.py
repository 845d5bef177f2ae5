"""Where the collector writes: events, dead letters and its own place, in one transaction each time.

A transaction makes "published" and "read up to here" one step: after any crash the collector goes on exactly
behind what is published. Readers of the membership topic must read committed records only (librdkafka's
default; Java and Spark: ``isolation.level=read_committed``), else they may see a batch that was given up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from assignors.errors import OutsideFailure
from streaming.collect.fold import Unusable
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.producer import EventProducer, NotDelivered
from streaming.wire.dead_letters import dead_letter_headers
from streaming.wire.events import Event

if TYPE_CHECKING:
    from confluent_kafka import KafkaException

    from streaming.settings.config import Settings

_log = logging.getLogger(__name__)
OFFSETS_TOPIC = "__consumer_offsets"
_TIMEOUT = 30.0
_OFFSETS_TIMEOUT = 15.0
_RETRY_SECONDS = 0.5


class Superseded(OutsideFailure):
    """Another collector with the same group id has taken over; run one, or give it a group_id of its own."""


class NotPublished(OutsideFailure):
    """The cluster does not take what was collected."""


class Sink:
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
        self._producer = self._begin()

    def _begin(self) -> EventProducer:
        """A new producer under the collector's name; what an earlier one had open is aborted."""
        producer = EventProducer(
            self._settings,
            {
                "transactional.id": self._group_id,
                "transaction.timeout.ms": 60_000,
                # With "rebootstrap" a restarted broker is decommissioned first, and adding offsets to a
                # transaction then waits for it for ever (librdkafka issue 5511).
                "metadata.recovery.strategy": "none",
            },
        )
        self._retry(lambda: producer.client.init_transactions(_TIMEOUT))
        return producer

    def publish(
        self, outcome: Iterable[tuple[int, Event | Unusable]], positions: Mapping[int, int], group: Any
    ) -> None:
        """Write a batch and the place behind it.

        Args:
            outcome: events and records that could not be used, each with its source partition.
            positions: source partition → next offset to read.
            group: the consumer's group metadata.

        Raises:
            Superseded: another collector has taken over.
            NotPublished: the cluster refuses, or does not answer while this process is asked to stop.
        """
        items = list(outcome)
        while not self._once(items, positions, group):
            _log.warning("the transaction was aborted; writing the batch again")
            if self._stopping():
                raise NotPublished(
                    "the cluster did not take the last batch; it is read again at the next start"
                )
            time.sleep(_RETRY_SECONDS)

    def _once(
        self, items: list[tuple[int, Event | Unusable]], positions: Mapping[int, int], group: Any
    ) -> bool:
        """One try; False when the transaction was aborted and can be repeated."""
        from confluent_kafka import KafkaException, TopicPartition

        client = self._producer.client
        try:
            client.begin_transaction()
            for number, item in items:
                if isinstance(item, Event):
                    self._producer.send(item)
                else:
                    self._dead_letter(item, number)
            places = [TopicPartition(OFFSETS_TOPIC, number, offset) for number, offset in positions.items()]
            client.send_offsets_to_transaction(places, group, _OFFSETS_TIMEOUT)
            self._producer.flush(_TIMEOUT)
            self._retry(lambda: client.commit_transaction(_TIMEOUT))
        except (KafkaException, NotDelivered, ClusterUnavailable) as error:
            if isinstance(error, KafkaException):
                self._raise_fatal(error)
                if error.args[0].retriable() and not error.args[0].txn_requires_abort():
                    # The same issue, when a broker has left the cluster: a new producer finds the others.
                    _log.warning("offsets were not added to the transaction: %s", error.args[0].str())
                    self._producer = self._begin()
                    return False
                if not error.args[0].txn_requires_abort():
                    raise NotPublished(
                        f"the cluster refuses what was collected: {error.args[0].str()}"
                    ) from error
            _log.warning("transaction failed: %s", error)
            self._retry(lambda: client.abort_transaction(_TIMEOUT))
            return False
        return True

    def _dead_letter(self, item: Unusable, partition: int) -> None:
        headers = dead_letter_headers(
            None, item.error, topic=OFFSETS_TOPIC, partition=partition, offset=item.row.offset
        )
        self._producer.send_record(self._settings.topics.dead_letters, item.row.key, item.row.value, headers)

    def _retry(self, call: Callable[[], object]) -> None:
        """Repeat a call while the cluster is away."""
        from confluent_kafka import KafkaException

        while True:
            try:
                call()
            except KafkaException as error:
                self._raise_fatal(error)
                if not error.args[0].retriable() or error.args[0].txn_requires_abort():
                    raise
                if self._stopping():
                    raise NotPublished(f"the cluster does not answer: {error.args[0].str()}") from error
                _log.warning("waiting for the cluster: %s", error.args[0].str())
            else:
                return

    def _raise_fatal(self, error: KafkaException) -> None:
        from confluent_kafka import KafkaError

        problem = error.args[0]
        fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)  # noqa: SLF001 - librdkafka's own codes are spelled so
        if problem.code() in fenced:
            raise Superseded from error
        if problem.fatal():
            raise NotPublished(f"the cluster refuses what was collected: {problem.str()}") from error
