"""``range`` of the consumer protocol (RangeAssignor, KIP-848): each topic in contiguous ranges over its subscribers.

Static members come first, sizes are at most one apart. Neither sticky nor rack-aware. O(members log members + shares).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.consumer.group import audiences, empty, resolve
from assignors.java import string_key
from assignors.model import Assignment, Member, Topic


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's new target assignment."""
    group = resolve(topics, members)
    ordered = sorted(group.members, key=_order)
    answer = empty(members)
    for subscribers, names in audiences(group, ordered):
        by_size: dict[int, list[str]] = {}
        for name in names:
            by_size.setdefault(group.topics[name].partitions, []).append(name)
        for size, alike in by_size.items():
            base, extra = divmod(size, len(subscribers))
            start = 0
            for place, at in enumerate(subscribers[:size]):
                end = start + base + (place < extra)
                member, share = ordered[at], range(start, end)
                before = member.owned.get(alike[0])
                partitions = share if before is None or before != share else before
                answer[member.member_id].update(dict.fromkeys(alike, partitions))
                start = end
    for member in members:
        if type(member.owned) is dict and member.owned == answer[member.member_id]:
            answer[member.member_id] = member.owned
    return answer


def _order(member: Member) -> tuple[bool, bytes]:
    """Return the sort key: static members by instance id, then dynamic ones by member id (``sortMemberIds``)."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, string_key(name)
