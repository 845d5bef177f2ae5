"""``uniform`` when subscriptions differ (UniformHeterogeneousAssignmentBuilder, 4.3.1).

Goals, in order:
1. balance: at most one partition between any two subscribers of a topic, as far as 16 passes bring it;
2. stickiness: what a member has and still subscribes to stays, unless balance takes it.

Members are numbered in the order of the coordinator's HashMap. Topics go by partitions a subscriber (descending),
subscribers, Uuid. Free partitions go to the least loaded subscribers; then passes over the topics move the last
partition of the most loaded subscriber to the least loaded. O(partitions × log subscribers), and the passes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from heapq import heapreplace
from itertools import chain

from assignors.consumer.group import ServerGroup, audiences, empty, kept, subscriptions, unowned
from assignors.model import Assignment, Member

#: ``MAX_ITERATION_COUNT``: passes over the topics before an imbalance is left as it is.
_MAX_PASSES = 16


def assign(group: ServerGroup, members: Sequence[Member]) -> Assignment:
    """The new target; ``members`` give the order of the answer."""
    subscribed = subscriptions(group)
    left_over = unowned(group, subscribed)
    load = Load([kept(member.owned, wanted) for member, wanted in zip(group.members, subscribed, strict=True)])
    topics = [(name, places) for places, names in audiences(group, group.members) for name in names]
    topics.sort(key=lambda topic: _order(group, *topic))
    for name, places in topics:
        runs = left_over.get(name, [range(group.topics[name].partitions)])
        load.deal(name, places, chain.from_iterable(runs))
    balance(load, topics)
    answer = empty(members)
    for index, member in enumerate(group.members):
        answer[member.member_id] = load.shares[index]
    return answer


def _order(group: ServerGroup, name: str, subscribers: Sequence[int]) -> tuple[float, int, tuple[int, int]]:
    count = len(subscribers)
    return -(group.topics[name].partitions / count), count, group.ids[name]


class Load:
    """Partitions of each member: ``shares[i]`` by topic (ascending), ``sizes[i]`` in all."""

    def __init__(self, shares: list[dict[str, Sequence[int]]]) -> None:
        self.shares = shares
        self.sizes = [sum(map(len, share.values())) for share in shares]
        #: Counts moves: what was computed from the sizes holds as long as this does.
        self.moves = 0

    def by_load(self, members: Sequence[int]) -> list[int]:
        """Members by (size, number)."""
        return sorted(members, key=self.sizes.__getitem__)  # stable, and members ascend

    def imbalance(self, members: Sequence[int]) -> int:
        """Partitions between the most and the least loaded."""
        sizes = [self.sizes[member] for member in members]
        return max(sizes) - min(sizes)

    def deal(self, name: str, members: Sequence[int], partitions: Iterable[int]) -> None:
        """Give a topic's partitions in their order, each to its least loaded subscriber."""
        order = self.by_load(members)
        heap = [(self.sizes[member], place) for place, member in enumerate(order)]  # sorted, and so a heap
        dealt: dict[int, list[int]] = {}
        for partition in partitions:
            size, place = heap[0]
            dealt.setdefault(order[place], []).append(partition)
            heapreplace(heap, (size + 1, place))
        for member, more in dealt.items():
            self.shares[member][name] = sorted([*self.shares[member].get(name, ()), *more])
            self.sizes[member] += len(more)

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


def balance(load: Load, topics: Sequence[tuple[str, list[int]]]) -> None:
    """Passes over the topics until none moves a partition, or 16 are done."""
    last_moved = -1
    checked: dict[int, tuple[int, int]] = {}
    for _ in range(_MAX_PASSES):
        for position, (name, members) in enumerate(topics):
            if position == last_moved:
                return
            imbalance = checked.get(id(members))
            if imbalance is None or imbalance[0] != load.moves:
                imbalance = checked[id(members)] = load.moves, load.imbalance(members)
            before = load.moves
            if imbalance[1] > 1:
                _balance_topic(load, name, _Ranges(load, members))
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
        return self.high_level - self.low_level <= 1

    def next_least(self) -> int:
        if self.low_next >= self.low_end:
            self.low_level += 1
            while self.low_end < len(self.members) and self.sizes[self.members[self.low_end]] == self.low_level:
                self.low_end += 1
            self.low_next = 0
        self.low_next += 1
        return self.members[self.low_next - 1]

    def next_most(self) -> int:
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
        at, last = self.high_next + 1, self.high_end - 1
        self.members[at], self.members[last] = self.members[last], self.members[at]
        self.high_end = last
