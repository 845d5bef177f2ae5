"""``range`` (RangeAssignor): contiguous ranges of each topic; the first members get one partition more.

Goals, in order: balanced within each topic; racks matched where that costs no balance (KIP-881); the same partition
numbers of co-partitioned topics to the same member. Not sticky.
O(members·log members + size of the assignment), as topics with equal subscribers and counts share their ranges.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from assignors.assignment import even_ranges
from assignors.classic.group import ClientGroup, read_group, sorted_members, subscribers_by_topic, uses_racks
from assignors.model import Assignment, Member, Topic


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's partitions under ``range``."""
    group = read_group(topics, members)
    ordered = sorted_members(members)
    shares: Assignment = {member.member_id: {} for member in members}
    subscribers = subscribers_by_topic(ordered)
    # Topics with the same subscribers and partition count are co-partitioned: they are divided in the same way.
    topic_groups: dict[tuple[int, int], list[str]] = {}
    for name, count in group.counts.items():
        topic_groups.setdefault((id(subscribers[name]), count), []).append(name)
    audiences = [(names, [ordered[place] for place in subscribers[names[0]]]) for names in topic_groups.values()]
    by_topic = ((name, audience) for names, audience in audiences for name in names)
    is_rack_aware = group.rack_aware and any(_needs_racks(group, name, audience) for name, audience in by_topic)
    for names, audience in audiences:
        count = group.counts[names[0]]
        parts = _divide_by_racks(group, names, audience) if is_rack_aware else even_ranges(count, len(audience))
        for member, part in zip(audience, parts, strict=False):
            if part:
                shares[member.member_id].update(dict.fromkeys(names, part))
    return shares


def _needs_racks(group: ClientGroup, name: str, audience: Sequence[Member]) -> bool:
    racks = group.topics[name].racks
    return racks is not None and uses_racks({member.rack_id for member in audience if member.rack_id}, racks)


def _divide_by_racks(group: ClientGroup, names: Sequence[str], audience: Sequence[Member]) -> list[list[int]]:
    """Return each subscriber's partitions: first those in its rack, then a range of the remaining partitions."""
    racks = [member.rack_id or None for member in audience]
    count = group.counts[names[0]]
    racks_by_topic = [group.topics[name].racks or ((),) * count for name in names]
    topic_division = _TopicDivision(count, racks)
    if any(racks):  # Otherwise Java reads no partition racks, so no rack can match.
        if len(names) > 1:
            topic_division.assign_by_shared_racks(racks_by_topic)
        elif _needs_racks(group, names[0], audience):
            topic_division.assign_by_topic_racks(racks_by_topic[0])
    topic_division.assign_remaining_ranges()
    return [sorted(partitions) for partitions in topic_division.shares]


class _TopicDivision:
    """Division of the partitions of a topic, or of several co-partitioned topics, among the subscribers."""

    def __init__(self, count: int, racks: Sequence[str | None]) -> None:
        self.shares: list[list[int]] = [[] for _ in racks]
        self._racks = racks
        self._smaller_size, self._larger_shares_left = divmod(count, len(racks))
        self._orphans: dict[int, None] = dict.fromkeys(range(count))
        self._members_by_rack: dict[str | None, list[int]] = {}
        for member, rack in enumerate(racks):
            self._members_by_rack.setdefault(rack, []).append(member)

    def _capacity(self, member: int) -> int:
        """Return the number of partitions that the member may still get (``maxAssignable``)."""
        return max(0, self._smaller_size + (self._larger_shares_left > 0) - len(self.shares[member]))

    def _assign(self, member: int, partitions: Iterable[int]) -> None:
        share = self.shares[member]
        for partition in partitions:
            share.append(partition)
            del self._orphans[partition]
        if len(share) > self._smaller_size:
            self._larger_shares_left -= 1

    def assign_by_shared_racks(self, racks_by_topic: Sequence[Sequence[tuple[str, ...]]]) -> None:
        """Assign each partition to the first member below its quota whose rack has replicas of it in all topics."""
        shares = self.shares
        no_member = len(shares)
        # A member's room only shrinks, so a rack's queue only loses its first member, which is the last one in the
        # list.
        queues = {rack: [no_member, *reversed(members)] for rack, members in self._members_by_rack.items()}
        queues_of: dict[tuple[tuple[str, ...], ...], list[list[int]]] = {}
        base = self._smaller_size
        unmatched_members: list[int] = []
        rack_lists = {id(racks): racks for racks in racks_by_topic}.values()
        for partition, racks in enumerate(zip(*rack_lists, strict=True)):
            near_queues = queues_of.get(racks)
            if near_queues is None:
                shared_racks = frozenset(racks[0]).intersection(*racks[1:])
                near_queues = queues_of[racks] = [queues[rack] for rack in (None, *shared_racks) if rack in queues]
            first_member = min([queue[-1] for queue in near_queues], default=no_member)
            if first_member == no_member:
                unmatched_members.append(partition)
                continue
            share = shares[first_member]
            share.append(partition)
            if len(share) > base:
                self._larger_shares_left -= 1
                queues[self._racks[first_member]].pop()
                if not self._larger_shares_left:  # From here on, no member may get more partitions than the base.
                    for queue in queues.values():
                        while queue[-1] < no_member and not self._capacity(queue[-1]):
                            queue.pop()
            elif len(share) == base and not self._larger_shares_left:
                queues[self._racks[first_member]].pop()
        self._orphans = dict.fromkeys(unmatched_members)

    def assign_by_topic_racks(self, racks: Sequence[Collection[str]]) -> None:
        """Assign each member unassigned partitions with a replica in its rack, up to the member's remaining quota."""
        partitions_by_rack: Mapping[str | None, list[int]] = {rack: [] for rack in self._members_by_rack}
        for partition, partition_racks in enumerate(racks):
            for rack in {*partition_racks, None}:
                if rack in partitions_by_rack:
                    partitions_by_rack[rack].append(partition)
        waiting = {rack: iter(partitions) for rack, partitions in partitions_by_rack.items()}
        for member, rack in enumerate(self._racks):
            # A list is needed because _assign changes _orphans. No member has partitions yet.
            self._assign(member, list(islice((p for p in waiting[rack] if p in self._orphans), self._capacity(member))))

    def assign_remaining_ranges(self) -> None:
        """Assign contiguous ranges of the remaining partitions (``assignRanges``)."""
        remaining = iter(list(self._orphans))
        for member in range(len(self._racks)):
            if capacity := self._capacity(member):
                self._assign(member, islice(remaining, capacity))
