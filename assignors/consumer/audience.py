"""Who subscribes to what, with equal subscriptions looked at once.

Members that share a subscription are one bucket, topics with the same buckets one audience: what a group of
thousands of members and topics subscribes to is then a handful of lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assignors.consumer.group import ServerGroup
from assignors.model import Member


@dataclass(slots=True, eq=False)
class Audience:
    """The subscribers of ``topics``: ascending positions in the members' list.

    ``alone``: none of them subscribes to anything outside ``topics``.
    """

    members: Sequence[int]
    alone: bool
    topics: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Every audience, and by member what it subscribes to (topics with metadata; shared between equals)."""

    audiences: list[Audience]
    of_member: list[dict[str, None]]


def subscriptions(group: ServerGroup, members: Sequence[Member]) -> Subscriptions:
    """The audiences among ``members``; O(members + distinct subscriptions), audiences in no promised order."""
    buckets: list[list[int]] = []
    names: list[dict[str, None]] = []
    of_member: list[dict[str, None]] = []
    known: dict[tuple[str, ...], int] = {}
    same: dict[int, int] = {}
    for position, member in enumerate(members):
        bucket = same.get(id(member.topics))
        if bucket is None:
            bucket = same[id(member.topics)] = known.setdefault(member.topics, len(buckets))
            if bucket == len(buckets):
                buckets.append([])
                names.append({name: None for name in member.topics if name in group.topics})
        buckets[bucket].append(position)
        of_member.append(names[bucket])
    heard_by: dict[str, list[int]] = {}
    for bucket, subscribed in enumerate(names):
        for name in subscribed:
            heard_by.setdefault(name, []).append(bucket)
    audiences: dict[tuple[int, ...], Audience] = {}
    for name, heard in heard_by.items():
        audience = audiences.get(key := tuple(heard))
        if audience is None:
            one = len(key) == 1
            positions = buckets[key[0]] if one else sorted(at for bucket in key for at in buckets[bucket])
            audience = audiences[key] = Audience(positions, one)
        audience.topics.append(name)
    for key, audience in audiences.items():
        audience.alone = audience.alone and len(audience.topics) == len(names[key[0]])
    return Subscriptions(list(audiences.values()), of_member)
