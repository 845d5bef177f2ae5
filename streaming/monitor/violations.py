"""Violations of the rules that every assignment keeps (:func:`assignors.invariants.sound`), as lines for people.

Balance and stickiness are promises of an assignor and not checked here: a group between two rounds, or led by a
client with rules of its own, may break them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors import invariants
from assignors.model import Member, Topic
from streaming.monitor.state import GroupState, MemberState, ownership


def violations_of(state: GroupState, owned_by_topic: Mapping[str, Sequence[int]]) -> list[str]:
    """Return partitions with two owners, owned without a subscription, or beyond the partition count.

    Members of a share group may own the same partitions. Tasks of Connect and of streams groups have neither
    subscriptions nor counts: only a second owner is a violation.

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
    # One member at a time can have no second owner.
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
    """Return a topic's published partition count; 0 if there is none."""
    known = state.topics.get(topic)
    return known.partitions if known is not None else 0


def _topics(member: MemberState) -> list[str]:
    """Return the member's subscription; what it owns if the collector could not decode one."""
    return member.topics or list(member.owned)


def _sound(state: GroupState, owned: Mapping[str, Sequence[int]]) -> bool:
    """True if there is no violation, by a quick check; every round is checked."""
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
