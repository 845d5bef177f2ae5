"""``range`` of the consumer protocol (RangeAssignor, KIP-848): each topic in contiguous ranges over its subscribers.

Static members come first; sizes of ranges of one topic differ by at most one. The assignor is neither sticky nor
rack-aware. O(members log members + number of ranges).
"""

from collections.abc import Mapping, Sequence

from assignors.assignment import even_ranges
from assignors.consumer.group import audiences, validated_group
from assignors.model import Assignment, Member, Topic, static_members_first


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's new target assignment, under the server-side assignor."""
    group = validated_group(topics, members)
    ordered = sorted(group.members, key=static_members_first)
    answer: Assignment = {member.member_id: {} for member in members}
    for subscribers, names in audiences(group, ordered):
        topics_by_size: dict[int, list[str]] = {}
        for name in names:
            topics_by_size.setdefault(group.topics[name].partitions, []).append(name)
        for size, topics_of_size in topics_by_size.items():
            for place, share in zip(subscribers, even_ranges(size, len(subscribers)), strict=False):
                member = ordered[place]
                before = member.owned.get(topics_of_size[0])
                answer[member.member_id].update(dict.fromkeys(topics_of_size, before if before == share else share))
    for member in members:
        if type(member.owned) is dict and member.owned == answer[member.member_id]:
            answer[member.member_id] = member.owned
    return answer
