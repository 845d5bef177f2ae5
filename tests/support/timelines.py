"""Random lives of a group with the truth of when each partition had a consumer, and the evidence that follows.

A timeline is drawn first: members join, leave, crash and come back, alone or all at once, also while the
coordinator is away. Then the evidence is derived from it: the coordinator's records, offset commits (each as late
as the coordinator lets it arrive), callbacks by a clock of their own, and lines of the coordinator's log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import NamedTuple

from streaming.collect.fold import Fold, Found, Row
from streaming.wire.events import (
    AssignmentAcknowledged,
    Event,
    GroupObserved,
    Holding,
    PartitionsStopped,
    Stop,
)
from tests.support.epoch_log import EpochLog, topic_id
from tests.support.offsets_topic import (
    assignment,
    commit_key,
    commit_value,
    group_key,
    group_value,
    subscription,
)

TOPIC = "t"
SESSION_MS = 10_000
START = 1_700_000_000_000
#: An offset is consumed each so many ms.
_RECORD_MS = 20


class Interval(NamedTuple):
    """A member consumed a partition from ``start`` to ``end``.

    Its commits count until ``fenced``; the round that took the partition away was written at ``taken`` or later.
    """

    partition: int
    member: str
    start: int
    end: int
    commits_at_end: bool
    fenced: int
    taken: int


class Sent(NamedTuple):
    """A commit, when it was sent and when it arrived."""

    sent: int
    arrived: int
    partition: int
    offset: int


@dataclass
class Timeline:
    """What happened to a group, in ms.

    Attributes:
        intervals: when each partition had a consumer.
        rows: the coordinator's records, by the time of their writing.
        outages: when the coordinator was away.
        callbacks: time, member, generation, revoked and assigned partitions.
        joins: by generation, when members were asked to join and when all had.
        commits: those that the coordinator took, in the order of their arrival.
    """

    chance: Random
    partitions: int
    now: int = START
    intervals: list[Interval] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    outages: list[tuple[int, int]] = field(default_factory=list)
    callbacks: list[tuple[int, str, int, list[int], list[int]]] = field(default_factory=list)
    joins: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    commits: list[Sent] = field(default_factory=list)
    _starts: dict[int, tuple[str, int]] = field(default_factory=dict)

    def wait(self, least: int, most: int) -> int:
        """Time passes; the time after it."""
        self.now += self.chance.randint(least, most)
        return self.now

    def start(self, partition: int, member: str, at: int) -> None:
        """A member will consume a partition from ``at`` on, unless it is taken away before."""
        self._starts[partition] = member, at

    def stop(self, partition: int, at: int, *, fenced: int, commits: bool, taken: int | None = None) -> None:
        """The holder of a partition stops."""
        member, start = self._starts.pop(partition, ("", at))
        if start < at:
            self.intervals.append(
                Interval(partition, member, start, at, commits, fenced, fenced if taken is None else taken)
            )

    def held(self, member: str) -> list[int]:
        """The partitions that a member has, or will have."""
        return sorted(one for one, (holder, _) in self._starts.items() if holder == member)

    def end(self) -> None:
        """Let everybody consume for a while."""
        self.now += 20_000
        for partition in [*self._starts]:
            self.stop(partition, self.now, fenced=self.now + 1, commits=True)
        self.intervals.sort(key=lambda one: (one.partition, one.start))
        self.commits = self._sent()

    def _sent(self) -> list[Sent]:
        """All commits that the coordinator takes, in the order of their arrival."""
        every = self.chance.choice([300, 1000, 5000])
        found = []
        for one in self.intervals:
            phase = Random(one.member).randrange(every)
            ticks = [
                at for at in range(one.start - one.start % every + phase, one.end, every) if at > one.start
            ]
            for sent in [*ticks, *([one.end] if one.commits_at_end else [])]:
                arrived = self._arrival(sent)
                if arrived < one.fenced:
                    found.append(Sent(sent, arrived, one.partition, self._offset(one.partition, sent)))
        return sorted(found, key=lambda one: (one.arrived, one.sent))

    def _arrival(self, sent: int) -> int:
        for begin, end in self.outages:
            if begin <= sent < end:
                return end + self.chance.randint(0, 60)
        return sent + self.chance.randint(0, 15)

    def _offset(self, partition: int, at: int) -> int:
        """What has been consumed of a partition by then."""
        spent = sum(
            min(one.end, at) - one.start
            for one in self.intervals
            if one.partition == partition and one.start < at
        )
        return spent // _RECORD_MS


def eager(chance: Random) -> Timeline:
    """A classic group under ``range``, whose members stop everything in each round."""
    line = Timeline(chance, chance.randint(1, 4))
    group = _Eager(line)
    group.join(chance.randint(1, 3))
    for _ in range(chance.randint(1, 6)):
        line.wait(*chance.choice([(1, 300), (500, 5000), (5000, 40_000)]))
        group.step()
    line.end()
    return line


class _Eager:
    def __init__(self, line: Timeline) -> None:
        self.line, self.chance = line, line.chance
        self.members: list[str] = []
        self.generation, self.named = 0, 0

    def step(self) -> None:
        """Something happens to the group."""
        if not self.members:
            self.join(self.chance.randint(1, 3))
            return
        action = self.chance.choice([self.come, self.leave, self.crash, self.restart, self.bounce, self.away])
        action()

    def new(self, count: int) -> list[str]:
        self.named += count
        return [f"m{self.named - place}" for place in range(count)]

    def join(self, count: int) -> None:
        self.round(self.line.now, come=self.new(count))

    def come(self) -> None:
        self.round(self.line.now, come=self.new(1))

    def leave(self) -> None:
        count = self.chance.choice([1, len(self.members)])
        gone = self.chance.sample(self.members, count)
        at = self.line.now
        self.round(at, gone=dict.fromkeys(gone, (at, at + 20, True)))

    def crash(self, begin: int | None = None) -> None:
        """Members die; the coordinator removes them when their sessions are over."""
        count = self.chance.choice([1, len(self.members)])
        died = self.line.now
        over = (died if begin is None else begin) + SESSION_MS
        gone = dict.fromkeys(self.chance.sample(self.members, count), (died, over, False))
        self.round(over, gone=gone)

    def restart(self) -> None:
        """All members die and are back under new ids before their sessions are over."""
        died = self.line.now
        back = died + self.chance.randint(200, SESSION_MS - 1)
        gone = dict.fromkeys(self.members, (died, died + SESSION_MS, False))
        self.round(back, gone=gone, come=self.new(len(gone)), joined=died + SESSION_MS)

    def bounce(self) -> None:
        """A static member is back within its session: the generation is written again, with its new id."""
        died = self.line.now
        old = self.chance.choice(self.members)
        held, at = self.line.held(old), self.line.wait(200, SESSION_MS - 1)
        for one in held:
            self.line.stop(one, died, fenced=at, commits=False)
        new = f"{old.partition('#')[0]}#{self.named}"
        self.named += 1
        self.members[self.members.index(old)] = new
        for one in held:
            self.line.start(one, new, at + self.chance.randint(0, 500))
        self.write(at)

    def away(self) -> None:
        """The coordinator is away for a while; members may die meanwhile."""
        begin = self.line.now
        end = begin + self.chance.randint(500, 30_000)
        self.line.outages.append((begin, end))
        dies = self.chance.random() < 0.6
        self.line.now = self.chance.randint(begin, end) if dies else end
        if dies:
            self.crash(begin=end)

    def round(
        self,
        asked: int,
        *,
        come: list[str] | None = None,
        gone: dict[str, tuple[int, int, bool]] | None = None,
        joined: int = 0,
    ) -> None:
        """Members are asked to join again. ``gone``: when these stopped, and when they were removed."""
        line, gone = self.line, gone or {}
        stays = [one for one in self.members if one not in gone]
        stops = {one: asked + self.chance.randint(0, 3000) for one in stays}
        ready = max([asked + 1, joined, *stops.values(), *(fenced for _, fenced, _ in gone.values())])
        ready += self.chance.randint(1, 50)
        stops |= {one: stopped for one, (stopped, _, _) in gone.items()}
        for member in self.members:
            revoked = line.held(member)
            for one in revoked:
                fenced = ready if member in stays else gone[member][1]
                commits = self.chance.random() < 0.9 and (member in stays or gone[member][2])
                line.stop(one, stops[member], fenced=fenced, commits=commits)
            if member in stays:
                line.callbacks.append((stops[member], member, -1, revoked, []))
        self.members = sorted([*stays, *(come or [])])
        self.generation += 1
        line.now = ready + self.chance.randint(0, 40)
        line.joins[self.generation] = (asked if stays and (come or gone) else None), ready
        shares = self.shares()
        for member in self.members:
            at = line.now + self.chance.choice([1, 50, 800, 3000])
            for one in shares[member]:
                line.start(one, member, at)
            line.callbacks.append((at, member, self.generation, [], shares[member]))
        self.write(line.now)

    def shares(self) -> dict[str, list[int]]:
        count = len(self.members)
        return {
            member: list(
                range(place * self.line.partitions // count, (place + 1) * self.line.partitions // count)
            )
            for place, member in enumerate(self.members)
        }

    def write(self, at: int) -> None:
        said = subscription([TOPIC])
        members = {
            one: (said, assignment({TOPIC: share} if share else {})) for one, share in self.shares().items()
        }
        instances = {one: f"i-{one.partition('#')[0]}" for one in self.members}
        value = group_value(
            self.generation, members, protocol="range" if members else None, instances=instances
        )
        self.line.rows.append(Row(0, 0, at, group_key("g"), value))


def epochs(chance: Random) -> Timeline:
    """A group under KIP-848, whose members give up and get partitions heartbeat by heartbeat."""
    line = Timeline(chance, chance.randint(1, 4))
    group = _Epochs(line)
    group.come()
    for _ in range(chance.randint(1, 6)):
        group.beats(chance.choice([0, 2, 30]))
        line.wait(*chance.choice([(50, 300), (500, 5000), (5000, 40_000)]))
        chance.choice([group.come, group.come, group.leave, group.crash, group.away])()
    group.beats(30)
    line.end()
    return line


class _Epochs:
    def __init__(self, line: Timeline) -> None:
        self.line, self.chance = line, line.chance
        self.log = EpochLog({TOPIC: line.partitions})
        self.named = 0

    def come(self) -> None:
        self.named += 1
        self._write(lambda: self.log.join(f"m{self.named}"))
        self._follow(f"m{self.named}", set())

    def leave(self) -> None:
        members = sorted(self.log.members)
        for one in self.chance.sample(members, self.chance.choice([1, len(members)]) if members else 0):
            self.line.wait(50, 100)
            self._gone(one, self.line.now, commits=True)
            self._write(lambda one=one: self.log.leave(one))  # type: ignore[misc]

    def crash(self, begin: int | None = None) -> None:
        members = sorted(self.log.members)
        dead = self.chance.sample(members, self.chance.choice([1, len(members)]) if members else 0)
        died = self.line.now
        self.line.now = (died if begin is None else begin) + SESSION_MS
        for one in dead:
            self._gone(one, died, commits=False)
        for one in dead:
            self._write(lambda one=one: self.log.leave(one))  # type: ignore[misc]

    def away(self) -> None:
        begin = self.line.wait(60, 100)
        end = begin + self.chance.randint(500, 30_000)
        self.line.outages.append((begin, end))
        if self.chance.random() < 0.6:
            self.line.now = self.chance.randint(begin, end)
            self.crash(begin=end)
        else:
            self.line.now = end

    def beats(self, most: int) -> None:
        """Members send heartbeats, one after the other, until nothing changes."""
        for _ in range(most):
            for one in sorted(self.log.members):
                self.line.wait(50, 600)
                held = {number for _, number in self.log.members[one].held}
                self._write(lambda one=one: self.log.beat(one))  # type: ignore[misc]
                self._follow(one, held)

    def _gone(self, member: str, at: int, *, commits: bool) -> None:
        for partition in self.line.held(member):
            self.line.stop(partition, at, fenced=self.line.now, commits=commits)

    def _follow(self, member: str, held: set[int]) -> None:
        """A member does what the answer to its heartbeat says: within 50 ms, or a while later where it may."""
        now = {number for _, number in self.log.members[member].held}
        for one in held - now:
            stopped = self.line.now + self.chance.randint(0, 49)
            self.line.stop(one, stopped, fenced=self.line.now + 49, commits=True, taken=self.line.now)
        for one in now - held:
            self.line.start(one, member, self.line.now + self.chance.choice([1, 40, 2000]))

    def _write(self, records) -> None:  # type: ignore[no-untyped-def]
        self.log.now = self.line.now
        self.line.rows += [replace(row, timestamp=self.line.now) for row in records()]


def events_of(line: Timeline, *, reported: bool, logged: bool, restarts: int) -> list[Event]:
    """The membership log of a timeline.

    Args:
        line: the timeline.
        reported: whether members report their callbacks, by clocks that are 500 s fast.
        logged: whether the coordinator's log is read.
        restarts: how often the collector is started again.
    """
    commits = [
        Row(
            0,
            0,
            one.arrived,
            commit_key("g", TOPIC, one.partition),
            commit_value(one.arrived, offset=one.offset),
        )
        for one in line.commits
    ]
    rows = sorted([*line.rows, *commits], key=lambda row: row.timestamp)
    rows = [replace(row, offset=offset) for offset, row in enumerate(rows)]
    told = [
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
                    revoked=_holding(revoked),
                    assigned=_holding(assigned),
                ),
            ),
        )
        for number, (at, member, generation, revoked, assigned) in enumerate(sorted(line.callbacks))
        if reported
    ]
    events: list[Event] = []
    stops = [*sorted(line.chance.sample(range(len(rows)), min(restarts, len(rows)))), len(rows)]
    start, waiting = 0, iter([*told, (1 << 62, None)])
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
    assert isinstance(item, Found), item
    events.append(item.event)
    data = item.event.data
    if not logged or not isinstance(data, GroupObserved) or data.generation not in line.joins:
        return
    asked, ready = line.joins.pop(data.generation)
    stop = Stop(stopped_before=ready) if asked is None else Stop(stopped_after=asked, stopped_before=ready)
    said = PartitionsStopped(
        group_id="g",
        timestamp=data.timestamp,
        source="coordinator-log",
        stops=[stop],
        generation=data.generation,
    )
    events.append(Event("log", f"{item.event.id}/joined", said))


def _holding(partitions: list[int]) -> Holding:
    return {TOPIC: partitions} if partitions else {}


class Gap(NamedTuple):
    """A partition had no consumer; ``end`` None: until the end. ``is_sure``: its consumption was proved before."""

    start: int
    end: int | None
    is_sure: bool


def gaps(line: Timeline, partition: int) -> list[Gap]:
    """The truth about a partition: the times without a consumer after a commit has proved that it had one."""
    offsets: list[Sent] = [one for one in line.commits if one.partition == partition]
    proved = next((b.arrived for a, b in pairwise(offsets) if b.offset > a.offset), None)
    mine = [one for one in line.intervals if one.partition == partition]
    found = []
    for one, other in pairwise([*mine, None]):
        if one is None or proved is None or (other is None and one.end >= line.now):
            continue
        resumed = None if other is None else other.start
        if proved <= (resumed or line.now):
            found.append(Gap(one.end, resumed, proved < one.taken))
    return found
