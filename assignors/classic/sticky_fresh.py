"""Sticky where all subscribe to the same topics and no one owns anything: a plain circle.

What ``sticky_uniform`` comes to in that case: every member is below the floor, so partitions in their order go
round the members in the order of their ids until none is left. Map order and owners don't matter.
O(members·log members + shares).
"""

from __future__ import annotations

from collections.abc import Iterator

from assignors.classic.circle import Turn, deal
from assignors.classic.group import ClientGroup, id_keys
from assignors.java import in_string_order
from assignors.model import Assignment


def is_fresh(group: ClientGroup) -> bool:
    """Whether this builder answers for the group, when racks don't matter: one subscription, nothing owned."""
    if any([member.owned for member in group.members]):  # noqa: C419 - three times as fast
        return False
    first, *others = group.subscriptions
    return not others and len(set(first)) == len(first)  # with a topic listed twice, Java sees them differ


def build_fresh(group: ClientGroup) -> Assignment:
    """Every member's share."""
    keys = id_keys(group.ids)
    places = sorted(range(len(keys)), key=keys.__getitem__)
    return deal(_turns(group, places), group.ids)


def _turns(group: ClientGroup, places: list[int]) -> Iterator[Turn]:
    start = 0
    for name in in_string_order(group.counts):
        count = group.counts[name]
        yield name, count, places, start
        start = (start + count) % len(places)
