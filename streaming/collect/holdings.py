"""Who has held each partition of a group since when, and what was committed there. No client, no clock.

Commits stand in the same partition of the offsets topic as the group's own records, so their order is exact: a
commit behind the record that gave somebody a partition is of its new holder. Of a round that stopped it they tell

- that its holder still had it at the last commit that went further than the one before: a member commits before it
  gives a partition up;
- that it was consumed again by the first commit further than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from streaming.wire.events import MAX_TIMESTAMP, GroupObserved, ObservedMember, Stop

#: The one classic assignor under which members keep consuming what they keep.
COOPERATIVE: Final = "cooperative-sticky"
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
        committed: when this holder last committed.
        offset: what anybody last did.
        consumed: when a commit last went further than the one before.
        stopped: a round stopped it, and no commit has shown since that it is consumed again.
        number: of the round that gave it to its holder then.
        stopped_after, base: ``consumed`` and ``offset`` as they were when it was stopped.
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


class Holdings:
    """Who has held each partition of a group since when, and what was committed there.

    Commits of partitions that nobody has held are not remembered: whoever writes offsets without being a member
    says nothing of members.
    """

    __slots__ = ("_free", "_held", "_number", "_resumed")

    def __init__(self) -> None:
        self._held: dict[_Place, _Hold] = {}
        #: Those that nobody has now, in the order in which they were given up.
        self._free: dict[_Place, None] = {}
        self._number = 0
        self._resumed: dict[_Resumed, dict[str, list[int]]] = {}

    def commit(self, topic: str, partition: int, timestamp: int | None, offset: int | None = None) -> bool:
        """An offset was committed at ``timestamp`` (ms), or (None) removed; whether that shows that a partition is
        consumed again.
        """
        held = self._held.get((topic, partition))
        if held is None:
            return False
        if timestamp is None or offset is None:
            held.committed = timestamp
            held.offset = held.consumed = held.base = None
            return False
        if held.member_id and timestamp >= held.since:
            held.committed = timestamp
        if held.offset is not None and offset > held.offset and 0 <= timestamp <= MAX_TIMESTAMP:
            held.consumed = timestamp
        held.offset = offset
        return held.stopped and self._further(held, topic, partition, timestamp, offset)

    def _further(self, held: _Hold, topic: str, partition: int, timestamp: int, offset: int) -> bool:
        """Whether a commit after a round goes further than the last one before it."""
        if held.base is None or offset < held.base:
            held.base = offset
        if not held.member_id or offset == held.base or not 0 <= timestamp <= MAX_TIMESTAMP:
            return False
        held.stopped = False
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
            given |= dict.fromkeys(_places(member), member.member_id)
        for place, held in self._held.items():
            if held.member_id and place not in given:
                self._let_go(place, held)
        for place, member_id in given.items():
            self._give(place, member_id, number, now.timestamp, eager=eager)
        self._forget()

    def change(
        self, now: GroupObserved, changes: Iterable[tuple[ObservedMember | None, ObservedMember | None]]
    ) -> None:
        """The same of a group with epochs by what is other than in the view before: no other member is looked at.

        Args:
            now: the new view; it may be without its members.
            changes: members as they were and as they are; None: not there.
        """
        self._number = now.group_epoch or 0
        if not _one_holder(now):
            return
        got: list[tuple[_Place, str]] = []
        for before, after in changes:
            had, has = _places(before), _places(after)
            if before is not None:
                for place in had:
                    held = self._held.get(place) if place not in has else None
                    if held is not None and held.member_id == before.member_id:
                        self._let_go(place, held)
            if after is not None:
                got += ((place, after.member_id) for place in has if place not in had)
        for place, member_id in got:
            self._give(place, member_id, self._number, now.timestamp)
        self._forget()

    def _let_go(self, place: _Place, held: _Hold) -> None:
        held.member_id, held.committed = "", None
        self._free[place] = None

    def _give(self, place: _Place, member_id: str, number: int, now: int, *, eager: bool = False) -> None:
        held = self._held.get(place)
        if held is None:
            self._held[place] = _Hold(member_id, now)
        elif eager or held.member_id != member_id:
            self._free.pop(place, None)
            _stop(held, number)
            if held.member_id != member_id:
                held.member_id, held.since, held.committed = member_id, now, None

    def _forget(self) -> None:
        """The partitions that have been free for longest, beyond those that are remembered."""
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
    """A round stopped a partition; as long as no commit shows it resumed, an earlier one did as well."""
    if not held.stopped:
        held.stopped, held.stopped_after, held.base = True, held.consumed, held.offset
    held.number = number


def _one_holder(now: GroupObserved) -> bool:
    """Whether what members hold are partitions that each has one holder."""
    return not now.holds_tasks and now.group_protocol != "share"


def _places(member: ObservedMember | None) -> dict[_Place, None]:
    """The partitions that a member holds, in order."""
    assigned = {} if member is None else member.assigned
    return {(topic, number): None for topic, numbers in assigned.items() for number in numbers}
