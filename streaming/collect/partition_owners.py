"""The owner of each partition of a group and its offset commits, as evidence of downtime. No client, no clock.

Commits are in the same partition of the offsets topic as the group's own records, so their order is exact: a commit
behind the record that gave somebody a partition is of its new holder. Around a round that took the partition away
they prove:

- The holder still had the partition when it sent the last commit that went further than the one before: a member
  commits before it gives a partition up.
- The partition was consumed again by the time that the first commit further than that arrived.

A commit has the time of its arrival. It may have waited for the coordinator since any moment of an outage, so the
time of sending is bounded by what else the coordinator wrote (:class:`CoordinatorActivity`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from streaming.records.events import MAX_TIMESTAMP, GroupObserved, Holding, ObservedMember, Stop

#: The one classic assignor under which members keep consuming what they keep.
COOPERATIVE: Final = "cooperative-sticky"
#: The coordinator may have been away if it has written nothing for so long, ms.
_SILENCE_MS: Final = 250
#: The coordinator has handled all requests that waited for it so long after it is back, ms.
_CATCH_UP_MS: Final = 2000
#: The first progress on a partition is evidence so long after its first assignment, ms. Later it proves nothing
#: new: a collector that starts again reads old assignments and sees the first progress of every group since.
_NEW_MS: Final = 600_000
#: Partitions without a holder whose commits are remembered.
_MOST_FREE: Final = 1000

_Place = tuple[str, int]
#: The number of a round, a moment until which partitions were consumed before it (None: not known), and one by
#: which they were again; in ms.
_Resumed = tuple[int, int | None, int]


@dataclass(slots=True)
class _Hold:
    """A partition's holder, since when, and what was committed there; times in ms.

    Attributes:
        member_id: its holder; ``""``: nobody now.
        last_holder: the member that is giving it up; ``""``: none is, or that one has left the group.
        committed: when this holder last committed.
        offset: the last committed offset.
        consumed: until when the last commit that went further than the one before proves consumption.
        stopped: a round took it away or assigned it first, and no commit has proved since that it is consumed.
        number: of the round that gave it to its holder then.
        stopped_after, base: ``consumed`` and ``offset`` as they were when it was stopped.
        is_new: the group has not been seen to consume it.
    """

    member_id: str
    since: int
    committed: int | None = None
    offset: int | None = None
    consumed: int | None = None
    stopped: bool = False
    number: int = 0
    stopped_after: int | None = None
    base: int | None = None
    last_holder: str = ""
    is_new: bool = False


class CoordinatorActivity:
    """When the coordinator wrote to a partition of the offsets topic: how late a commit may have arrived."""

    __slots__ = ("_before_silence", "_last", "_previous", "_resumed")

    def __init__(self) -> None:
        self._last: int | None = None
        #: The write before the last one.
        self._previous: int | None = None
        #: The last write before the last silence, and the first one after it.
        self._before_silence: int | None = None
        self._resumed: int | None = None

    def wrote(self, at: int) -> None:
        """A record was written ``at`` a time (ms)."""
        if self._last is not None and at <= self._last:
            return
        if self._last is None or at - self._last > _SILENCE_MS:
            self._before_silence, self._resumed = self._last, at
        self._previous, self._last = self._last, at

    def sent_after(self, at: int) -> int | None:
        """Return a time (ms) after which a commit was sent that arrived ``at`` the last write; None if unknown."""
        if self._last is None or self._resumed is None or at < self._last:
            return None
        if at - self._resumed < _CATCH_UP_MS:
            return self._before_silence
        return self._previous


class PartitionOwners:
    """The owner of each partition of a group, and the commits there.

    Commits of partitions that nobody has held are not remembered: whoever writes offsets without being a member
    says nothing of members.
    """

    __slots__ = ("_free", "_held", "_number", "_of", "_resumed")

    def __init__(self) -> None:
        self._held: dict[_Place, _Hold] = {}
        #: Those that nobody has now, in the order in which they were given up.
        self._free: dict[_Place, None] = {}
        #: The partitions that each member holds.
        self._of: dict[str, set[_Place]] = {}
        self._number = 0
        self._resumed: dict[_Resumed, dict[str, list[int]]] = {}

    def commit(
        self,
        topic: str,
        partition: int,
        timestamp: int | None,
        offset: int | None = None,
        *,
        sent_after: int | None = None,
    ) -> bool:
        """Take a commit (without an offset: its removal). True if it proves that a partition is consumed again."""
        held = self._held.get((topic, partition))
        if held is None:
            return False
        if timestamp is None or offset is None:
            held.committed = timestamp
            held.offset = held.consumed = held.base = None
            return False
        if held.member_id and timestamp >= held.since:
            held.committed = timestamp
        if (
            held.offset is not None
            and offset > held.offset
            and sent_after is not None
            and (held.member_id or held.last_holder)
        ):
            held.consumed = max(sent_after, held.consumed or 0)
        held.offset = offset
        return held.stopped and self._further(held, topic, partition, timestamp, offset)

    def _further(self, held: _Hold, topic: str, partition: int, timestamp: int, offset: int) -> bool:
        if held.base is None or offset < held.base:
            held.base = offset
        holder = held.member_id or (held.last_holder if held.is_new else "")
        if not holder or offset == held.base or not 0 <= timestamp <= MAX_TIMESTAMP:
            return False
        is_late = held.is_new and timestamp - held.since > _NEW_MS
        held.stopped = held.is_new = False
        if is_late:
            return False
        resumed = (held.number, held.stopped_after, timestamp)
        self._resumed.setdefault(resumed, {}).setdefault(topic, []).append(partition)
        return True

    def resumed(self) -> dict[int, list[Stop]]:
        """Partitions that commits have shown to be consumed again since the last call, by the round's number."""
        found, self._resumed = self._resumed, {}
        stops: dict[int, list[Stop]] = {}
        for (number, after, before), partitions in found.items():
            stop = Stop(
                partitions={topic: sorted(numbers) for topic, numbers in sorted(partitions.items())},
                stopped_after=UNSET if after is None else after,
                resumed_before=before,
            )
            stops.setdefault(number, []).append(stop)
        return stops

    def observe(self, now: GroupObserved) -> None:
        """A new view of the group. Of tasks nobody commits, nor of partitions that members share: there are no
        holders of them to remember.
        """
        number = (now.group_epoch if now.counts_epochs else now.generation) or 0
        eager = not now.counts_epochs and now.protocol != COOPERATIVE and number != self._number
        self._number = number
        given: dict[_Place, str] = {}
        for member in now.members if _one_holder(now) else ():
            given |= dict.fromkeys(_places(member.assigned), member.member_id)
        members = {member.member_id for member in now.members}
        for place, held in self._held.items():
            if held.member_id and place not in given:
                self._let_go(place, held)
        self._leave(lambda member_id: member_id not in members)
        for place, member_id in given.items():
            self._give(place, member_id, number, now.timestamp, eager=eager)
        self._forget()

    def change(self, epoch: int, timestamp: int, assigned: Mapping[str, Holding | None]) -> None:
        """Take what some members (None: one that is gone) of a group with epochs hold, between two of its views."""
        self._number = epoch
        for member_id, share in assigned.items():
            for place in self._of.get(member_id, set()).difference(_places(share or {})):
                self._let_go(place, self._held[place])
            if share is None:
                self._leave(member_id.__eq__)
        for member_id, share in assigned.items():
            for place in _places(share or {}):
                self._give(place, member_id, epoch, timestamp)
        self._forget()

    def _let_go(self, place: _Place, held: _Hold) -> None:
        self._of[held.member_id].discard(place)
        if not self._of[held.member_id]:
            del self._of[held.member_id]
        held.last_holder, held.member_id, held.committed = held.member_id, "", None
        self._free[place] = None

    def _leave(self, is_gone: Callable[[str], bool]) -> None:
        """Commits for partitions that members of these ids were giving up are somebody else's from now on."""
        for place in self._free:
            held = self._held[place]
            if held.last_holder and is_gone(held.last_holder):
                held.last_holder = ""

    def _give(self, place: _Place, member_id: str, number: int, now: int, *, eager: bool = False) -> None:
        held = self._held.get(place)
        if held is not None and held.member_id and held.member_id != member_id:
            self._let_go(place, held)
        self._of.setdefault(member_id, set()).add(place)
        if held is None:  # the first progress proves that the group has begun to consume it
            self._held[place] = _Hold(member_id, now, stopped=True, number=number, is_new=True)
        elif eager or held.member_id != member_id:
            self._free.pop(place, None)
            _stop(held, number)
            if held.member_id != member_id:
                held.member_id, held.since, held.committed, held.last_holder = member_id, now, None, ""

    def _forget(self) -> None:
        for place in list(self._free)[:-_MOST_FREE] if len(self._free) > _MOST_FREE else ():
            del self._free[place], self._held[place]

    def last_commit(self, member: ObservedMember) -> int | None:
        """When the member last committed anything that it holds, in ms; None if it has not since it holds it."""
        holds = (
            self._held.get((topic, partition))
            for topic, partitions in member.assigned.items()
            for partition in partitions
        )
        return max(
            (
                held.committed
                for held in holds
                if held is not None and held.member_id == member.member_id and held.committed is not None
            ),
            default=None,
        )


def _stop(held: _Hold, number: int) -> None:
    if not held.stopped:
        held.stopped, held.stopped_after, held.base = True, held.consumed, held.offset
    held.number = number


def _one_holder(now: GroupObserved) -> bool:
    return not now.holds_tasks and now.group_protocol != "share"


def _places(assigned: Holding) -> dict[_Place, None]:
    return {(topic, number): None for topic, numbers in assigned.items() for number in numbers}
