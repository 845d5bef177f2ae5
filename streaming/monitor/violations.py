"""What a round's result breaks, as lines for people: the rule of :mod:`assignors.invariants` that always holds.

Balance and stickiness are an assignor's promises and not looked at here: a group that moves between two rounds, or
that a client of its own kind leads, breaks them rightly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors import invariants
from assignors.model import Member, Topic
from streaming.monitor.state import GroupState, MemberState, ownership


def found(state: GroupState, owned_by_topic: Mapping[str, Sequence[int]]) -> list[str]:
    """Partitions with two owners, owned without a subscription, or beyond the partition count.

    Members of a share group may own the same partitions. Tasks of Connect and of streams groups are not subscribed
    to and have no count: all that can be wrong with them is two owners.

    Args:
        state: a group after a round.
        owned_by_topic: :func:`assignors.shares.held` of its members.
    """
    if state.holds_tasks:
        return [] if _once(owned_by_topic) else _lines(invariants.single(ownership(state.members)))
    if _sound(state, owned_by_topic):
        return []
    topics = {name: Topic(name, topic.partitions) for name, topic in state.topics.items() if topic.partitions}
    for member in state.members:
        for name, partitions in member.owned.items():
            if not _count(state, name):  # never announced: its partitions are not held against anyone
                beyond = topics[name].partitions if name in topics else 0
                topics[name] = Topic(name, max(partitions[-1] + 1, beyond))
    members = [Member(member.member_id, tuple(_topics(member))) for member in state.members]
    owned = ownership(state.members)
    # Whoever looks at one member at a time sees no second owner.
    each = [members] if state.kind != "share" else [[member] for member in members]
    groups = [
        invariants.group(
            *(state.protocol, state.assignor or "", topics, some),
            {member.member_id: owned[member.member_id] for member in some},
        )
        for some in each
    ]
    return [line for group in groups for line in _lines(invariants.sound(group))]


def _lines(violations: Sequence[invariants.Violation]) -> list[str]:
    return [violation.message for violation in violations]


def _once(owned: Mapping[str, Sequence[int]]) -> bool:
    return all(len(set(numbers)) == len(numbers) for numbers in owned.values())


def _count(state: GroupState, topic: str) -> int:
    """Partitions of a topic as announced, 0 when it was not or has no metadata."""
    known = state.topics.get(topic)
    return known.partitions if known is not None else 0


def _topics(member: MemberState) -> list[str]:
    """A collector that could not decode a subscription gives none: nothing to hold against the member."""
    return member.topics or list(member.owned)


def _sound(state: GroupState, owned: Mapping[str, Sequence[int]]) -> bool:
    """Whether nothing can be wrong, at a fraction of the cost: every round is looked at."""
    alone = state.kind != "share"
    for topic, partitions in owned.items():
        twice = alone and len(set(partitions)) != len(partitions)
        if twice or max(partitions) >= _count(state, topic) > 0:
            return False
    for member in state.members:
        topics = member.topics
        for topic in member.owned:
            if topic not in topics and topics:
                return False
    return True
