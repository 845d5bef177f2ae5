"""``roundrobin`` (RoundRobinAssignor): assigns sorted partitions to sorted members in turn.

Goals: one circle of members over all topics, so that partition counts differ by at most one if subscriptions are
equal. The assignor is not sticky and not rack-aware. O(members·log members + size of the assignment): within a
topic each member's partitions are an arithmetic progression.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from assignors.classic.group import read_group, sorted_members, subscribers_by_topic
from assignors.java import in_string_order
from assignors.model import Assignment, Member, Topic


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's partitions under ``roundrobin``; members that don't subscribe to a topic are skipped."""
    counts = read_group(topics, members).counts
    ordered_members = sorted_members(members)
    subscribers = subscribers_by_topic(ordered_members)
    assignment: Assignment = {member.member_id: {} for member in ordered_members}
    next_position = 0
    for name in in_string_order(counts):
        count, places = counts[name], subscribers[name]
        size = len(places)
        start = bisect_left(places, next_position) % size
        for first in range(min(count, size)):
            member = ordered_members[places[(start + first) % size]]
            assignment[member.member_id][name] = range(first, count, size)
        next_position = (places[(start + count - 1) % size] + 1) % len(ordered_members)
    return assignment
