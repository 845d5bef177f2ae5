"""``sticky`` (StickyAssignor, eager): balance first, then keep what members own. It only dispatches.

Equal subscriptions go to ``sticky_uniform``, others to ``sticky_general``. ``owned`` and ``generation`` of a member
stand for its user data, as a Java client sends it (``user_data`` reads and writes the bytes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.classic import native
from assignors.classic.group import Racks, checked, in_map_order, racks_matter
from assignors.classic.owned import read_owned
from assignors.classic.sticky_general import build as build_general
from assignors.classic.sticky_uniform import build as build_uniform
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "sticky"
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ("EAGER",)


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Every member's share.

    Two kinds of groups with unequal subscriptions that Kafka has no answer for get one here. Where it throws a
    NullPointerException (a partition's owner of an older generation has all it can have), that owner is passed
    over. Where it moves partitions round in circles for ever, the first repetition ends it.

    Raises:
        InvalidGroup: see ``assignors.classic.group.checked``; or a negative partition is owned, or so many that do
            not exist that others find no place.
    """
    answer = native.client_shares(NAME, topics, members)
    return plainly(topics, members) if answer is None else answer


def plainly(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """As :func:`assign`, without native code."""
    return balanced(topics, members, withhold=False)


def balanced(topics: Mapping[str, Topic], members: Sequence[Member], *, withhold: bool) -> Assignment:
    """The balanced shares; ``withhold`` leaves out each partition that its old owner must revoke first."""
    group = checked(topics, members)
    if not members:
        return {}
    ordered = in_map_order(members)
    racks = Racks(group, ordered) if racks_matter(group) else None
    owned = read_owned(group, ordered)
    build = build_uniform if equal_subscriptions(ordered) else build_general
    shares = build(group, ordered, owned, racks, withhold=withhold)
    by_id = {member.member_id: share for member, share in zip(ordered, shares, strict=True)}
    return {member.member_id: by_id[member.member_id] for member in members}


def equal_subscriptions(members: Sequence[Member]) -> bool:
    """``AbstractStickyAssignor.allSubscriptionsEqual``, with its quirks.

    While the reference is empty the next member sets it again: members before it may subscribe to nothing, and are
    then given partitions of topics that they did not ask for. Sizes are of lists: a topic listed twice counts.
    """
    reference: set[str] = set()
    alike: tuple[str, ...] | None = None
    for member in members:
        if member.topics is alike:
            continue
        if not reference:
            reference = set(member.topics)
        elif len(member.topics) != len(reference) or not reference.issuperset(member.topics):
            return False
        else:
            alike = member.topics
    return True
