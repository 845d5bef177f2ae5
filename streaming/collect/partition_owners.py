"""Tracks each partition's owner and offset commits in one group, as evidence of downtime; uses no client and no clock.

Commits are in the same partition of the offsets topic as the group's own records, so their order is exact: a commit
after the record that assigned a partition is from its new owner. Commits around a round that moved the
partition prove:

- The owner still had the partition when it sent the last commit with a higher offset than the commit before: a member
  commits before it gives a partition up.
- The partition was consumed again by the time that the first commit with an even higher offset arrived.

A commit's timestamp is the time of its arrival. During an outage it may have waited for the coordinator, so the
coordinator's other records bound the time at which it was sent (:class:`CoordinatorActivity`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import UNSET

from streaming.records.events import MAX_TIMESTAMP, GroupObserved, Holding, ObservedMember, Stop

#: The only classic assignor with which members consume their unchanged partitions during a rebalance.
COOPERATIVE: Final = "cooperative-sticky"
#: The time (ms) without a record of the coordinator after which it may have been unavailable.
_COORDINATOR_SILENCE_MS: Final = 250
#: The time (ms) after an outage in which the coordinator handles all requests that waited for it.
_CATCH_UP_AFTER_SILENCE_MS: Final = 2000
#: The time (ms) after a partition's first assignment in which a commit proves the first consumption. A later commit is
#: not evidence, because a restarted collector reads old assignments and sees only new commits.
_NEW_OWNER_MS: Final = 600_000
#: The most partitions without an owner whose commits are kept.
_MAX_UNOWNED: Final = 1000
#: The least number of intervals, and the least time (ms), from which a group's usual commit interval is computed.
_MIN_INTERVAL_COUNT: Final = 3
_WINDOW_MS: Final = 30_000
#: The longest usual interval of regular commits, the shortest pause that counts, and the longest time from a commit to
#: its acknowledgement (followers fetch again after replica.fetch.backoff.ms); ms.
_MAX_USUAL_INTERVAL_MS: Final = 60_000
_MIN_PAUSE_MS: Final = 500
_MAX_ACK_DELAY_MS: Final = 1000
_Partition = tuple[str, int]
#: The number of a round, the time until which partitions were consumed before it (None: unknown), and the time by which
#: they were consumed again; in ms.
_ResumedConsumption = tuple[int, int | None, int]


@dataclass(slots=True)
class _Ownership:
    """A partition, its owner since a time, and its commits; times are in ms.

    Attributes:
        member_id: the partition's owner; ``""`` if it has no owner now.
        last_owner: the member that is giving the partition up; ``""`` if there is none, or it has left the group.
        committed: when this owner last committed.
        offset: the last committed offset.
        consumed: the time until which the last commit with progress proves consumption.
        stopped: a round moved or first assigned the partition, and no commit has proved since that it is consumed.
        number: the number of the round that stopped the partition.
        stopped_after, offset_at_stop: ``consumed`` and ``offset`` at the time when the partition was stopped.
        base: ``offset_at_stop``, or a lower offset committed since: a higher one proves consumption.
        is_new: no commit has proved yet that the group consumes the partition.
    """

    member_id: str
    since: int
    committed: int | None = None
    offset: int | None = None
    consumed: int | None = None
    stopped: bool = False
    number: int = 0
    stopped_after: int | None = None
    offset_at_stop: int | None = None
    base: int | None = None
    last_owner: str = ""
    is_new: bool = False


class CommitGap(NamedTuple):
    """An interval without commits: when it began, when the next commit was due, and bounds of its length; ms."""

    began: int
    due: int
    bounds: tuple[int, int]


@dataclass(slots=True)
class CommitIntervals:
    """Intervals (ms) between successive commits of a group, by any member and for any partition.

    Attributes:
        last, gap: the last commit, and the last interval that was longer than usual.
        began, count, longest: the current window's begin, number of intervals, and longest interval.
        before: the longest interval of the previous window; None without a previous window.
    """

    last: int | None = None
    gap: CommitGap | None = None
    began: int = 0
    count: int = 0
    longest: int = 0
    before: int | None = None

    @property
    def usual_ms(self) -> int | None:
        """The longest of the last intervals between commits; None if the group does not commit regularly."""
        usual = None if self.before is None else max(self.before, self.longest)
        return None if usual is None or usual > _MAX_USUAL_INTERVAL_MS else usual

    def take(self, at: int) -> None:
        """Add the time of the next commit; several commits at the same time count once."""
        if self.last is None or self.last - at > _WINDOW_MS:  # the first one, or the broker's clock was set back
            self.last = self.began = at
        if at > self.last:
            length, usual = at - self.last, self.usual_ms
            if usual is not None and length >= usual + _MIN_PAUSE_MS:
                self.gap = CommitGap(self.last, self.last + usual, (length - usual, length + _MAX_ACK_DELAY_MS))
            self.last, self.longest, self.count = at, max(self.longest, length), self.count + 1
        if self.count >= _MIN_INTERVAL_COUNT and at - self.began >= _WINDOW_MS:
            self.before, self.longest, self.count, self.began = self.longest, 0, 0, at


class CoordinatorActivity:
    """Times (ms) of the coordinator's writes to a partition of the offsets topic, which bound the delay of commits."""

    __slots__ = ("_last_record_ms", "_pause_began_ms", "_previous_ms", "_resumed_at_ms")

    def __init__(self) -> None:
        #: The times of the last two writes, of the last write before the last pause, and of the first write after it.
        self._last_record_ms: int | None = None
        self._previous_ms: int | None = None
        self._pause_began_ms: int | None = None
        self._resumed_at_ms: int | None = None

    def record_write(self, at: int) -> None:
        """Store the time of the coordinator's latest write (ms)."""
        if self._last_record_ms is not None and at <= self._last_record_ms:
            return
        if self._last_record_ms is None or at - self._last_record_ms > _COORDINATOR_SILENCE_MS:
            self._pause_began_ms, self._resumed_at_ms = self._last_record_ms, at
        self._previous_ms, self._last_record_ms = self._last_record_ms, at

    def min_sent_at(self, at: int) -> int | None:
        """Return the earliest time (ms) at which a commit that arrived at ``at`` was sent; None if unknown."""
        if self._last_record_ms is None or self._resumed_at_ms is None or at < self._last_record_ms:
            return None
        return self._pause_began_ms if at - self._resumed_at_ms < _CATCH_UP_AFTER_SILENCE_MS else self._previous_ms


