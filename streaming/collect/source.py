"""Reads the offsets topic, and returns its events and the offsets to resume from.

The compacted topic is read from its beginning at each start, to rebuild the state of every group. Outcomes of records
before the committed offset were published by an earlier collector and are not returned again.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from streaming.collect.coordinator.records import OFFSETS_TOPIC, RawRecord
from streaming.collect.fold import Fold, Outcome
from streaming.collect.followed_group import COALESCE_MS
from streaming.collect.rebalances import KnownGroup
from streaming.kafka import metadata
from streaming.kafka.clients import ClusterUnavailable, committed_offsets, reader_config
from streaming.kafka.metadata import ContactState, EndOffsets, IdentityWatch, OffsetRequest
from streaming.records.events import GroupObserved
from streaming.settings.connection import KafkaSettings

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
_MAX_BATCH_RECORDS = 2000
_TIMEOUT = 30.0
#: Seconds between two checks that the cluster answers, while no records arrive.
_IDENTITY_CHECK_SECONDS = 2.0
#: The metadata of a committed offset if snapshots of its partition wait to be published.
_HELD_TAG = "held"


class ResumePoint(NamedTuple):
    """Offsets from which the consumer ``group`` resumes, by partition; ``held``: partitions with waiting snapshots."""

    offsets: Mapping[int, int]
    group: Any
    held: frozenset[int] = frozenset()

    def partitions(self) -> list[TopicPartition]:
        """Return the offsets as the ``TopicPartition`` list that the client commits."""
        offsets = self.offsets.items()
        return [TopicPartition(OFFSETS_TOPIC, n, offset, _HELD_TAG if n in self.held else "") for n, offset in offsets]


class OffsetsBatch(NamedTuple):
    """Result of one read of the offsets topic; ``outcomes``: events and rejected records.

    Attributes:
        place: the offsets to resume from once the outcomes are published.
        lag: the number of unread records.
        behind: the number of partitions that have not been read to their end since the start.
        is_current: every partition's leader has returned the end offset; otherwise records may be missing.
    """

    outcomes: list[Outcome]
    place: ResumePoint
    records: int
    lag: int
    behind: int
    is_current: bool = True

    @property
    def is_up_to_date(self) -> bool:
        """True if the next read of the offsets topic reaches the end of every partition."""
        return self.is_current and self.behind == 0 and self.lag <= _MAX_BATCH_RECORDS


@dataclass(slots=True)
class _Partition:
    """A partition of the offsets topic: its converter to events, next offset, and the time (s) its end was reached.

    ``reached`` is the offset from which reading continues; it also skips the control records of transactions.
    """

    fold: Fold
    next_offset: int | None = None
    reached: int = 0
    reached_end_at: float | None = None
    behind: bool = True

    @property
    def place(self) -> int:
        """The offset to commit, which never decreases, even while old records are read again."""
        open_offset = self.fold.open_offset
        return max(self.fold.start, (self.next_offset or 0) if open_offset is None else open_offset)

    def take(self, message: Message) -> list[Outcome]:
        """Add the next record; if its timestamp is new, return the events and rejected records of earlier records."""
        number, offset, leader_epoch = message.partition() or 0, message.offset() or 0, message.leader_epoch()
        if offset < self.reached:  # librdkafka has detected lost records, and reads the partition again
            _log.warning(
                "%s partition %d: was read to %d and has lost records; read again from %d",
                OFFSETS_TOPIC,
                number,
                self.reached,
                offset,
            )
        self.reached_end_at = None
        self.next_offset = self.reached = offset + 1
        epoch = -1 if leader_epoch is None else leader_epoch
        return self.fold.add(RawRecord(number, offset, message.timestamp()[1], message.key(), message.value(), epoch))


class OffsetsTopic:
    """Reads ``__consumer_offsets``; waits for the topic if the cluster has never had a group.

    ``waiting`` is called repeatedly while the topic does not exist. ``on_fetch`` is called before the records of a read
    are used; its argument is True if all these records were in the log at the start.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        group_id: str,
        stop: threading.Event,
        fold: Callable[[int], Fold],
        *,
        waiting: Callable[[], None] = lambda: None,
        on_fetch: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._kafka, self._group_id, self._stop = kafka, group_id, stop
        self._report_waiting, self._on_fetch = waiting, on_fetch
        self._partitions: dict[int, _Partition] = {}
        self._watch = IdentityWatch(kafka, [OFFSETS_TOPIC], interval_s=_IDENTITY_CHECK_SECONDS)
        self._contact = ContactState()
        self._lagging_since: float | None = None
        self._ends = EndOffsets(kafka, ())
        self._end_offsets_at_start: dict[int, int] = {}
        self._consumer = self._connect()
        # Constant while partitions are assigned by hand. The call waits for librdkafka's main thread while it holds
        # Python's interpreter lock (confluent-kafka, Consumer.c), so it has no place in a loop.
        self._group = self._consumer.consumer_group_metadata()
        try:
            self._begin_reading(fold)
        except BaseException:
            self._consumer.close()
            raise

    def _connect(self) -> confluent_kafka.Consumer:
        # Open transactions may hold offset commits back; membership records are never in transactions.
        isolation_config = {"isolation.level": "read_uncommitted"}
        return confluent_kafka.Consumer(reader_config(self._kafka, self._group_id) | isolation_config)

    def read(self, settle_seconds: float = 0.05, flush_seconds: float = COALESCE_MS / 1000) -> OffsetsBatch:
        """Read the topic once; return the events and rejected records of complete runs (records with one timestamp).

        After ``settle_seconds`` at the end of a partition the log has all records of the last millisecond, so the
        last run of records counts as complete; after ``flush_seconds`` every waiting snapshot is returned.
        """
        messages = self._consumer.consume(_MAX_BATCH_RECORDS, _POLL_SECONDS)
        self._on_fetch(all(m.error() or m.offset() < self._end_offsets_at_start[m.partition()] for m in messages))
        outcomes: list[Outcome] = []
        records = 0
        for message in messages:
            if message.error() is not None:
                self._handle_error(message)
            else:
                records += 1
                outcomes += self._partitions[message.partition()].take(message)
        now = time.monotonic()
        for partition in self._partitions.values():
            if partition.reached_end_at is None:
                continue
            idle_seconds = now - partition.reached_end_at
            if idle_seconds >= settle_seconds:
                outcomes += partition.fold.settle()
            if idle_seconds >= max(settle_seconds, flush_seconds):
                partition.reached_end_at = None
                outcomes += partition.fold.flush()
        if records:
            self._lagging_since = None
        else:
            self._replace_stuck_client(now)
        behind = sum(partition.behind for partition in self._partitions.values())
        read = [(number, entry) for number, entry in self._partitions.items() if entry.next_offset is not None]
        held = frozenset(number for number, partition in read if partition.fold.held)
        place = ResumePoint({number: partition.place for number, partition in read}, self._group, held)
        return OffsetsBatch(outcomes, place, records, self._total_lag(now), behind, self._ends.are_current(now))

    def _handle_error(self, message: Message) -> None:
        error: Any = message.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
            partition = self._partitions[message.partition()]
            partition.reached_end_at, partition.behind = time.monotonic(), False
            partition.reached = max(partition.reached, message.offset())
        elif error.name() == "TOPIC_AUTHORIZATION_FAILED":
            raise KafkaException(error)
        elif error.fatal():
            raise ClusterUnavailable(f"{OFFSETS_TOPIC}: {error.str()}")
        else:  # the error may not belong to a partition
            _log.warning("%s: %s", OFFSETS_TOPIC, error.str())

    @property
    def away(self) -> bool:
        """True if the cluster did not answer the last request; requests are sent only while no records arrive."""
        return self._watch.trouble is not None

    def snapshots(self) -> dict[str, GroupObserved]:
        """Return the last published snapshot of each group, by group id."""
        folds = (partition.fold for partition in self._partitions.values())
        return {group_id: snapshot for fold in folds for group_id, snapshot in fold.snapshots().items()}

    def group(self, group_id: str) -> KnownGroup | None:
        """Return a group's last snapshot with its offset commits; None if the group has no snapshot."""
        for fold in (partition.fold for partition in self._partitions.values()):
            group = fold.groups.get(group_id)
            if group is not None and group.published is not None:
                committed = fold.committed.get(group_id, {})
                return KnownGroup(group.published, group.owners.last_commit, committed, group.owners.intervals)
        return None

    def groups(self) -> list[str]:
        """Return the ids of all groups."""
        return [group_id for partition in self._partitions.values() for group_id in partition.fold.groups]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _total_lag(self, now: float) -> int:
        ends = self._ends.poll(now)
        return sum(
            max(0, ends.get((OFFSETS_TOPIC, number), 0) - partition.reached)
            for number, partition in self._partitions.items()
        )

    def _replace_stuck_client(self, now: float) -> None:
        """Replace a client that received no records for ``STALL_SECONDS`` although leaders have more records.

        librdkafka may lose all its brokers at once (:mod:`streaming.kafka.metadata`).
        """
        answer = self._watch.poll(now)
        if (news := self._contact.news(self._watch.trouble)) is not None:
            _log.warning("%s", news)
        if answer is None:
            return
        lagging_since = self._lagging_since or now
        self._lagging_since = lagging_since if self._total_lag(now) else None
        if self._lagging_since is None or now - lagging_since < metadata.STALL_SECONDS:
            return
        self._lagging_since = None
        _log.warning("%s: no record arrives, though it has more: using a new client", OFFSETS_TOPIC)
        self._consumer.close()
        self._consumer = self._connect()
        self._consumer.assign(
            [TopicPartition(OFFSETS_TOPIC, number, partition.reached) for number, partition in self._partitions.items()]
        )

    def _begin_reading(self, fold: Callable[[int], Fold]) -> None:
        numbers: list[int] = []
        while not numbers and not self._stop.is_set():
            topic = self._consumer.list_topics(OFFSETS_TOPIC, timeout=_TIMEOUT).topics[OFFSETS_TOPIC]
            numbers = sorted(topic.partitions) if topic.error is None else []
            if not numbers:
                self._report_waiting()
                self._stop.wait(0.2)
        places = [(OFFSETS_TOPIC, number) for number in numbers]
        ends = OffsetRequest(self._kafka).wait(places)
        self._end_offsets_at_start = {number: ends.get((OFFSETS_TOPIC, number), 0) for number in numbers}
        wanted = [TopicPartition(*place) for place in places]
        for kept in committed_offsets(self._consumer, wanted, _TIMEOUT, self._stop.is_set) if wanted else ():
            # A partition without a leader has its committed offset again once it has a leader.
            end = ends.get((OFFSETS_TOPIC, kept.partition), kept.offset)
            if end < kept.offset:
                _log.warning(
                    "%s partition %d: ends at %d, before %d: records were lost; going on at its end",
                    OFFSETS_TOPIC,
                    kept.partition,
                    end,
                    kept.offset,
                )
            partition = self._partitions[kept.partition] = _Partition(fold(kept.partition))
            partition.fold.start, partition.fold.was_pending = max(0, min(end, kept.offset)), kept.metadata == _HELD_TAG
        self._ends = EndOffsets(self._kafka, places)
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        _log.info("following %d partitions of %s as %s", len(numbers), OFFSETS_TOPIC, self._group_id)
