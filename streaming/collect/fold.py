"""One partition of the offsets topic, folded into events. No client, no clock.

The coordinator gives all records of one write one timestamp, and a join is one record under the classic protocol,
five to many under others. So consecutive records with the same timestamp (a *run*) are taken together: each group
in it is published once, as it is after the run, under the offset of its last record there. (Classic generations are
one record each and all published.)

A large group with epochs that is in flux would be published with each of its members' steps. Its snapshots are
coalesced: one in :data:`COALESCE_MS` of record time. The last one is published once the group is stable, once a
later record shows that the time has passed, or by :meth:`Fold.flush`. So what is published is a function of the
partition's log from where publishing begins, but for the moments of flushing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from assignors.errors import MonitorError
from streaming.collect.commits import SOURCE, ended, infer
from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.consumer import ConsumerGroup
from streaming.collect.coordinator.groups import GONE, CoordinatedGroup, apply, head, view
from streaming.collect.coordinator.parts import TopicNames, named
from streaming.collect.coordinator.records import (
    OffsetCommit,
    Other,
    committing,
    decode,
    offset_and_time,
    place,
)
from streaming.collect.counts import subscribed
from streaming.collect.encoding import MalformedRecord
from streaming.collect.holdings import CoordinatorActivity, Holdings
from streaming.collect.passing import Commit
from streaming.collect.scheduled import due
from streaming.wire.events import (
    COORDINATOR_MOVED,
    GROUP_CREATED,
    MAX_TIMESTAMP,
    Event,
    EventData,
    Evidence,
    GroupDeleted,
    GroupObserved,
    PartitionsStopped,
)

OFFSETS_TOPIC = "__consumer_offsets"
#: A rebalance within so long of a move of the coordinator may follow from it: twice the default session timeout.
_MOVE_MS = 90_000
#: Evidence for the first generation of a new group where the ones before were overtaken before they were written.
_CREATED = Evidence(
    source="group-records", reason="the group's first record has no generation: it is new", kind=GROUP_CREATED
)
#: Groups of more members are large.
LARGE: Final = 100
#: The least time between two snapshots of a large group in flux, ms of record time.
COALESCE_MS: Final = 1000
#: States in which a group with epochs is not in flux.
_SETTLED: Final = ("Stable", "Empty")


@dataclass(frozen=True, slots=True)
class Row:
    """One record as it stands in the offsets topic; ``timestamp`` in ms, ``leader_epoch`` −1 where unknown."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Found:
    """An event, and the record that it follows from: the last of its run.

    ``after``: the generation, or epoch, of the group's view before; None where there was none.
    """

    row: Row
    event: Event
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Unusable:
    """A record that could not be used, and why."""

    row: Row
    error: MonitorError


Outcome = Found | Unusable


@dataclass(slots=True)
class _Known:
    """A group between runs.

    Attributes:
        group: its records folded.
        seen: the last published snapshot.
        published_at: record time at which it was published, ms.
        holdings: its commits.
        leader_epoch: of the partition's leader, which is the coordinator, at the last record that it followed from.
        is_new: its record without a generation was read: all its generations come after.
        held: the last record of a snapshot that waits to be published; None: none does.
        evidence: what is known of members that have gone since ``seen``, while a snapshot waits.
    """

    group: CoordinatedGroup = GONE
    seen: GroupObserved | None = None
    published_at: int = 0
    holdings: Holdings = field(default_factory=Holdings)
    leader_epoch: int = -1
    is_new: bool = False
    held: Row | None = None
    evidence: list[Evidence] = field(default_factory=list)

    @property
    def number(self) -> int | None:
        """The generation, or epoch, of the last published snapshot."""
        seen = self.seen
        return None if seen is None else seen.group_epoch if seen.counts_epochs else seen.generation