class PartitionOwners:
    """The owner of each partition of a group, and the offset commits for the partition.

    Commits of partitions that no member has owned are ignored: other programs may write offsets, too.
    """

    __slots__ = ("_last_generation", "_orphans", "_ownerships", "_partitions_by_member", "_resumed_at_ms", "intervals")

    def __init__(self) -> None:
        self.intervals = CommitIntervals()
        self._ownerships: dict[_Partition, _Ownership] = {}
        #: Partitions that have no owner now, in the order in which members gave them up.
        self._orphans: dict[_Partition, None] = {}
        #: The partitions of each member.
        self._partitions_by_member: dict[str, set[_Partition]] = {}
        self._last_generation = 0
        self._resumed_at_ms: dict[_ResumedConsumption, dict[str, dict[int, int | None]]] = {}

    def commit(
        self,
        topic: str,
        partition: int,
        timestamp: int | None,
        offset: int | None = None,
        *,
        min_sent_at: int | None = None,
    ) -> bool:
        """Add a commit, or its removal (no offset); return True if the commit proves that a partition is consumed."""
        if timestamp is not None:
            self.intervals.take(timestamp)
        held = self._ownerships.get((topic, partition))
        if held is None:
            return False
        if timestamp is None or offset is None:
            held.committed = timestamp
            held.offset = held.consumed = held.base = held.offset_at_stop = None
            return False
        if held.member_id and timestamp >= held.since:
            held.committed = timestamp
        has_progress = held.offset is not None and offset > held.offset
        if has_progress and min_sent_at is not None and (held.member_id or held.last_owner):
            held.consumed = max(min_sent_at, held.consumed or 0)
        held.offset = offset
        return held.stopped and self._is_further(held, topic, partition, timestamp, offset)

    def _is_further(self, held: _Ownership, topic: str, partition: int, timestamp: int, offset: int) -> bool:
        if held.base is None or offset < held.base:
            held.base = offset
        holder = held.member_id or (held.last_owner if held.is_new else "")
        if not holder or offset == held.base or not 0 <= timestamp <= MAX_TIMESTAMP:
            return False
        is_late = held.is_new and timestamp - held.since > _NEW_OWNER_MS
        held.stopped = held.is_new = False
        if is_late:
            return False
        resumed = (held.number, held.stopped_after, timestamp)
        self._resumed_at_ms.setdefault(resumed, {}).setdefault(topic, {})[partition] = held.offset_at_stop
        return True

    def resumed(self) -> dict[int, list[Stop]]:
        """Return the partitions that new commits prove to be consumed again, by the round that stopped them."""
        resumed, self._resumed_at_ms = self._resumed_at_ms, {}
        stops: dict[int, list[Stop]] = {}
        for (number, after, before), partitions in resumed.items():
            committed = {
                topic: {str(number): offset for number, offset in sorted(offsets.items()) if offset is not None}
                for topic, offsets in sorted(partitions.items())
            }
            stop = Stop(
                partitions={topic: sorted(offsets) for topic, offsets in sorted(partitions.items())},
                committed=committed if any(committed.values()) else UNSET,
                stopped_after=UNSET if after is None else after,
                resumed_before=before,
            )
            stops.setdefault(number, []).append(stop)
        return stops

    def observe(self, now: GroupObserved) -> None:
        """Update the owners from a new snapshot; tasks, and partitions of share groups, have no owner."""
        number = now.number or 0
        eager = not now.has_epochs and now.protocol != COOPERATIVE and number != self._last_generation
        self._last_generation = number
        owners: dict[_Partition, str] = {}
        for member in () if now.holds_tasks or now.group_protocol == "share" else now.members:
            owners |= dict.fromkeys(_partitions_of(member.assigned), member.member_id)
        for place, held in self._ownerships.items():
            if held.member_id and place not in owners:
                self._release_partition(place, held)
        members = {member.member_id for member in now.members}
        self._mark_removed_owners(lambda member_id: member_id not in members)
        for place, member_id in owners.items():
            self._assign(place, member_id, number, now.timestamp, eager=eager)
        self._drop_oldest_unowned()

    def change(self, epoch: int, timestamp: int, assigned: Mapping[str, Holding | None]) -> None:
        """Update members' assignments (None: the member left) between two snapshots of a group with epochs."""
        self._last_generation = epoch
        for member_id, share in assigned.items():
            for place in self._partitions_by_member.get(member_id, set()).difference(_partitions_of(share or {})):
                self._release_partition(place, self._ownerships[place])
            if share is None:
                self._mark_removed_owners(member_id.__eq__)
        for member_id, share in assigned.items():
            for place in _partitions_of(share or {}):
                self._assign(place, member_id, epoch, timestamp)
        self._drop_oldest_unowned()

    def _release_partition(self, place: _Partition, held: _Ownership) -> None:
        self._partitions_by_member[held.member_id].discard(place)
        if not self._partitions_by_member[held.member_id]:
            del self._partitions_by_member[held.member_id]
        held.last_owner, held.member_id, held.committed = held.member_id, "", None
        self._orphans[place] = None

    def _mark_removed_owners(self, is_gone: Callable[[str], bool]) -> None:
        """Mark members as departed, so that later commits for their partitions are those of the new owners."""
        for place in self._orphans:
            held = self._ownerships[place]
            if held.last_owner and is_gone(held.last_owner):
                held.last_owner = ""

    def _assign(self, place: _Partition, member_id: str, number: int, now: int, *, eager: bool = False) -> None:
        held = self._ownerships.get(place)
        if held is not None and held.member_id and held.member_id != member_id:
            self._release_partition(place, held)
        self._partitions_by_member.setdefault(member_id, set()).add(place)
        if held is None:  # the first progress will prove that the group has begun to consume the partition
            self._ownerships[place] = _Ownership(member_id, now, stopped=True, number=number, is_new=True)
        elif eager or held.member_id != member_id:
            self._orphans.pop(place, None)
            if not held.stopped:
                held.stopped, held.stopped_after = True, held.consumed
                held.offset_at_stop = held.base = held.offset
            held.number = number
            if held.member_id != member_id:
                held.member_id, held.since, held.committed, held.last_owner = member_id, now, None, ""

    def _drop_oldest_unowned(self) -> None:
        for place in list(self._orphans)[:-_MAX_UNOWNED] if len(self._orphans) > _MAX_UNOWNED else ():
            del self._orphans[place], self._ownerships[place]

    def last_commit(self, member: ObservedMember) -> int | None:
        """Return the time (ms) of the member's last commit since its assignment; None without such a commit."""
        held = (self._ownerships.get(place) for place in _partitions_of(member.assigned))
        own = (ownership for ownership in held if ownership is not None and ownership.member_id == member.member_id)
        return max((ownership.committed for ownership in own if ownership.committed is not None), default=None)


def _partitions_of(assigned: Holding) -> dict[_Partition, None]:
    return {(topic, number): None for topic, numbers in assigned.items() for number in numbers}
