"""``range`` of the consumer protocol (RangeAssignor, KIP-848): contiguous ranges by topic.

Goals, in order:
1. each topic's partitions in contiguous ranges over its subscribers, static members first, sizes at most one apart;
2. topics with the same subscribers and number of partitions are co-partitioned, as a consequence.

Neither sticky nor rack-aware. O(members log members + subscriptions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.consumer.group import empty, resolve, taken
from assignors.java import string_key
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "range"
#: The coordinator assigns: no client protocol carries it.
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ()


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """The new target assignment of every member.

    Raises:
        BadInput: as ``uniform`` does, although ``owned`` decides nothing here.
    """
    group = resolve(topics, members)
    taken(group)
    subscribers: dict[str, list[str]] = {}
    for member in sorted(group.members, key=_order):
        for name in group.subscribed(member):
            subscribers.setdefault(name, []).append(member.member_id)
    answer = empty(members)
    for name, ids in subscribers.items():
        base, extra = divmod(group.topics[name].partitions, len(ids))
        start = 0
        for position, member_id in enumerate(ids[: group.topics[name].partitions]):
            end = start + base + (position < extra)
            answer[member_id][name] = range(start, end)
            start = end
    return answer


def _order(member: Member) -> tuple[bool, bytes]:
    """``RangeAssignor.sortMemberIds``: static members by instance id, then dynamic ones by member id."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, string_key(name)
