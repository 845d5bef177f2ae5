"""``range`` (RangeAssignor): contiguous ranges by topic, the first members one more.

Goals, in order: balanced within each topic; racks matched where that costs no balance (KIP-881, see
``range_racks``); the same partition numbers of co-partitioned topics to the same member. Not sticky.
O(members·log members + given shares): topics alike share their ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from assignors.classic import native
from assignors.classic.alike import give
from assignors.classic.group import checked
from assignors.classic.order import sorted_members
from assignors.classic.range_racks import assign_with_racks, needs_racks
from assignors.classic.subscribers import Subscribers
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "range"
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ("EAGER",)


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Every member's share of every topic it subscribes to.

    Raises:
        InvalidGroup: see ``assignors.classic.group.checked``.
    """
    answer = native.client_shares(NAME, topics, members)
    return plainly(topics, members) if answer is None else answer


def plainly(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """As :func:`assign`, without native code."""
    group = checked(topics, members)
    ordered = sorted_members(members)
    shares: list[dict[str, Sequence[int]]] = [{} for _ in ordered]
    subscribers = Subscribers(ordered)
    # Topics with the same subscribers and as many partitions are co-partitioned: they are divided alike.
    alike: dict[tuple[int, int], list[str]] = {}
    for name, count in group.counts.items():
        alike.setdefault((id(subscribers.of(name)), count), []).append(name)
    if group.rack_aware and needs_racks(group, ordered, subscribers):
        assign_with_racks(group, ordered, subscribers, alike.values(), shares)
    else:
        for names in alike.values():
            places = subscribers.of(names[0])
            give(shares, places, divided(group.counts[names[0]], len(places)), names)
    by_id = dict(zip((member.member_id for member in ordered), shares, strict=True))
    return {member_id: by_id[member_id] for member_id in group.ids}


def divided(count: int, members: int) -> list[range]:
    """The non-empty contiguous ranges of ``count`` partitions over ``members``, larger ones first."""
    base, extra = divmod(count, members)
    large = extra * (base + 1)
    bounds = [*range(0, large, base + 1), *(range(large, count, base) if base else ()), count]
    return [range(start, end) for start, end in pairwise(bounds)]
