"""What changed for a member: owned before, after → revoked, assigned, kept.

``kept = owned − revoked``, ``after = kept + assigned``, ``revoked ∩ assigned = ∅``. On the stream's hot path:
a share that did not change costs one comparison a topic, and its list is passed on, not copied.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from assignors.model import Share

#: ``{topic: ascending partitions}`` in lists, ready for JSON. A topic with nothing is left out.
Lists = dict[str, list[int]]
#: ``{topic: {partition: the member that owned it last}}``.
LastOwners = dict[str, dict[int, str]]


#: From so many partitions on a set is worth making.
_SET_FROM = 8


class ShareDiff(NamedTuple):
    """One member's change. Lists may be the very objects that were handed in: treat them as frozen."""

    revoked: Lists
    assigned: Lists
    kept: Lists


class Change(Protocol):
    """What a member gave up and got."""

    @property
    def revoked(self) -> Lists:
        """Partitions that it gave up."""

    @property
    def assigned(self) -> Lists:
        """Partitions that it got."""


def as_list(partitions: Sequence[int]) -> list[int]:
    """The same partitions as a list; a list is returned as it is."""
    return partitions if isinstance(partitions, list) else list(partitions)


def as_lists(share: Share) -> Lists:
    """The same share in lists, without empty topics."""
    return {topic: as_list(partitions) for topic, partitions in share.items() if partitions}


def size(share: Share) -> int:
    """How many partitions a share holds."""
    return sum(map(len, share.values()))


def diff(owned: Share, after: Share) -> ShareDiff:
    """One member's change from ``owned`` to ``after``. Both hold ascending partitions, in ranges or lists."""
    if owned == after:
        return ShareDiff({}, {}, as_lists(owned))
    revoked: Lists = {}
    assigned: Lists = {}
    kept: Lists = {}
    for topic, before in owned.items():
        now = after.get(topic, ())
        if before == now:
            if before:
                kept[topic] = as_list(before)
        else:
            gone, new, stay = _split(before, now)
            if gone:
                revoked[topic] = gone
            if new:
                assigned[topic] = new
            if stay:
                kept[topic] = stay
    for topic, now in after.items():
        if now and topic not in owned:
            assigned[topic] = as_list(now)
    return ShareDiff(revoked, assigned, kept)


def _split(before: Sequence[int], now: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Gone, new and staying partitions of one topic."""
    in_now = _lookup(now)
    stay = [p for p in before if p in in_now]
    if not stay:
        return as_list(before), as_list(now), stay
    if len(stay) == len(before):
        gone, stay = [], as_list(before)
    else:
        gone = [p for p in before if p not in in_now]
    if len(stay) == len(now):
        return gone, [], stay
    in_before = _lookup(before)
    return gone, [p for p in now if p not in in_before], stay


def _lookup(partitions: Sequence[int]) -> Container[int]:
    """What answers ``in`` fast: a ``range`` does, and so does a short list; a longer one needs a set."""
    return (
        partitions if isinstance(partitions, range) or len(partitions) < _SET_FROM else frozenset(partitions)
    )


def diff_members(before: Mapping[str, Share], after: Mapping[str, Share]) -> dict[str, ShareDiff]:
    """Every member's change; one that is on one side only owned, or has, nothing on the other."""
    nothing: Share = {}
    members = dict.fromkeys([*before, *after])
    return {member: diff(before.get(member, nothing), after.get(member, nothing)) for member in members}


def owners(assignment: Mapping[str, Share]) -> dict[str, dict[int, str]]:
    """``{topic: {partition: member}}``; of several owners the last one listed stands."""
    found: dict[str, dict[int, str]] = {}
    for member, share in assignment.items():
        for topic, partitions in share.items():
            found.setdefault(topic, {}).update(dict.fromkeys(partitions, member))
    return found


def moved(before: Mapping[str, Share], after: Mapping[str, Share]) -> int:
    """How many partitions have another owner than before; one that had none, or has none now, did not move."""
    last = owners(before)
    count = 0
    for member, share in after.items():
        for topic, partitions in share.items():
            was = last.get(topic)
            if was is not None:
                count += sum(was.get(p, member) != member for p in partitions)
    return count


def moves(
    last_owners: Mapping[str, Mapping[int, str]], members: Mapping[str, Change]
) -> tuple[LastOwners, Lists]:
    """The last owners of what is free after a round, and the partitions that another member got.

    Args:
        last_owners: of what was free before it.
        members: what it changed for each.
    """
    freed = {topic: dict(owners) for topic, owners in last_owners.items()}
    for member_id, change in members.items():
        for topic, partitions in change.revoked.items():
            freed.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    moved: Lists = {}
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
