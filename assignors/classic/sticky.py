"""``sticky`` (StickyAssignor) and ``cooperative-sticky`` (CooperativeStickyAssignor): balance, then stickiness.

``sticky_uniform`` handles groups with equal subscriptions, ``sticky_general`` all other groups. A member's ``owned``
and ``generation`` come from its user data under ``sticky``, and from its subscription under ``cooperative-sticky``.
"""

from collections.abc import Mapping, Sequence

from assignors.classic.group import Racks, can_use_racks, in_map_order, read_group, read_owned
from assignors.classic.sticky_general import build as build_general
from assignors.classic.sticky_uniform import build as build_uniform
from assignors.model import Assignment, Member, Topic


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's partitions under ``sticky``.

    Kafka fails for two kinds of groups with unequal subscriptions; this function returns an assignment for both. Kafka
    throws a NullPointerException if a partition's owner of an older generation already has all partitions it can have;
    this function skips that owner. Kafka may move partitions in circles forever; this function stops at the first
    repetition.
    """
    return _balanced(topics, members, cooperative=False)


def assign_cooperative(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's partitions in this round of ``cooperative-sticky``.

    The assignment is as balanced as that of ``sticky``. A partition that its owner must first revoke is unassigned in
    this round; the rebalance after the revocation assigns the partition.
    """
    return _balanced(topics, members, cooperative=True)


def _balanced(topics: Mapping[str, Topic], members: Sequence[Member], *, cooperative: bool) -> Assignment:
    """Return the balanced assignment; with ``cooperative``, partitions that an owner must revoke first are left out."""
    group = read_group(topics, members)
    if not members:
        return {}
    ordered = in_map_order(members)
    racks = Racks(group, ordered) if can_use_racks(group) else None
    owned = read_owned(group, ordered)
    build = build_uniform if equal_subscriptions(ordered) else build_general
    shares = build(group, ordered, owned, racks, cooperative=cooperative)
    shares_by_id = {member.member_id: share for member, share in zip(ordered, shares, strict=True)}
    return {member.member_id: shares_by_id[member.member_id] for member in members}


def equal_subscriptions(members: Sequence[Member]) -> bool:
    """Return True if subscriptions are equal by the rules of ``AbstractStickyAssignor.allSubscriptionsEqual``.

    While the reference subscription is empty, the next member replaces it: earlier members may subscribe to nothing,
    and still get partitions. Java compares the sizes of lists, so a topic that is listed twice counts twice.
    """
    first_topics: set[str] = set()
    known_topics: tuple[str, ...] | None = None
    for member in members:
        if member.topics is known_topics:
            continue
        if not first_topics:
            first_topics = set(member.topics)
        elif len(member.topics) != len(first_topics) or not first_topics.issuperset(member.topics):
            return False
        else:
            known_topics = member.topics
    return True
