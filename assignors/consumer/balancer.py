"""Loads of numbered members: dealing to the least loaded, and moving from the most loaded to them.

Dense and mutable inside one call of ``uniform_heterogeneous``. The two ranges below are those of
``MemberAssignmentBalancer``: the least loaded one grows to the right as its level rises, the most loaded one to
the left as its level falls, and members with nothing to give are swapped out of the latter.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from assignors.consumer.audience import Audience

#: ``MAX_ITERATION_COUNT``: passes over the topics before an imbalance is left as it is.
_MAX_PASSES = 16


class Load:
    """What each member has: ``shares[i]`` by topic (ascending), ``sizes[i]`` partitions in all."""

    def __init__(self, shares: list[dict[str, Sequence[int]]]) -> None:
        self.shares = shares
        self.sizes = [sum(map(len, share.values())) for share in shares]
        #: Counts moves: what was computed from the sizes holds as long as this does.
        self.moves = 0
        #: Shares of topics that are dealt alike.
        self._strides: dict[tuple[range, int], list[Sequence[int]]] = {}
        #: (size, number) of each member as one int, ascending, for audiences whose loads only they change.
        self._ranks: dict[int, list[int]] = {}

    def by_load(self, members: Sequence[int]) -> list[int]:
        """Members by (size, number)."""
        return sorted(members, key=self.sizes.__getitem__)  # stable, and members ascend

    def imbalance(self, members: Sequence[int]) -> int:
        """Partitions between the most and the least loaded."""
        sizes = [self.sizes[member] for member in members]
        return max(sizes) - min(sizes)

    def deal(self, name: str, audience: Audience, partitions: Sequence[int]) -> None:
        """Gives a topic's partitions in their order to its least loaded subscribers, level by level."""
        count = len(self.shares)
        ranks = self._ranks.get(id(audience))
        if ranks is None:
            ranks = [self.sizes[member] * count + member for member in audience.members]
            if audience.alone:
                self._ranks[id(audience)] = ranks
        ranks.sort()
        given = self._dealt(partitions, _levels([rank // count for rank in ranks], len(partitions)))
        shares = self.shares
        for rank, more in zip(ranks, given, strict=False):  # who is least loaded stands first
            share = shares[rank % count]
            before = share.get(name)
            share[name] = more if before is None else sorted([*before, *more])
        if audience.alone:  # the ranks alone know it until everything is dealt
            ranks[: len(given)] = [rank + len(more) * count for rank, more in zip(ranks, given, strict=False)]
        else:
            for rank, more in zip(ranks, given, strict=False):
                self.sizes[rank % count] += len(more)

    def settle(self) -> None:
        """Everything is dealt: sizes count it."""
        count = len(self.shares)
        for ranks in self._ranks.values():
            for rank in ranks:
                self.sizes[rank % count] = rank // count
        self._ranks.clear()

    def _dealt(
        self, partitions: Sequence[int], levels: Sequence[tuple[int, int, int]]
    ) -> list[Sequence[int]]:
        """What each gets, the least loaded first."""
        if len(levels) == 1:
            ((_, _, wide),) = levels
            key = (partitions, wide) if isinstance(partitions, range) else None
            given = self._strides.get(key) if key is not None else None
            if given is None:
                given = [partitions[first::wide] for first in range(min(wide, len(partitions)))]
                if key is not None:
                    self._strides[key] = given
            return given
        rounds = [
            partitions[at : min(at + wide, end)]
            for start, end, wide in levels
            for at in range(start, end, wide)
        ]
        dealt: list[Sequence[int]] = []
        for wide in sorted({*map(len, rounds)}):
            rounds = [one for one in rounds if len(one) >= wide]
            dealt += map(list, zip(*(one[len(dealt) : wide] for one in rounds), strict=True))
        return dealt

    def move(self, name: str, partition: int, giver: int, taker: int) -> None:
        """Moves one partition."""
        left = self._list(giver, name)
        left.remove(partition) if left[-1] != partition else left.pop()
        if not left:
            del self.shares[giver][name]
        insort(self._list(taker, name), partition)
        self.sizes[giver] -= 1
        self.sizes[taker] += 1
        self.moves += 1

    def _list(self, member: int, name: str) -> list[int]:
        share = self.shares[member].get(name, ())
        if not isinstance(share, list):
            share = self.shares[member][name] = list(share)
        return share


def _levels(sizes: Sequence[int], partitions: int) -> list[tuple[int, int, int]]:
    """How many members, of ascending ``sizes``, are dealt to in a circle from which partition up to which.

    Each level takes in those whom the others have caught up with: (first, end, members).
    """
    levels = []
    at, level = 0, sizes[0]
    while at < partitions:
        wide = bisect_right(sizes, level)
        end = partitions if wide == len(sizes) else min(partitions, at + wide * (sizes[wide] - level))
        levels.append((at, end, wide))
        at, level = end, sizes[min(wide, len(sizes) - 1)]
    return levels


def balance(load: Load, topics: Sequence[tuple[str, Audience]]) -> None:
    """Passes over the topics until none moves a partition, or 16 are done."""
    last_moved = -1
    checked: dict[int, tuple[int, int]] = {}
    for _ in range(_MAX_PASSES):
        for position, (name, audience) in enumerate(topics):
            if position == last_moved:
                return
            known = checked.get(id(audience))
            if known is None or known[0] != load.moves:
                known = checked[id(audience)] = load.moves, load.imbalance(audience.members)
            before = load.moves
            if known[1] > 1:
                _balance_topic(load, name, _Ranges(load, audience.members))
            if load.moves > before or last_moved == -1:
                last_moved = position


def _balance_topic(load: Load, name: str, ranges: _Ranges) -> None:
    """Moves the topic's last partitions from the most to the least loaded until they are a partition apart."""
    to_give: dict[int, list[int]] = {}
    while not ranges.balanced():
        giver = ranges.next_most()
        while giver >= 0:
            theirs = to_give.get(giver)
            if theirs is None:
                theirs = to_give[giver] = list(load.shares[giver].get(name, ()))
            if theirs:
                break
            ranges.exclude_most()
            giver = ranges.next_most()
        if giver < 0:
            return
        partition = to_give[giver].pop()
        taker = ranges.next_least()
        if ranges.balanced():
            return
        load.move(name, partition, giver, taker)


class _Ranges:
    """The least loaded members ``[0, low_end)`` and the most loaded ``[high_start, high_end)`` of one topic."""

    def __init__(self, load: Load, members: Sequence[int]) -> None:
        self.sizes = load.sizes
        self.members = load.by_load(members)
        self.low_end = 0
        self.low_level = self.sizes[self.members[0]] - 1
        self.low_next = 0
        self.high_start = self.high_end = len(self.members)
        self.high_level = self.sizes[self.members[-1]] + 1
        self.high_next = len(self.members) - 1

    def balanced(self) -> bool:
        """Whether the levels of the two ranges are at most one apart."""
        return self.high_level - self.low_level <= 1

    def next_least(self) -> int:
        """The member that gets the next partition."""
        if self.low_next >= self.low_end:
            self.low_level += 1
            while (
                self.low_end < len(self.members) and self.sizes[self.members[self.low_end]] == self.low_level
            ):
                self.low_end += 1
            self.low_next = 0
        self.low_next += 1
        return self.members[self.low_next - 1]

    def next_most(self) -> int:
        """The member that may give the next partition, -1 when there is none left."""
        if self.high_next < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:
                # all of the range was excluded: go on with the next level that has members
                self.high_level = self.sizes[self.members[self.high_start - 1]]
            else:
                self.high_level -= 1
            while self.high_start > 0 and self.sizes[self.members[self.high_start - 1]] == self.high_level:
                self.high_start -= 1
            self.high_next = self.high_end - 1
        if self.high_next < 0:
            return -1
        self.high_next -= 1
        return self.members[self.high_next + 1]

    def exclude_most(self) -> None:
        """Takes the member that :meth:`next_most` gave out of the range: it has nothing to give."""
        at, last = self.high_next + 1, self.high_end - 1
        self.members[at], self.members[last] = self.members[last], self.members[at]
        self.high_end = last
