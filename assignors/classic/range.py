"""``range`` (RangeAssignor): contiguous ranges of each topic; the first members get one partition more.

Goals, in order: balanced within each topic; racks matched where that costs no balance (KIP-881, see
``range_racks``); the same partition numbers of co-partitioned topics to the same member. Not sticky.
O(members·log members + size of the assignment): equal topics share their ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from assignors.classic.group import ClientGroup, read_group, sorted_members, subscribers_by_topic, uses_racks
from assignors.model import Assignment, Member, Topic


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's partitions under ``range``."""
    group = read_group(topics, members)
    ordered = sorted_members(members)
    shares: list[dict[str, Sequence[int]]] = [{} for _ in ordered]
    subscribers = subscribers_by_topic(ordered)
    # Topics with the same subscribers and partition count are co-partitioned: they are divided in the same way.
    alike: dict[tuple[int, int], list[str]] = {}
    for name, count in group.counts.items():
        alike.setdefault((id(subscribers[name]), count), []).append(name)
    if group.rack_aware and any(_needs_racks(group, name, ordered, subscribers) for name in group.counts):
        _assign_with_racks(group, ordered, subscribers, alike.values(), shares)
    else:
        for names in alike.values():
            places = subscribers[names[0]]
            _give(shares, places, divided(group.counts[names[0]], len(places)), names)
    by_id = dict(zip((member.member_id for member in ordered), shares, strict=True))
    return {member.member_id: by_id[member.member_id] for member in members}


def _give(shares: Shares, places: Iterable[int], parts: Iterable[Sequence[int]], names: Sequence[str]) -> None:
    for place, part in zip(places, parts, strict=False):
        for name in names:
            shares[place][name] = part


def divided(count: int, members: int) -> list[range]:
    """Return the non-empty contiguous ranges of ``count`` partitions over ``members``, larger ones first."""
    base, extra = divmod(count, members)
    large = extra * (base + 1)
    bounds = [*range(0, large, base + 1), *(range(large, count, base) if base else ()), count]
    return [range(start, end) for start, end in pairwise(bounds)]


Shares = list[dict[str, Sequence[int]]]


def _needs_racks(
    group: ClientGroup, name: str, ordered: Sequence[Member], subscribers: Mapping[str, Sequence[int]]
) -> bool:
    racks = group.topics[name].racks
    if racks is None:
        return False
    return uses_racks({rack for place in subscribers[name] if (rack := ordered[place].rack_id)}, racks)


def _assign_with_racks(
    group: ClientGroup,
    ordered: Sequence[Member],
    subscribers: Mapping[str, Sequence[int]],
    alike: Iterable[Sequence[str]],
    shares: Shares,
) -> None:
    """Fill ``shares`` (by position): first partitions in members' racks, then ranges over the remaining ones.

    ``alike``: the topics, grouped by subscribers and partition count.
    """
    for names in alike:
        places = subscribers[names[0]]
        racks = [ordered[place].rack_id or None for place in places]
        count = group.counts[names[0]]
        in_racks = [group.topics[name].racks or ((),) * count for name in names]
        division = _Division(count, racks)
        if any(racks):  # else Java sees no partition racks at all, and nothing to match
            if len(names) > 1:
                division.match_together(in_racks)
            elif _needs_racks(group, names[0], ordered, subscribers):
                division.match_alone(in_racks[0])
        division.range_over_the_rest()
        _give(shares, *division.by_place(places), names)


class _Division:
    """Division of the partitions of a topic, or of several co-partitioned topics, among the subscribers."""

    def __init__(self, count: int, racks: Sequence[str | None]) -> None:
        self.shares: list[list[int]] = [[] for _ in racks]
        self._racks = racks
        self._base, self._extra = divmod(count, len(racks))
        self._free: dict[int, None] = dict.fromkeys(range(count))
        self._by_rack: dict[str | None, list[int]] = {}
        for member, rack in enumerate(racks):
            self._by_rack.setdefault(rack, []).append(member)

    def _room(self, member: int) -> int:
        """Return how many partitions the member may still get (``maxAssignable``)."""
        return max(0, self._base + (self._extra > 0) - len(self.shares[member]))

    def _give(self, member: int, partitions: Iterable[int]) -> None:
        partitions_given = self.shares[member]
        for partition in partitions:
            partitions_given.append(partition)
            del self._free[partition]
        if len(partitions_given) > self._base:
            self._extra -= 1

    def by_place(self, places: Sequence[int]) -> tuple[list[int], list[list[int]]]:
        having = [
            (place, sorted(partitions)) for place, partitions in zip(places, self.shares, strict=True) if partitions
        ]
        return [place for place, _ in having], [partitions for _, partitions in having]

    def match_together(self, in_racks: Sequence[Sequence[tuple[str, ...]]]) -> None:
        """Assign each partition to the first member with room whose rack has a replica of it in every topic."""
        shares = self.shares
        nobody = len(shares)
        # Room only shrinks, so each rack's queue only loses its first member, which is the last of its list.
        queues = {rack: [nobody, *reversed(members)] for rack, members in self._by_rack.items()}
        queues_of: dict[tuple[tuple[str, ...], ...], list[list[int]]] = {}
        base = self._base
        rest: list[int] = []
        different = {id(racks): racks for racks in in_racks}.values()
        for partition, at in enumerate(zip(*different, strict=True)):
            near = queues_of.get(at)
            if near is None:
                in_all = frozenset(at[0]).intersection(*at[1:])
                near = queues_of[at] = [queues[rack] for rack in (None, *in_all) if rack in queues]
            best = min([queue[-1] for queue in near], default=nobody)
            if best == nobody:
                rest.append(partition)
                continue
            held = shares[best]
            held.append(partition)
            if len(held) > base:
                self._extra -= 1
                queues[self._racks[best]].pop()
                if not self._extra:  # from now on no member may exceed the base
                    for queue in queues.values():
                        while queue[-1] < nobody and not self._room(queue[-1]):
                            queue.pop()
            elif len(held) == base and not self._extra:
                queues[self._racks[best]].pop()
        self._free = dict.fromkeys(rest)

    def match_alone(self, racks: Sequence[Collection[str]]) -> None:
        held: Mapping[str | None, list[int]] = {rack: [] for rack in self._by_rack}
        for partition, at in enumerate(racks):
            for rack in {*at, None}:
                if rack in held:
                    held[rack].append(partition)
        waiting = {rack: iter(partitions) for rack, partitions in held.items()}
        for member, rack in enumerate(self._racks):
            room = self._room(member)
            taken: list[int] = []
            while len(taken) < room:
                partition = next(waiting[rack], -1)
                if partition < 0:
                    break
                if partition in self._free:
                    taken.append(partition)
            if taken:
                self._give(member, taken)

    def range_over_the_rest(self) -> None:
        """Assign contiguous ranges of the remaining partitions (``assignRanges``)."""
        rest = list(self._free)
        at = 0
        for member in range(len(self._racks)):
            if at == len(rest):
                break
            room = self._room(member)
            if room:
                self._give(member, rest[at : at + room])
                at += room
