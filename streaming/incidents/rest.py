"""What is wrong with a group at rest: :func:`at_rest`, asked once each time a group has become quiet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from streaming.episodes.words import count, partitions, people
from streaming.incidents.seen import AtRest, MemberAtRest, Trouble
from streaming.wire.episodes import IncidentKind, Waiting
from streaming.wire.events import Evidence
from streaming.wire.names import called

#: The kinds that only a group at rest shows: they are over when it rests without them.
KINDS: Final[tuple[IncidentKind, ...]] = (
    "stuck",
    "partition-without-owner",
    "idle-members",
    "skew",
    "half-migration",
)
#: Where the evidence comes from.
SOURCE: Final = "comparison"


def at_rest(group: AtRest, waiting: Sequence[Waiting], skew: float) -> Iterator[Trouble]:
    """What is wrong; nothing is with a group without members, which rests.

    Args:
        group: as it is.
        waiting: what its last episode still waits for.
        skew: as named in :class:`~streaming.incidents.seen.Thresholds`.
    """
    if not group.members:
        return
    named = [one for one in waiting if one.member_id is not None or not group.unassigned]
    if named:
        yield _stuck(group, named)
    if group.unassigned:
        yield _unowned(group)
    if group.kind != "consumer":
        return
    total = sum(group.counts.get(topic, 0) for topic in _topics(group))
    idle = [one for one in group.members if not one.partitions]
    if idle and len(group.members) > total > 0:
        yield _idle(group, idle, total)
    heavy = _heavy(group, skew)
    if heavy is not None:
        yield heavy
    classic = [one for one in group.members if one.classic]
    if group.protocol == "consumer" and 0 < len(classic) < len(group.members):
        yield _half(group, classic)


def _topics(group: AtRest) -> set[str]:
    return {topic for one in group.members for topic in one.topics}


def _some(kind: IncidentKind, group: AtRest, members: Sequence[MemberAtRest], what: str) -> Trouble:
    """Members of the group of which something is wrong: ``{who}`` in ``what`` stands for what they are called."""
    names = called({one.member_id: one.person for one in group.members})
    ids = [one.member_id for one in members]
    said = what.replace("{who}", people(ids, names))
    return Trouble(kind, said, ids, {one.member_id: one.person for one in members})


def _stuck(group: AtRest, waiting: Sequence[Waiting]) -> Trouble:
    persons = {one.member_id: one.person for one in group.members}
    names = called(persons)
    held: dict[str, set[int]] = {}
    for one in waiting:
        for topic, numbers in one.partitions.items():
            held.setdefault(topic, set()).update(numbers)
    ids = list(dict.fromkeys(one.member_id for one in waiting if one.member_id is not None))
    said = "; ".join(dict.fromkeys(one.reason for one in waiting[:3]))
    about = f"{people(ids, names)}: " if ids else ""
    return Trouble(
        "stuck",
        f"{group.group_id} does not get on with its rebalance: {about}{said}",
        ids,
        {one: persons[one] for one in ids if one in persons},
        {topic: sorted(numbers) for topic, numbers in sorted(held.items())},
        evidence=[Evidence(source="episode", reason=one.reason) for one in waiting[:3]],
    )


def _unowned(group: AtRest) -> Trouble:
    has = f"though it has {count(len(group.members), 'member')}"
    what = f"{partitions(group.unassigned)} of {group.group_id}: nobody owns them, {has}"
    return Trouble("partition-without-owner", what, partitions=group.unassigned)


def _idle(group: AtRest, idle: Sequence[MemberAtRest], total: int) -> Trouble:
    there = f"{count(len(group.members), 'member')} for {count(total, 'partition')}"
    what = f"{group.group_id} has {there}: nothing is left for {{who}}"
    return _some("idle-members", group, idle, what)


def _half(group: AtRest, classic: Sequence[MemberAtRest]) -> Trouble:
    of = f"{len(classic)} of {count(len(group.members), 'member')}"
    what = f"{group.group_id} is half migrated: {of} still use the classic protocol: {{who}}"
    return _some("half-migration", group, classic, what)


def _heavy(group: AtRest, skew: float) -> Trouble | None:
    """Who owns much more than subscriptions ask for; None: nobody.

    The fair share of a member: its part of each of its topics, were they shared out evenly among their subscribers.
    Subscriptions alone may force more upon it, up to the mean of all members, which is fair as well.
    """
    subscribers = Counter(topic for one in group.members for topic in set(one.topics))
    mean = sum(one.partitions for one in group.members) / len(group.members)
    worst: tuple[float, MemberAtRest, int] | None = None
    for one in group.members:
        share = sum(group.counts.get(topic, 0) / subscribers[topic] for topic in set(one.topics))
        fair = ceil(max(share, mean))
        times = one.partitions / fair if fair else 0.0
        if one.partitions > fair + 1 and times > skew and (worst is None or times > worst[0]):
            worst = times, one, fair
    if worst is None:
        return None
    _, one, fair = worst
    owns = f"owns {count(one.partitions, 'partition')} of {group.group_id}, its fair share is {fair}"
    by = Evidence(source=SOURCE, reason=f"{one.partitions} partitions, fair share {fair}")
    return _some("skew", group, [one], f"{{who}} {owns}")._replace(evidence=[by])
