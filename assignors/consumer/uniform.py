"""``uniform`` (UniformAssignor, the broker's default): balanced first, sticky second.

Topics without metadata only count for the equality of subscriptions (``ModernGroup.subscriptionType``).

Equal subscriptions (UniformHomogeneousAssignmentBuilder, 4.3.1): the quota of a member is floor(partitions / members),
of some members one more. Each member keeps its partitions up to its quota. Members are visited in the order of the
coordinator's HashMap. A member above its quota gives up its last partitions in HashSet order. A member below its quota
passes on its right to one more partition, unless the remaining members need it (KAFKA-18688). Then members with room
take the free partitions in blocks: topics in HashSet<Uuid> order, partitions ascending, given-up partitions last.
O(members log members + runs of owned partitions), as a block is stored as a ``range``.

Different subscriptions (UniformHeterogeneousAssignmentBuilder): members keep partitions of subscribed topics unless
balance moves them. Topics are ordered by partitions per subscriber (descending), subscribers, Uuid. Free partitions go
to the least loaded subscribers. Then at most 16 passes over the topics move the last partition of the most loaded
subscriber to the least loaded one, until loads differ by at most one. O(partitions × log subscribers), and the passes.
"""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapreplace
from itertools import chain

from assignors.consumer.group import ServerGroup, audiences, kept, unowned, validated_group
from assignors.java import hash_order, hash_set_copy_capacity
from assignors.model import Assignment, Member, Topic

_Share = dict[str, Sequence[int]]
_Run = tuple[str, Sequence[int]]


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's new target assignment, under the server-side assignor."""
    group = validated_group(topics, members)
    answer: Assignment = {member.member_id: {} for member in members}
    if members:
        first = members[0].topics
        names = set(first)
        is_homogeneous = all(
            member.topics is first or member.topics == first or set(member.topics) == names for member in members
        )
        build = _homogeneous_shares if is_homogeneous else _heterogeneous_shares
        for member, share in zip(group.members, build(group), strict=True):
            answer[member.member_id] = share
    return answer


def _homogeneous_shares(group: ServerGroup) -> list[_Share]:
    """Return the new target of each of ``group.members``."""
    names = group.in_topic_id_order(group.members[0])
    subscribed = dict.fromkeys(names)
    unowned_ranges = unowned(group, [subscribed] * len(group.members))
    waiting: list[_Run] = []
    total = 0
    for name in names:
        size = group.topics[name].partitions
        total += size
        waiting += [(name, run) for run in unowned_ranges.get(name, (range(size),))]
    least, extra_count = divmod(total, len(group.members))
    shares: list[_Share] = []
    unfilled_shares: list[tuple[_Share, int]] = []
    for members_left, member in zip(range(len(group.members), 0, -1), group.members, strict=True):
        has_extra = extra_count > 0
        quota = least + has_extra
        share: _Share = {}
        if member.owned:
            share = kept(member.owned, subscribed)
            quota -= sum(map(len, share.values()))
        if quota < 0:
            share, surplus = _split_at_quota(group, member, share, least + has_extra)
            waiting += surplus
        elif quota and has_extra and members_left > extra_count:
            quota -= 1
            has_extra = False
        if quota > 0:
            unfilled_shares.append((share, quota))
        extra_count -= has_extra
        shares.append(share)
    _fill(unfilled_shares, waiting)
    return shares


def _split_at_quota(group: ServerGroup, member: Member, share: _Share, quota: int) -> tuple[_Share, list[_Run]]:
    """Return the share's first ``quota`` partitions in Java's order, and the remaining partitions in the same order.

    The topics are keys of a HashMap that was filled in the order of ``owned``, each with a HashSet of Integers.
    """
    kept: _Share = {}
    surplus: list[_Run] = []
    for name in group.in_uuid_order([name for name in member.owned if name in group.ids]):
        partitions = share.get(name)
        if partitions is None:
            continue
        if len(partitions) <= quota:
            kept[name] = partitions
            quota -= len(partitions)
            continue
        owned = member.owned[name]
        in_hash_order = [owned[at] for at in hash_order(owned, capacity=hash_set_copy_capacity(len(owned)))]
        if quota:
            kept[name] = sorted(in_hash_order[:quota])
        surplus.append((name, in_hash_order[quota:]))
        quota = 0
    return kept, surplus


def _fill(unfilled_shares: Sequence[tuple[_Share, int]], waiting: Sequence[_Run]) -> None:
    """Assign contiguous blocks of waiting partitions to members below their quota, until each has its quota."""
    run_iterator = iter(waiting)
    name, run = next(run_iterator, ("", ()))
    at = 0
    for share, missing in unfilled_shares:
        quota = missing
        while quota and run:
            assigned = run[at : at + quota]
            at += quota
            quota -= len(assigned)
            before = share.get(name)
            if before is not None:
                assigned = sorted([*before, *assigned])
            elif not isinstance(assigned, range):
                assigned = sorted(assigned)
            share[name] = assigned
            if at >= len(run):
                name, run = next(run_iterator, ("", ()))
                at = 0


#: ``MAX_ITERATION_COUNT``: the most passes over the topics; a remaining imbalance is left as it is.
_MAX_PASSES = 16


def _heterogeneous_shares(group: ServerGroup) -> list[_Share]:
    """Return the new target of each of ``group.members``."""
    subscribed = [{name: None for name in member.topics if name in group.topics} for member in group.members]
    unowned_ranges = unowned(group, subscribed)
    load = _MemberLoads([kept(member.owned, topics) for member, topics in zip(group.members, subscribed, strict=True)])

    def order(topic: tuple[str, Sequence[int]]) -> tuple[float, int, tuple[int, int]]:
        name, subscribers = topic
        return -(group.topics[name].partitions / len(subscribers)), len(subscribers), group.ids[name]

    topics = sorted(((name, places) for places, names in audiences(group, group.members) for name in names), key=order)
    for name, places in topics:
        run_iterator = unowned_ranges.get(name, [range(group.topics[name].partitions)])
        load.assign_to_least_loaded(name, places, chain.from_iterable(run_iterator))
    _balance(load, topics)
    return load.shares


