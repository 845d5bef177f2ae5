"""Decides what the job does next, as a pure function of the ended batches, the cluster's topics and the time."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final

from streaming.kafka.metadata import ContactState, Identity
from streaming.spark.checkpoint import TopicDeleted, recreated_message
from streaming.spark.progress import BatchReport, BucketReport
from streaming.spark.start import StreamOptions
from streaming.spark.topics import TopicEnds

#: Seconds after which an open transaction is reported. The collector's transactions take milliseconds.
REPORT_OPEN_AFTER_SECONDS: Final = 10.0
#: Seconds until all producers use new partitions: a little more than they store a partition count.
GROWTH_CONFIRM_SECONDS: Final = 35.0
#: The most bytes of a batch, and the target after a larger batch: a JVM with 1 GB sorts some 400 MB in memory.
_MAX_BATCH_BYTES: Final = 256 << 20
_TARGET_BATCH_BYTES: Final = 192 << 20
#: The least seconds between two ticks, because a batch needs time to process a tick.
_MIN_TICK_INTERVAL_SECONDS: Final = 0.5


class Action(Enum):
    """Next action of the Spark job; every action except KEEP_RUNNING and TICK restarts the query."""

    KEEP_RUNNING = auto()
    TICK = auto()  # a timer is due
    CHANGE_LIMIT = auto()  # the limit of events per batch
    READ_ALL_PARTITIONS = auto()
    RENEW_SECRETS = auto()
    CONFIRM_TOPICS = auto()  # a topic is missing: describe the topics again


class BatchLimit:
    """The limit of events per batch of a query: lowered after batches of too many bytes, doubled after small ones."""

    def __init__(self, most: int) -> None:
        self.value = self._configured_value = self._next = most

    def add_batch(self, events: int, size: int) -> None:
        """Adapt the limit of later batches to a batch's number of events and the bytes of their values."""
        if not 0 < events <= self.value:
            return  # Spark planned this batch before the limit was lowered
        if size > _MAX_BATCH_BYTES:
            self._next = max(1, events * _TARGET_BATCH_BYTES // size)
        elif events > self.value // 2 and 2 * size <= _MAX_BATCH_BYTES:
            self._next = min(self._configured_value, self.value * 2)

    def has_changed(self) -> bool:
        """Set ``value`` to the limit of the next batches; return True if it changed, so that the query must restart."""
        previous, self.value = self.value, self._next
        return previous != self.value


class PartitionGrowth:
    """Decides when new partitions of the membership topic are read, so that each group's events stay in order.

    A group that hashes to a new partition has older events in an old partition, and neither Kafka nor Spark orders the
    two partitions. So the query reads only the old partitions until producers use the new ones
    (:data:`SETTLE_SECONDS`), and then reads the old partitions to their ends. With growth by a whole multiple (4 → 8)
    every group stays or moves to a new partition. Otherwise groups also move between old partitions, and no reader can
    keep the order of their events. ``target`` is the topic's partition count, and ``partitions`` how many are read.
    ``offsets`` has the next offset of each partition, as of the last batch.
    """

    def __init__(self, topic: str, partitions: int) -> None:
        self.partitions = self.target = partitions
        self.offsets: Mapping[int, int] = {}
        self._topic = topic
        self._ends: Mapping[int, int] | None = None
        self._confirming_since = self._ends_at = self._idle_since = 0.0

    @property
    def is_pending(self) -> bool:
        """True if the topic has new partitions that the stream does not read yet."""
        return self.target > self.partitions

    def set_count(self, partitions: int, now: float) -> bool:
        """Store the topic's present partition count; return True if the count grew."""
        if partitions <= self.target:
            return False
        self.target = partitions
        self._confirming_since, self._ends = now, None
        return True

    def set_end_offsets(self, ends: Mapping[int, int], now: float) -> None:
        """Store the end offsets of the old partitions, once, when all producers must write to the new ones as well."""
        if self.is_pending and self._ends is None and now - self._confirming_since >= GROWTH_CONFIRM_SECONDS:
            self._ends, self._ends_at = dict(ends), now

    def add_progress(self, progress: Mapping[str, Any], at: float) -> None:
        """Store a batch's next offsets or, if the trigger found no records (no ``sources``), its time ``at``."""
        if "sources" not in progress:
            self._idle_since = at
        for source in progress.get("sources", ()):
            offsets = (source.get("endOffset") or {}).get(self._topic)
            if offsets is not None:
                self.offsets = {int(number): int(offset) for number, offset in offsets.items()}

    def is_ready(self) -> bool:
        """True if the old partitions have been read to their ends, so that the stream may read the new partitions."""
        if not self.is_pending or self._ends is None:
            return False
        read = all(self.offsets.get(number, -1) >= end for number, end in self._ends.items())
        return read or self._idle_since > self._ends_at

    def finish(self) -> None:
        """Read all partitions of the topic from now on, including the new ones."""
        self.partitions = self.target
        self._ends = None


class Supervisor:
    """Supervises one job; all times are seconds since the epoch.

    Attributes:
        applied_up_to: all events before this time have been applied; None before the first batch.
        blocked: the partition and first offset of a transaction that is open for too long, or None.
    """

    def __init__(self, options: StreamOptions, topic: str, topics: Mapping[str, Identity], partitions: int) -> None:
        self.growth = PartitionGrowth(topic, partitions)
        self.limit = BatchLimit(options.max_offsets_per_trigger)
        self.applied_up_to: float | None = None
        self.blocked: tuple[int, int] | None = None
        self._options, self._membership, self._topics = options, topic, dict(topics)
        self._contact = ContactState()
        #: When each bucket's next timer is due, in ms since the epoch; 0: no timer.
        self._due_times_ms: dict[int, int] = {}
        self._last_tick = float("-inf")
        self._missing_topics: list[str] = []
        self._warnings: list[str] = []
        #: The end offset of each partition that is read, including open transactions.
        self._log_ends: Mapping[int, int] = {}
        #: When each open transaction (partition, first offset) was first seen.
        self._opened: dict[tuple[int, int], float] = {}

    def take_warnings(self) -> Sequence[str]:
        """Return the supervisor's warnings since the last call, oldest first."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def add_batch(self, progress: Mapping[str, Any], buckets: Mapping[int, BucketReport], report: BatchReport) -> None:
        """Update the supervisor from a batch that has ended, or from a trigger that found no new records."""
        self._due_times_ms |= {number: bucket.due for number, bucket in buckets.items()}
        self.growth.add_progress(progress, report.at or 0.0)
        self.limit.add_batch(report.events, report.bytes)
        if report.at is not None and (report.number is None or report.lag == 0):
            self.applied_up_to = report.at

    def report_contact(self, trouble: str | None) -> None:
        """Record the reason for which the cluster did not answer the last request; None: it answered."""
        if (news := self._contact.news(trouble)) is not None:
            self._warnings.append(news)

    def set_topics(self, topics: Mapping[str, Identity | None], now: float) -> None:
        """Update the job's topics from their descriptions (None: the topic is missing); others are unknown."""
        self._missing_topics = [name for name, current in topics.items() if current is None and name in self._topics]
        for name, current in topics.items():
            previous = self._topics.get(name)
            if current is None or previous is None:
                continue
            if name == self._membership:
                if current.topic_id != previous.topic_id and self._options.on_data_loss != "continue":
                    raise TopicDeleted(recreated_message(self._options.checkpoint, name))
                self._set_partitions(current.partitions, now)
            elif current.topic_id != previous.topic_id:
                raise TopicDeleted(_recreated_output(name, previous, current))

    def require_topics(self) -> None:
        """Raise TopicDeleted if a topic was missing in the last description."""
        names = self._missing_topics
        if not names:
            return
        topics_text = f"topic {names[0]} was" if len(names) == 1 else f"topics {', '.join(names)} were"
        text = (
            f"{topics_text} deleted while the job ran, and what was written there is gone. Start `stream` again: it "
            "creates what is missing, as `rebalance-monitor topics --create` does, and continues where it stopped"
        )
        if self._membership in names:
            text += f". As it reads {self._membership}, it then needs --on-data-loss restart or continue"
        raise TopicDeleted(text)

    def set_end_offsets(self, ends: TopicEnds, now: float) -> None:
        """Store the end offsets of the membership topic, as read at ``now``."""
        self.growth.set_end_offsets(ends.stable, now)
        self._log_ends = ends.log
        opened = [(number, stable) for number, stable in ends.stable.items() if stable < ends.log[number]]
        self._opened = {place: self._opened.get(place, now) for place in opened}
        late = [place for place, since in self._opened.items() if now - since >= REPORT_OPEN_AFTER_SECONDS]
        previous, self.blocked = self.blocked, min(late, key=self._opened.__getitem__, default=None)
        if self.blocked is not None and self.blocked != previous:
            partition, offset = self.blocked
            self._warnings.append(
                f"topic {self._membership}: a transaction is open since offset {offset} of partition {partition}; "
                "records after it can't be read until it ends. "
                "`kafka-transactions.sh find-hanging` and `abort` end one whose producer is gone"
            )
        if self.blocked is None and previous is not None:
            self._warnings.append("the open transaction has ended: the stream continues to read")

    @property
    def reached(self) -> float | None:
        """The time up to which all events are applied, excluding events after the start of an open transaction."""
        return None if self.applied_up_to is None else min([self.applied_up_to, *self._opened.values()])

    @property
    def lag(self) -> int | None:
        """The largest number of unread records in a partition, up to the log's end; None if unknown."""
        read = self.growth.offsets
        behind = [end - read[number] for number, end in self._log_ends.items() if number in read]
        return max(0, *behind) if behind else None

    def next_action(self, now: float) -> Action:
        """Return the Spark job's next action at ``now``; a returned ``TICK`` counts as written from then on."""
        if self._missing_topics:
            return Action.CONFIRM_TOPICS
        if self.growth.is_ready():
            return Action.READ_ALL_PARTITIONS
        if self.limit.has_changed():
            return Action.CHANGE_LIMIT
        if not self._options.available_now and self._tick_is_due(now):
            return Action.TICK
        return Action.KEEP_RUNNING

    def _tick_is_due(self, now: float) -> bool:
        """Return True if a tick is due, by a timer or at the start; the caller must then write the tick."""
        is_due = self._last_tick == float("-inf") or any(0 < ms <= now * 1000 for ms in self._due_times_ms.values())
        if not is_due or now - self._last_tick < _MIN_TICK_INTERVAL_SECONDS:
            return False
        self._last_tick = now
        return True

    def _set_partitions(self, partitions: int, now: float) -> None:
        old = self.growth.partitions
        if not self.growth.set_count(partitions, now):
            return
        self._warnings.append(
            f"topic {self._membership} has {partitions} partitions, {old} are read: the new ones are read "
            "once the old ones are read to their ends"
        )
        if partitions % old:
            self._warnings.append(
                f"{partitions} is not a multiple of {old}: groups moved between old partitions too, their events "
                "around the change may be read out of order; grow by a whole multiple"
            )


def _recreated_output(name: str, previous: Identity, current: Identity) -> str:
    text = f"topic {name} was deleted and created again while the job ran, and what was written there is gone. "
    if current.partitions != previous.partitions:
        text += (
            f"It has {current.partitions} in place of {previous.partitions} partitions: if a broker created it "
            "(auto.create.topics.enable), delete it and run `rebalance-monitor topics --create`. "
        )
    return text + "Start `stream` again: it continues where it stopped"
