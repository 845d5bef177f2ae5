"""``roundrobin`` (RoundRobinAssignor): sorted partitions to sorted members in a circle.

Goals: one circle over all topics, so that counts differ by at most one where subscriptions are equal. Not sticky,
not rack-aware. O(members·log members + given shares): within a topic the circle is an arithmetic progression.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from assignors.classic.group import checked
from assignors.classic.order import sorted_members
from assignors.classic.subscribers import Subscribers
from assignors.java import in_string_order
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "roundrobin"
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ("EAGER",)


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Every member's share; the pointer moves on after each partition and passes who doesn't subscribe.

    Raises:
        InvalidGroup: see ``assignors.classic.group.checked``.
    """
    group = checked(topics, members)
    answer: Assignment = {member.member_id: {} for member in members}
    circle = sorted_members(members)
    shares = [answer[member.member_id] for member in circle]
    subscribers = Subscribers(circle)
    strides: dict[tuple[int, int], list[range]] = {}
    pointer = 0
    for name in in_string_order(group.counts):
        count = group.counts[name]
        places = subscribers.of(name)
        size = len(places)
        stride = strides.get((count, size))
        if stride is None:
            stride = strides[count, size] = [range(first, count, size) for first in range(min(count, size))]
        start = bisect_left(places, pointer) % size
        turn = places[start : start + count]
        turn += places[: min(start, count - len(turn))]
        for place, share in zip(turn, stride, strict=True):
            shares[place][name] = share
        pointer = (places[(start + count - 1) % size] + 1) % len(circle)
    return answer