class _MemberLoads:
    """Load of each member: its partitions by topic, ascending (``shares[i]``), and their number (``sizes[i]``)."""

    def __init__(self, shares: list[dict[str, Sequence[int]]]) -> None:
        self.shares = shares
        self.sizes = [sum(map(len, share.values())) for share in shares]
        #: Counts moves: values computed from the sizes are valid while this count is unchanged.
        self.moves = 0

    def sort_by_load(self, members: Sequence[int]) -> list[int]:
        return sorted(members, key=self.sizes.__getitem__)  # The sort is stable, and members ascend.

    def assign_to_least_loaded(self, name: str, members: Sequence[int], partitions: Iterable[int]) -> None:
        order = self.sort_by_load(members)
        heap = [(self.sizes[member], place) for place, member in enumerate(order)]  # A sorted list is a heap.
        new_partitions: dict[int, list[int]] = {}
        for partition in partitions:
            size, place = heap[0]
            new_partitions.setdefault(order[place], []).append(partition)
            heapreplace(heap, (size + 1, place))
        for member, added in new_partitions.items():
            self.shares[member][name] = sorted([*self.shares[member].get(name, ()), *added])
            self.sizes[member] += len(added)

    def move(self, name: str, partition: int, source: int, target: int) -> None:
        remaining = self._mutable_partitions(source, name)
        remaining.remove(partition) if remaining[-1] != partition else remaining.pop()
        if not remaining:
            del self.shares[source][name]
        insort(self._mutable_partitions(target, name), partition)
        self.sizes[source] -= 1
        self.sizes[target] += 1
        self.moves += 1

    def _mutable_partitions(self, member: int, name: str) -> list[int]:
        share = self.shares[member].get(name, ())
        if not isinstance(share, list):
            share = self.shares[member][name] = list(share)
        return share


def _balance(load: _MemberLoads, topics: Sequence[tuple[str, list[int]]]) -> None:
    last_moved = -1
    imbalance_by_members: dict[int, tuple[int, int]] = {}
    for _ in range(_MAX_PASSES):
        for position, (name, members) in enumerate(topics):
            if position == last_moved:
                return
            imbalance = imbalance_by_members.get(id(members))
            if imbalance is None or imbalance[0] != load.moves:
                sizes = [load.sizes[member] for member in members]
                imbalance = imbalance_by_members[id(members)] = load.moves, max(sizes) - min(sizes)
            before = load.moves
            if imbalance[1] > 1:
                _balance_topic(load, name, _LoadRanges(load, members))
            if load.moves > before or last_moved == -1:
                last_moved = position


def _balance_topic(load: _MemberLoads, name: str, ranges: "_LoadRanges") -> None:
    """Move the topic's last partitions from the most to the least loaded member until these loads differ by one."""
    movable_partitions: dict[int, list[int]] = {}
    while not ranges.balanced():
        source = ranges.pop_most_loaded()
        while source >= 0:
            source_partitions = movable_partitions.get(source)
            if source_partitions is None:
                source_partitions = movable_partitions[source] = list(load.shares[source].get(name, ()))
            if source_partitions:
                break
            ranges.exclude_last_popped()
            source = ranges.pop_most_loaded()
        if source < 0:
            return
        partition = movable_partitions[source].pop()
        target = ranges.pop_least_loaded()
        if ranges.balanced():
            return
        load.move(name, partition, source, target)


class _LoadRanges:
    """The least loaded members ``[0, low_end)`` and the most loaded ``[high_start, high_end)`` of one topic."""

    def __init__(self, load: _MemberLoads, members: Sequence[int]) -> None:
        self.sizes = load.sizes
        self.members = load.sort_by_load(members)
        self.low_end = 0
        self.low_level = self.sizes[self.members[0]] - 1
        self.next_least_loaded = 0
        self.high_start = self.most_loaded_end = len(self.members)
        self.high_level = self.sizes[self.members[-1]] + 1
        self.most_loaded_next = len(self.members) - 1

    def balanced(self) -> bool:
        return self.high_level - self.low_level <= 1

    def pop_least_loaded(self) -> int:
        if self.next_least_loaded >= self.low_end:
            self.low_level += 1
            while self.low_end < len(self.members) and self.sizes[self.members[self.low_end]] == self.low_level:
                self.low_end += 1
            self.next_least_loaded = 0
        self.next_least_loaded += 1
        return self.members[self.next_least_loaded - 1]

    def pop_most_loaded(self) -> int:
        if self.most_loaded_next < self.high_start:
            if self.most_loaded_end <= self.high_start and self.high_start > 0:
                # The whole range was excluded, so continue with the next load that has members.
                self.high_level = self.sizes[self.members[self.high_start - 1]]
            else:
                self.high_level -= 1
            while self.high_start > 0 and self.sizes[self.members[self.high_start - 1]] == self.high_level:
                self.high_start -= 1
            self.most_loaded_next = self.most_loaded_end - 1
        if self.most_loaded_next < 0:
            return -1
        self.most_loaded_next -= 1
        return self.members[self.most_loaded_next + 1]

    def exclude_last_popped(self) -> None:
        at, last = self.most_loaded_next + 1, self.most_loaded_end - 1
        self.members[at], self.members[last] = self.members[last], self.members[at]
        self.most_loaded_end = last