class Fold:
    """Folds one partition.

    A record that can't be used changes nothing: its group stays as it was, and the records after it are used. Where
    that was a generation, the next one says nothing of why members went meanwhile.

    Args:
        source: ``ce_source`` of its events.
        partition: its number.
        names: topic id → topic name.
        wanted: whether a group is followed; records of others are not read further than their key.
        surely_alive_ms: see :func:`streaming.collect.commits.infer`.
    """

    def __init__(
        self,
        source: str,
        partition: int,
        names: TopicNames,
        wanted: Callable[[str], bool] = lambda _: True,
        surely_alive_ms: int | None = None,
    ) -> None:
        self._source, self._partition = source, partition
        self._names, self._wanted, self._surely_alive_ms = names, wanted, surely_alive_ms
        #: Outcomes of records before this offset were published by an earlier collector: they are not handed out.
        self.start = 0
        self._leader_epoch, self._leads_since = -1, 0
        #: Whether a snapshot waited when that collector had read up to there.
        self.held_at_start = False
        self._has_begun = False
        self._known: dict[str, _Known] = {}
        #: The same by the bytes of group ids. Of other groups' commits none counts.
        self.followed: dict[bytes, _Known] = {}
        self._activity = CoordinatorActivity()
        self._timestamp: int | None = None
        self._touched: dict[str, Row] = {}
        self._resumed: dict[str, Row] = {}
        self._held: set[str] = set()
        self._out: list[Outcome] = []
        #: Offset of the first record whose outcome has not been handed out; None if there is none.
        self.open_offset: int | None = None

    def lead(self, leader_epoch: int | None, timestamp: int) -> None:
        """Take the epoch of the partition's leader, by which one of its records was written at this time, ms."""
        if leader_epoch is not None and leader_epoch > self._leader_epoch:
            self._leader_epoch, self._leads_since = leader_epoch, timestamp

    def add(self, row: Row) -> list[Outcome]:
        """Take the next record; returns the outcome of the run that it ends, if it ends one."""
        outcome = self.settle() if row.timestamp != self._timestamp else []
        outcome += self._release(row.timestamp)
        if row.offset >= self.start:
            self._begin()
        self._timestamp = row.timestamp
        self.lead(row.leader_epoch, row.timestamp)
        if self.open_offset is None:
            self.open_offset = row.offset
        try:
            self._take(row)
        except MonitorError as error:
            self._out.append(Unusable(row, error))
        return outcome

    def committed(self, commits: Iterable[Commit]) -> Commit | None:
        """Take commits of followed groups, up to one that shows a partition to be consumed again.

        Returns:
            That one, to be told by :meth:`resumed`; None: nothing follows from them.
        """
        for commit in commits:
            _, group, topic, partition, when, offset = commit
            if self._commit(self.followed[group], topic, partition, when, offset):
                return commit
        return None

    def resumed(self, group: bytes, row: Row) -> None:
        """What the commit in this row shows is told with its run."""
        self._timestamp = row.timestamp
        if self.open_offset is None:
            self.open_offset = row.offset
        self._resumed[group.decode()] = row

    def passed(self, row: Row) -> list[Outcome] | None:
        """:meth:`add` for offset commits in the layout that brokers write, from which mostly nothing follows.

        Returns:
            As :meth:`add`; None, and nothing is changed, where the record is another: it is to be added.
        """
        group = committing(row.key, row.value)
        if group is None or row.key is None:
            return None
        outcome = self.settle() if self.open_offset is not None and row.timestamp != self._timestamp else []
        outcome += self._release(row.timestamp)
        known = self.followed.get(group)
        if known is None:
            return outcome
        topic, partition = place(row.key, group)
        committed, at = (None, None) if row.value is None else offset_and_time(row.value)
        if self._commit(known, topic, partition, at, committed):
            self.resumed(group, row)
        return outcome

    def settle(self) -> list[Outcome]:
        """The outcome of the run so far: nothing more of it is in the log."""
        for group_id, row in self._resumed.items():
            self._witness(group_id, row)
        self._resumed.clear()
        for group_id, row in self._touched.items():
            if self._may_wait(self._known[group_id], row):
                self._hold(group_id, row)
            else:
                self._publish(group_id, row)
        self._touched = {}
        self._timestamp = None
        self.open_offset = None
        return self._outcomes(self.start)

    @property
    def holds(self) -> bool:
        """Whether a snapshot waits to be published."""
        return bool(self._held)

    def flush(self) -> list[Outcome]:
        """The snapshots that wait, where nothing came for so long that nothing may come."""
        self._begin()
        return self._let_out([*self._held])

    def _release(self, timestamp: int) -> list[Outcome]:
        """The snapshots that have waited for long enough at this time of a record."""
        if not self._held:
            return []
        due = [one for one in self._held if not _is_early(self._known[one], timestamp)]
        outcomes = self._let_out(due)
        for group_id in due:
            self._known[group_id].published_at = timestamp
        return outcomes

    def _let_out(self, group_ids: Iterable[str]) -> list[Outcome]:
        held = [(row, one) for one in group_ids if (row := self._known[one].held) is not None]
        for row, group_id in sorted(held, key=lambda one: one[0].offset):
            self._publish(group_id, row)
        return self._outcomes(0 if self._has_begun else self.start)

    def _begin(self) -> None:
        """Hand out what follows: what waited before that was published, unless it is known to have waited still."""
        if not self._has_begun and not self.held_at_start:
            self._let_out([*self._held])
        self._has_begun = True

    def _outcomes(self, start: int) -> list[Outcome]:
        outcome, self._out = [one for one in self._out if one.row.offset >= start], []
        return outcome

    def subscriptions(self) -> dict[str, frozenset[str]]:
        """The topics that each group's members subscribe to, as last published."""
        return {
            group_id: subscribed(known.seen)
            for group_id, known in self._known.items()
            if known.seen is not None
        }

    def _take(self, row: Row) -> None:
        record = decode(row.key, row.value, self._wanted)
        if isinstance(record, Other):
            return
        group_id = record.group_id
        known = self._known.get(group_id)
        if isinstance(record, OffsetCommit):
            if known is not None and self._commit(
                known, record.topic, record.partition, record.timestamp, record.offset
            ):
                self._resumed[group_id] = row
            return
        if not 0 <= row.timestamp <= MAX_TIMESTAMP:
            raise MalformedRecord(f"timestamp: {row.timestamp} is no time in milliseconds")
        self._activity.wrote(row.timestamp)
        if known is None:
            known = _Known()
            self._known[group_id] = self.followed[group_id.encode()] = known
        after = apply(known.group, record)
        if isinstance(record, ClassicGroup) and group_id in self._touched and known.group.classic is not None:
            self._publish(group_id, self._touched.pop(group_id))
        known.group = after
        if after.classic is not None and after.classic.number <= 0 and not after.classic.members:
            known.is_new = True
        self._touched[group_id] = row

    def _commit(
        self, known: _Known, topic: str, partition: int, timestamp: int | None, offset: int | None
    ) -> bool:
        """Take a commit of a followed group. True if it proves that a partition is consumed again."""
        sent_after = None
        if timestamp is not None and 0 <= timestamp <= MAX_TIMESTAMP:
            self._activity.wrote(timestamp)
            sent_after = self._activity.sent_after(timestamp)
        return known.holdings.commit(topic, partition, timestamp, offset, sent_after=sent_after)

    def _witness(self, group_id: str, row: Row) -> None:
        """Tell that commits, the last one in this row, show partitions to be consumed again."""
        known = self._known[group_id]
        if known.seen is None or not 0 <= row.timestamp <= MAX_TIMESTAMP:
            return
        for number, stops in known.holdings.resumed().items():
            epochs = known.seen.counts_epochs
            data = PartitionsStopped(
                group_id=group_id,
                timestamp=row.timestamp,
                source=SOURCE,
                stops=stops,
                generation=None if epochs else number,
                group_epoch=number if epochs else None,
            )
            event = Event(self._source, f"{self._partition}:{row.offset}/stopped/{number}", data)
            self._out.append(Found(row, event))

    def _may_wait(self, known: _Known, row: Row) -> bool:
        """Whether the group is large, in flux, and was published less than :data:`COALESCE_MS` ago."""
        group, seen = known.group.parted, known.seen
        if group is None or seen is None or not seen.counts_epochs or len(group.subscriptions) <= LARGE:
            return False
        now = head("", group, row.timestamp)
        return now is not None and now.state not in _SETTLED and _is_early(known, row.timestamp)

    def _hold(self, group_id: str, row: Row) -> None:
        """Let a snapshot wait. Who holds what is noted at once: commits that follow are compared with it."""
        known = self._known[group_id]
        group, seen = known.group.parted, known.seen
        now = None if group is None else head(group_id, group, row.timestamp)
        if group is None or seen is None or now is None:
            return
        known.held = row
        self._held.add(group_id)
        gone = group.touched - group.subscriptions.keys()
        if gone:
            static = {getattr(one, "group_instance_id", None) for one in group.subscriptions.values()} - {
                None
            }
            members = [
                one for one in seen.members if one.member_id in gone and one.group_instance_id not in static
            ]
            known.evidence += ended(members, now, known.holdings, self._surely_alive_ms)
        if not isinstance(group, ConsumerGroup):
            return  # nobody commits for tasks, and partitions of share groups have several holders
        shares = {
            one: named(group.currents[one].assigned, self._names) if one in group.currents else None
            for one in sorted(group.touched)
        }
        known.holdings.change(now.group_epoch or 0, row.timestamp, shares)
        group.touched.clear()

    def _publish(self, group_id: str, row: Row) -> None:
        known = self._known[group_id]
        self._held.discard(group_id)
        known.held = None
        after, before = known.number, known.seen
        now = view(group_id, known.group, row.timestamp, self._names)
        if known.group.parted is not None:
            known.group.parted.touched.clear()
        if now is None and known.group == GONE:
            del self._known[group_id], self.followed[group_id.encode()]
            if before is not None:
                self._found(
                    row, GroupDeleted(group_id=group_id, timestamp=row.timestamp, reason="tombstone"), after
                )
            return
        if now is None:
            return
        evidence, known.evidence = known.evidence, []
        same = before is not None and _same(before, now)
        if before is not None and not same:
            evidence += [
                *infer(before, now, known.holdings, self._surely_alive_ms),
                *due(before, now),
                *self._moved(known, row),
            ]
        elif before is None and known.is_new and (now.generation or 0) > 1:
            evidence = [_CREATED]
        known.holdings.observe(now)
        known.seen, known.published_at = now, row.timestamp
        if not same:
            known.leader_epoch = row.leader_epoch
            self._found(row, structs.replace(now, evidence=evidence) if evidence else now, after)

    def _moved(self, known: _Known, row: Row) -> list[Evidence]:
        """Return evidence that another broker became the group's coordinator right before this record.

        Other records have to show when: if this one is the new leader's first, the move may be days ago.
        """
        elapsed_ms = row.timestamp - self._leads_since
        if not 0 <= known.leader_epoch < row.leader_epoch or not 0 < elapsed_ms <= _MOVE_MS:
            return []
        reason = f"the partition of the group's records had a new leader {elapsed_ms / 1000:.0f} s before"
        return [Evidence(source="group-records", reason=reason, kind=COORDINATOR_MOVED)]

    def _found(self, row: Row, data: EventData, after: int | None) -> None:
        event = Event(self._source, f"{self._partition}:{row.offset}", data)
        self._out.append(Found(row, event, after))


def _is_early(known: _Known, timestamp: int) -> bool:
    """Whether a snapshot at this time would follow the last one too soon. A clock that goes back ends the wait."""
    return 0 <= timestamp - known.published_at < COALESCE_MS


def _same(before: GroupObserved, now: GroupObserved) -> bool:
    """Whether records of a group with epochs came again without a change; a classic record is a generation."""
    return now.counts_epochs and structs.replace(before, timestamp=now.timestamp) == now
