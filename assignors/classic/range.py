"""``range`` (RangeAssignor), rack-unaware for now: contiguous ranges by topic, the first members one more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.classic.order import sorted_members
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "range"
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ("EAGER",)


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Every member's contiguous share of every topic it subscribes to."""
    answer: Assignment = {member.member_id: {} for member in members}
    ordered = sorted_members(members)
    for name in {name for member in members for name in member.topics}:
        topic = topics.get(name)
        if topic is None or topic.partitions == 0:
            continue
        subscribers = [member for member in ordered if name in member.topics]
        base, extra = divmod(topic.partitions, len(subscribers))
        for position, member in enumerate(subscribers):
            start = position * base + min(position, extra)
            share = range(start, start + base + (position < extra))
            if share:
                answer[member.member_id][name] = share
    return answer
