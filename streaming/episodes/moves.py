"""Which partitions a round gives to another member than the last that owned them."""

from __future__ import annotations

from collections.abc import Mapping

from streaming.wire.diffs import MemberDiff
from streaming.wire.events import Partitions

#: ``{topic: {partition: the member that owned it last}}``.
LastOwners = dict[str, dict[int, str]]


def moves(
    last_owners: Mapping[str, Mapping[int, str]], members: Mapping[str, MemberDiff]
) -> tuple[LastOwners, Partitions]:
    """The last owners of what is free after a round, and the partitions that another member got.

    Args:
        last_owners: of what was free before it.
        members: what it changed for each.
    """
    freed = {topic: dict(owners) for topic, owners in last_owners.items()}
    for member_id, change in members.items():
        for topic, partitions in change.revoked.items():
            freed.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    moved: Partitions = {}
    for member_id, change in members.items():
        for topic, partitions in change.assigned.items():
            free = freed.get(topic)
            if free is None:
                continue
            # A partition that two members own stands in `members` only; violations name it.
            found = [partition for partition in partitions if free.pop(partition, member_id) != member_id]
            if found:
                moved.setdefault(topic, []).extend(found)
    return {topic: owners for topic, owners in freed.items() if owners}, moved
