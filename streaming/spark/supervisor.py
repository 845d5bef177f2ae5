"""What the job does next: pure. Messages and the time go in; what to do comes out.

The messages are batches that ended, the topics as the cluster has them, and where partitions end. The query itself
is started and stopped by :mod:`streaming.spark.job`, with the numbers that stand here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from assignors.errors import OutsideFailure
from streaming.kafka.metadata import Contact
from streaming.spark.checkpoint import TopicRecreated, recreated
from streaming.spark.growth import Growth
from streaming.spark.pacing import BatchLimit, Timers
from streaming.spark.topic_ends import Blocked

if TYPE_CHECKING:
    from streaming.kafka.metadata import Identity
    from streaming.spark.options import StreamOptions
    from streaming.spark.progress import BatchReport, Told
    from streaming.spark.topic_ends import Ends

#: How long Spark may take to tell that a batch has ended.
HEARD_SECONDS = 30.0
#: A transaction that is open for so long is reported. The collector's take milliseconds.
OPEN_SECONDS = 10.0


class TopicGone(OutsideFailure):
    """A topic that the job reads or writes was deleted."""


class ListenerSilent(OutsideFailure):
    """Spark runs batches that nothing is heard of: timers would never fire."""


class Do(Enum):
    """What the job is to do now."""

    GO_ON = auto()
    #: Write a tick: a timer is due.
    TICK = auto()
    #: Stop the query, and start it with another limit of events in a batch.
    REFIT = auto()
    #: Stop the query, and start it with all partitions of the membership topic.
    READ_ALL = auto()
    #: Stop the query, and start it with new secrets or certificates.
    RENEW = auto()
    #: Stop the query; a topic seems to be gone: look again.
    CONFIRM = auto()


class Supervisor:
    """Watches over one job. All times are seconds since the epoch.

    Args:
        options: the job's.
        membership: the topic that is read.
        topics: all topics of the job, as they were when it started.
        partitions: how many partitions of the membership topic are read.

    Attributes:
        growth: of the membership topic.
        limit: of a batch's events.
        applied_up_to: all events that were there then are applied, as far as batches that ended tell; None before
            the first.
        log_ends: the next offset of each partition that is read, open transactions included.
        blocked: a transaction that has been open for too long; None without one.
        notes: warnings for whoever runs the job, oldest first; taken by :meth:`take_notes`.
    """

    def __init__(
        self,
        options: StreamOptions,
        membership: str,
        topics: Mapping[str, Identity],
        partitions: int,
    ) -> None:
        self.growth = Growth(membership, partitions)
        self.limit = BatchLimit(options.max_offsets_per_trigger, options.batch_seconds)
        self.applied_up_to: float | None = None
        self._options = options
        self._membership = membership
        self._topics = dict(topics)
        self._timers = Timers()
        self._missing: list[str] = []
        self._heard = self._heard_then = self._owed = -1
        self._asked = float("-inf")
        self._contact = Contact()
        self._notes: list[str] = []
        self.log_ends: Mapping[int, int] = {}
        self.blocked: Blocked | None = None
        #: By partition, its last stable offset while that is not the log's end, and since when.
        self._open: dict[int, tuple[int, float]] = {}

    @property
    def topics(self) -> Sequence[str]:
        """Names of the job's topics."""
        return tuple(self._topics)

    def take_notes(self) -> Sequence[str]:
        """The warnings since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def batch_ended(self, progress: Mapping[str, Any], told: Mapping[int, Told], report: BatchReport) -> None:
        """Take in a batch, or a look of Spark's that found nothing new."""
        self._heard = max(self._heard, -1 if report.number is None else report.number)
        self._timers.report({bucket: one.due for bucket, one in told.items()})
        self.growth.progress(progress, report.at or 0.0)
        self.limit.batch_ended(report.events, report.seconds or 0.0, report.bytes)
        if report.at is not None and (report.number is None or report.lag == 0):
            self.applied_up_to = report.at

    def wants_count(self, now: float) -> bool:
        """Whether it is time to ask Spark for the number of its last batch."""
        return now - self._asked >= HEARD_SECONDS

    def counted(self, batch: int, now: float) -> None:
        """Take in the number of the last batch that Spark has finished.

        Spark tells in its own time: on a busy machine it may be several batches behind.

        Raises:
            ListenerSilent: the one it had finished the last time has not been heard of, nor any other since.
        """
        if self._heard < self._owed and self._heard == self._heard_then:
            raise ListenerSilent(
                f"Spark has finished batch {self._owed}, and {HEARD_SECONDS:g} s later nothing is heard of it. "
                "Start again: the checkpoint has the place and the state"
            )
        self._owed, self._asked, self._heard_then = batch, now, self._heard

    def contact(self, trouble: str | None) -> None:
        """Take in why the cluster did not answer the last question; None when it did."""
        news = self._contact.news(trouble)
        if news is not None:
            self._notes.append(news)

    def topics_seen(self, topics: Mapping[str, Identity | None], now: float) -> None:
        """Take in the topics as they stand; those that are not named are not known.

        Raises:
            TopicRecreated: the membership topic is another one, and the job is not to go on with that.
            TopicGone: a topic that is written is another one.
        """
        self._missing = [name for name, found in topics.items() if found is None and name in self._topics]
        for name, found in topics.items():
            known = self._topics.get(name)
            if found is None or known is None:
                continue
            if name == self._membership:
                if found.topic_id != known.topic_id and self._options.on_data_loss != "continue":
                    raise TopicRecreated(recreated(self._options.checkpoint, name))
                self._grown(found.partitions, now)
            elif found.topic_id != known.topic_id:
                raise TopicGone(remade(name, known, found))

    def still_missing(self) -> None:
        """A second look says the same.

        Raises:
            TopicGone: there are topics that do not exist.
        """
        if self._missing:
            raise TopicGone(deleted(self._missing, self._membership))

    def ends_seen(self, ends: Ends, now: float) -> None:
        """Take in where the partitions that are read ended at ``now``."""
        if self.growth.wants_ends(now):
            self.growth.ends(ends.stable, now)
        self.log_ends = ends.log
        open_now = {number: stable for number, stable in ends.stable.items() if stable < ends.log[number]}
        self._open = {
            number: (stable, since if stable == before else now)
            for number, stable in open_now.items()
            for before, since in [self._open.get(number, (stable, now))]
        }
        late = [
            Blocked(number, offset, since)
            for number, (offset, since) in self._open.items()
            if now - since >= OPEN_SECONDS
        ]
        before, self.blocked = self.blocked, min(late, key=lambda one: one.since, default=None)
        if before is not None and self.blocked is None:
            self._notes.append("the open transaction has ended: the stream reads on")

    @property
    def reached(self) -> float | None:
        """Everything that happened until then is applied, seconds since the epoch; None before the first batch.

        Behind an open transaction nothing is applied, whatever Spark's lag is.
        """
        if self.applied_up_to is None or self.blocked is None:
            return self.applied_up_to
        return min(self.applied_up_to, self.blocked.since)

    @property
    def lag(self) -> int | None:
        """Unread records up to the log's end, in the partition that is furthest behind; None if unknown."""
        read = self.growth.offsets
        behind = [end - read[number] for number, end in self.log_ends.items() if number in read]
        return max(0, *behind) if behind else None

    def next(self, now: float) -> Do:
        """What to do at ``now``; a tick counts as written."""
        if self._missing:
            return Do.CONFIRM
        if self.growth.ready():
            return Do.READ_ALL
        if self.limit.moved():
            return Do.REFIT
        if not self._options.available_now and self._timers.due(now):
            return Do.TICK
        return Do.GO_ON

    def _grown(self, partitions: int, now: float) -> None:
        """Take in how many partitions the membership topic has."""
        if not self.growth.seen(partitions, now):
            return
        was = self.growth.partitions
        self._notes.append(
            f"topic {self._membership} has {partitions} partitions, {was} are read: the new ones follow once the "
            "others are read to where producers left them"
        )
        if not self.growth.in_order:
            self._notes.append(
                f"{partitions} is no multiple of {was}: groups moved between old partitions too, their events "
                "around the change may be read out of order; grow by a whole multiple"
            )


def deleted(names: Sequence[str], membership: str) -> str:
    """That topics are gone, and what to do."""
    which = f"topic {names[0]} was" if len(names) == 1 else f"topics {', '.join(names)} were"
    text = (
        f"{which} deleted while the job ran, and what was written there is gone. Start `stream` again: it makes "
        "what is missing, as `rebalance-monitor topics --create` does, and goes on where it stopped; what was not "
        "yet written is written then"
    )
    if membership in names:
        text += f". As it reads {membership}, it then needs --on-data-loss restart or continue"
    return text


def remade(name: str, known: Identity, found: Identity) -> str:
    """That a topic is another one now, and what to do."""
    text = f"topic {name} was deleted and made again while the job ran, and what was written there is gone. "
    if found.partitions != known.partitions:
        text += (
            f"It has {found.partitions} in place of {known.partitions} partitions: if a broker made it "
            "(auto.create.topics.enable), delete it and run `rebalance-monitor topics --create`. "
        )
    return (
        text + "Start `stream` again: it goes on where it stopped; what was not yet written is written then"
    )
