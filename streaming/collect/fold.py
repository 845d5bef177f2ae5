"""One partition of the offsets topic, folded into events. No client, no clock.

The coordinator gives all records of one write one timestamp, and a join is one record under the classic protocol,
five to many under others. So consecutive records with the same timestamp (a *run*) are taken together: each group
in it is published once, as it is after the run, under the offset of its last record there. (Classic generations are
one record each and all published.) What is published is a function of the partition's log from where publishing
begins, and of who asked for a full view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec import structs

from assignors.errors import MonitorError
from streaming.collect.changes import ToldGroup
from streaming.collect.commits import SOURCE, ended, infer
from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.groups import GONE, CoordinatedGroup, apply, view
from streaming.collect.coordinator.parts import TopicNames
from streaming.collect.coordinator.records import (
    OffsetCommit,
    Other,
    committing,
    decode,
    offset_and_time,
    place,
)
from streaming.collect.coordinator.standing import StandingGroup
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
    Evidence,
    GroupChanged,
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
        seen: of a classic group: the last published view.
        standing: of one with epochs: the same, member by member.
        changes: what was told of it.
        holdings: its commits.
        last: offset and timestamp of the last record that a view followed from.
        leader_epoch: of the partition's leader, which is the coordinator, at that record.
        is_new: its record without a generation was read: all its generations come after.
    """

    changes: ToldGroup
    group: CoordinatedGroup = GONE
    seen: GroupObserved | None = None
    standing: StandingGroup | None = None
    holdings: Holdings = field(default_factory=Holdings)
    last: tuple[int, int] = (-1, -1)
    is_new: bool = False
    leader_epoch: int = -1

    @property
    def head(self) -> GroupObserved | None:
        """The last published view; of a group with epochs without its members."""
        return self.seen if self.standing is None else self.standing.head

    @property
    def view(self) -> GroupObserved | None:
        """The last published view."""
        return self.seen if self.standing is None else self.standing.view

    @property
    def number(self) -> int | None:
        """The generation, or epoch, of that view."""
        head = self.head
        return None if head is None else head.group_epoch if head.counts_epochs else head.generation


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
        changes_from: groups with epochs of so many members are told what changed; 0: none is.
    """

    def __init__(
        self,
        source: str,
        partition: int,
        names: TopicNames,
        wanted: Callable[[str], bool] = lambda _: True,
        surely_alive_ms: int | None = None,
        *,
        changes_from: int = 0,
    ) -> None:
        self._source, self._partition = source, partition
        self._names, self._wanted, self._surely_alive_ms = names, wanted, surely_alive_ms
        self._changes_from = changes_from
        #: Outcomes of records before this offset were published by an earlier collector: they are not handed out.
        self.start = 0
        #: Whether there is, or was, a group that is told what changed.
        self.large = False
        self._leader_epoch, self._leads_since = -1, 0
        self._known: dict[str, _Known] = {}
        #: The same by the bytes of group ids. Of other groups' commits none counts.
        self.followed: dict[bytes, _Known] = {}
        self._activity = CoordinatorActivity()
        self._timestamp: int | None = None
        self._touched: dict[str, Row] = {}
        self._resumed: dict[str, Row] = {}
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
            self._publish(group_id, row)
        outcome, self._out = [one for one in self._out if one.row.offset >= self.start], []
        self._touched = {}
        self._timestamp = None
        self.open_offset = None
        return outcome

    def subscriptions(self) -> dict[str, frozenset[str]]:
        """The topics that each group's members subscribe to, as last published."""
        topics = {}
        for group_id, known in self._known.items():
            if known.standing is not None:
                topics[group_id] = known.standing.topics
            elif known.seen is not None:
                topics[group_id] = subscribed(known.seen)
        return topics

    def whole(self, group_id: str, asked: str) -> Found | None:
        """The full view of a group for somebody who lacks it; None: it is not followed, or was told last anyhow.

        Args:
            group_id: the group.
            asked: what names this question.
        """
        known = self._known.get(group_id)
        if known is None or known.standing is None or not known.changes.lacking:
            return None
        (offset, timestamp), number = known.last, known.number
        event_id = f"{self._partition}:{offset}/whole/{asked}"
        data = known.changes.whole(event_id, known.standing, [])
        if data is None:
            return None
        row = Row(self._partition, offset, timestamp, None, None)
        return Found(row, Event(self._source, event_id, data), number)

    def is_open(self, group_id: str) -> bool:
        """Whether the run so far has records of a group: its view is about to be another."""
        return group_id in self._touched

    def lost(self, group_id: str) -> None:
        """What was found of a group was not published: what follows must not build on it."""
        known = self._known.get(group_id)
        if known is not None:
            known.changes.forget()

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
            known = _Known(ToldGroup(self._changes_from))
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
        if known.head is None or not 0 <= row.timestamp <= MAX_TIMESTAMP:
            return
        for number, stops in known.holdings.resumed().items():
            epochs = known.head.counts_epochs
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

    def _publish(self, group_id: str, row: Row) -> None:
        known, event_id = self._known[group_id], f"{self._partition}:{row.offset}"
        after, standing = known.number, known.standing
        data: GroupObserved | GroupChanged | GroupDeleted | None
        if standing is not None and standing.group is known.group.parted:
            data = self._step(known, standing, row, event_id)
        else:
            data = self._view(group_id, known, row, event_id)
        if data is not None:
            self._out.append(Found(row, Event(self._source, event_id, data), after))

    def _step(
        self, known: _Known, standing: StandingGroup, row: Row, event_id: str
    ) -> GroupObserved | GroupChanged | None:
        """What is told of a group with epochs whose view before is known: what it costs follows what changed."""
        changes = standing.look(row.timestamp)
        if changes is None or standing.head is None:
            return None
        gone = [
            before
            for before, now in changes
            if before is not None and now is None and not standing.has_instance(before.group_instance_id)
        ]
        evidence = ended(gone, standing.head, known.holdings, self._surely_alive_ms) + self._moved(known, row)
        known.holdings.change(standing.head, changes)
        self.large = self.large or known.changes.is_large(standing)
        known.last, known.leader_epoch = (row.offset, row.timestamp), row.leader_epoch
        if row.offset < self.start:
            return None
        return known.changes.next(event_id, standing, changes, evidence)

    def _moved(self, known: _Known, row: Row) -> list[Evidence]:
        """Return evidence that another broker became the group's coordinator right before this record.

        Other records have to show when: if this one is the new leader's first, the move may be days ago.
        """
        elapsed_ms = row.timestamp - self._leads_since
        if not 0 <= known.leader_epoch < row.leader_epoch or not 0 < elapsed_ms <= _MOVE_MS:
            return []
        reason = f"the partition of the group's records had a new leader {elapsed_ms / 1000:.0f} s before"
        return [Evidence(source="group-records", reason=reason, kind=COORDINATOR_MOVED)]

    def _view(
        self, group_id: str, known: _Known, row: Row, event_id: str
    ) -> GroupObserved | GroupDeleted | None:
        """What is told of any group: its full view."""
        parted, before = known.group.parted, known.view
        standing = None if parted is None else StandingGroup(group_id, parted, self._names)
        if standing is None:
            now = view(group_id, known.group, row.timestamp, self._names)
        else:
            standing.look(row.timestamp)
            now = standing.view
        if now is None:
            if known.group == GONE:
                del self._known[group_id], self.followed[group_id.encode()]
            if before is None or known.group != GONE:
                return None
            return GroupDeleted(group_id=group_id, timestamp=row.timestamp, reason="tombstone")
        same = before is not None and _same(before, now)
        evidence: list[Evidence] = []
        if before is not None and not same:
            evidence = [
                *infer(before, now, known.holdings, self._surely_alive_ms),
                *due(before, now),
                *self._moved(known, row),
            ]
        elif before is None and known.is_new and (now.generation or 0) > 1:
            evidence = [_CREATED]
        known.holdings.observe(now)
        known.seen, known.standing = (now, None) if standing is None else (None, standing)
        self.large = self.large or (standing is not None and known.changes.is_large(standing))
        if not same:
            known.last, known.leader_epoch = (row.offset, row.timestamp), row.leader_epoch
        if same or row.offset < self.start:
            return None
        if standing is not None:
            return known.changes.whole(event_id, standing, evidence)
        known.changes.forget()
        return structs.replace(now, evidence=evidence) if evidence else now


def _same(before: GroupObserved, now: GroupObserved) -> bool:
    """Whether records of a group with epochs came again without a change; a classic record is a generation."""
    return now.counts_epochs and structs.replace(before, timestamp=now.timestamp) == now
