"""Random timelines of a group: the true times of consumption, and the evidence that a monitor would get.

First a timeline is drawn: members join, leave, crash and rejoin, alone or all at once, also while the coordinator is
unavailable. The evidence is computed from the timeline: the coordinator's records, offset commits (delayed while the
coordinator is unavailable), callbacks by the members' own clocks, and lines of the coordinator's log.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import NamedTuple

from streaming.collect.coordinator.records import RawRecord
from streaming.collect.fold import CollectedEvent, Fold
from streaming.records.events import AssignmentAcknowledged, Event, GroupObserved, Holding, PartitionsStopped, Stop
from tests.support.epoch_log import topic_id
from tests.support.offsets_topic import commit_key, commit_value

TOPIC = "t"
SESSION_MS = 10_000
START_MS = 1_700_000_000_000
#: Milliseconds between two consumed offsets.
_RECORD_INTERVAL_MS = 20


class Interval(NamedTuple):
    """A period in which a member consumed a partition, from ``start`` to ``end`` (ms).

    The coordinator accepts the member's commits until ``fenced``. From ``given_up_at`` on, the coordinator writes the
    round that revokes the partition.
    """

    partition: int
    member: str
    start: int
    end: int
    commits_at_end: bool
    fenced: int
    given_up_at: int


class SentCommit(NamedTuple):
    """An offset commit with the time when it was sent and the time when it arrived at the coordinator."""

    sent: int
    arrived: int
    partition: int
    offset: int


@dataclass
class Timeline:
    """The true consumption of a group over time, in ms.

    Attributes:
        intervals: times when each partition had a consumer.
        rows: the coordinator's records, in the order in which they were written.
        outages: begin and end of each period in which the coordinator was unavailable.
        callbacks: time, member, generation, revoked and assigned partitions.
        joins: per generation: when members were requested to rejoin, and when all had joined.
        commits: commits that the coordinator accepted, in the order of arrival.
    """

    chance: Random
    partitions: int
    now: int = START_MS
    intervals: list[Interval] = field(default_factory=list)
    rows: list[RawRecord] = field(default_factory=list)
    outages: list[tuple[int, int]] = field(default_factory=list)
    callbacks: list[tuple[int, str, int, list[int], list[int]]] = field(default_factory=list)
    joins: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    commits: list[SentCommit] = field(default_factory=list)
    _starts: dict[int, tuple[str, int]] = field(default_factory=dict)

    def wait(self, least: int, most: int) -> int:
        """Let a random time pass and return the new time."""
        self.now += self.chance.randint(least, most)
        return self.now

    def start(self, partition: int, member: str, at: int) -> None:
        """Let a member consume a partition from ``at`` on, unless the partition is revoked before that time."""
        self._starts[partition] = member, at

    def stop(self, partition: int, at: int, *, fenced: int, commits: bool, given_up_at: int | None = None) -> None:
        """Let a member stop consuming a partition."""
        member, start = self._starts.pop(partition, ("", at))
        if start < at:
            self.intervals.append(
                Interval(partition, member, start, at, commits, fenced, fenced if given_up_at is None else given_up_at)
            )

    def held(self, member: str) -> list[int]:
        """Return the partitions that a member owns at this time or will own next."""
        return sorted(partition for partition, (holder, _) in self._starts.items() if holder == member)

    def end(self) -> None:
        """Let all members consume for a while, then end the timeline."""
        self.now += 20_000
        for partition in [*self._starts]:
            self.stop(partition, self.now, fenced=self.now + 1, commits=True)
        self.intervals.sort(key=lambda interval: (interval.partition, interval.start))
        self.commits = self._sent_commits()

    def _sent_commits(self) -> list[SentCommit]:
        """Return all offset commits that the coordinator accepts, in the order of arrival."""
        every = self.chance.choice([300, 1000, 5000])
        commits = []
        for interval in self.intervals:
            phase = Random(interval.member).randrange(every)
            ticks = [
                at
                for at in range(interval.start - interval.start % every + phase, interval.end, every)
                if at > interval.start
            ]
            for sent in [*ticks, *([interval.end] if interval.commits_at_end else [])]:
                arrived = self._arrival_ms(sent)
                if arrived < interval.fenced:
                    commits.append(
                        SentCommit(sent, arrived, interval.partition, self._offset(interval.partition, sent))
                    )
        return sorted(commits, key=lambda commit: (commit.arrived, commit.sent))

    def _arrival_ms(self, sent: int) -> int:
        for begin, end in self.outages:
            if begin <= sent < end:
                return end + self.chance.randint(0, 60)
        return sent + self.chance.randint(0, 15)

    def _offset(self, partition: int, at: int) -> int:
        """Return the offset up to which a partition is consumed at this time."""
        consuming_ms = sum(
            min(interval.end, at) - interval.start
            for interval in self.intervals
            if interval.partition == partition and interval.start < at
        )
        return consuming_ms // _RECORD_INTERVAL_MS


def events_of(line: Timeline, *, reported: bool, logged: bool, restarts: int) -> list[Event]:
    """Return the membership log that the evidence of a timeline produces.

    Args:
        line: the timeline.
        reported: members report their callbacks, by clocks that are 500 s fast.
        logged: the coordinator's log is read.
        restarts: number of the collector's restarts.
    """
    commits = [
        RawRecord(
            0,
            0,
            commit.arrived,
            commit_key("g", TOPIC, commit.partition),
            commit_value(commit.arrived, offset=commit.offset),
        )
        for commit in line.commits
    ]
    rows = sorted([*line.rows, *commits], key=lambda row: row.timestamp)
    rows = [row._replace(offset=offset) for offset, row in enumerate(rows)]
    reports = [
        (
            at,
            Event(
                "listener/h",
                f"{number}",
                AssignmentAcknowledged(
                    group_id="g",
                    timestamp=at + 500_000,
                    member_id=member,
                    generation=generation,
                    owned={},
                    revoked=_task_holding(revoked),
                    assigned=_task_holding(assigned),
                ),
            ),
        )
        for number, (at, member, generation, revoked, assigned) in enumerate(sorted(line.callbacks))
        if reported
    ]
    events: list[Event] = []
    stops = [*sorted(line.chance.sample(range(len(rows)), min(restarts, len(rows)))), len(rows)]
    start, waiting = 0, iter([*reports, (1 << 62, None)])
    at, report = next(waiting)
    for stop in stops:
        fold = Fold("kafka://c/__consumer_offsets", 0, {topic_id(TOPIC): TOPIC}.__getitem__)
        fold.start = start
        for row in rows[:stop]:
            for item in fold.add(row):
                _publish(events, item, line, logged=logged)
            while report is not None and at < row.timestamp and row.offset >= start:
                events.append(report)
                at, report = next(waiting)
        if stop == len(rows):
            for item in fold.settle():
                _publish(events, item, line, logged=logged)
        start = max(start, stop if fold.open_offset is None else fold.open_offset)
    return events


def _publish(events: list[Event], item: object, line: Timeline, *, logged: bool) -> None:
    assert isinstance(item, CollectedEvent), item
    events.append(item.event)
    data = item.event.data
    if not logged or not isinstance(data, GroupObserved) or data.generation not in line.joins:
        return
    requested, ready = line.joins.pop(data.generation)
    stop = Stop(stopped_before=ready) if requested is None else Stop(stopped_after=requested, stopped_before=ready)
    stopped = PartitionsStopped(
        group_id="g", timestamp=data.timestamp, source="coordinator-log", stops=[stop], generation=data.generation
    )
    events.append(Event("log", f"{item.event.id}/joined", stopped))


def _task_holding(partitions: list[int]) -> Holding:
    return {TOPIC: partitions} if partitions else {}


class UnconsumedPeriod(NamedTuple):
    """A period in which no member consumed a partition; ``end`` None: until the end of the timeline.

    ``is_sure``: commits prove that the partition was consumed before.
    """

    start: int
    end: int | None
    is_sure: bool


def gaps(line: Timeline, partition: int) -> list[UnconsumedPeriod]:
    """Return the true gaps of a partition: its periods without a consumer, after its first commit."""
    offsets: list[SentCommit] = [commit for commit in line.commits if commit.partition == partition]
    proven_ms = next((b.arrived for a, b in pairwise(offsets) if b.offset > a.offset), None)
    partition_intervals = [interval for interval in line.intervals if interval.partition == partition]
    result = []
    for interval, following in pairwise([*partition_intervals, None]):
        if interval is None or proven_ms is None or (following is None and interval.end >= line.now):
            continue
        resumed_at = None if following is None else following.start
        if proven_ms <= (resumed_at or line.now):
            result.append(UnconsumedPeriod(interval.end, resumed_at, proven_ms < interval.given_up_at))
    return result
