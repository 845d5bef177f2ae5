"""``roundrobin`` (RoundRobinAssignor): sorted partitions to members in a circle, skipping non-subscribers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.classic.order import sorted_members
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "roundrobin"
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ("EAGER",)


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Every member's share; the pointer moves on after each partition."""
    answer: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in members}
    ordered = sorted_members(members)
    pointer = 0
    for name in sorted({name for member in members for name in member.topics}):
        topic = topics.get(name)
        for partition in range(topic.partitions if topic else 0):
            while name not in ordered[pointer % len(ordered)].topics:
                pointer += 1
            answer[ordered[pointer % len(ordered)].member_id].setdefault(name, []).append(partition)
            pointer += 1
    return {member: dict(share) for member, share in answer.items()}
