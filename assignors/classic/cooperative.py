"""``cooperative-sticky`` (CooperativeStickyAssignor): sticky, in two rounds.

The balance is ``sticky``'s; a partition that must first be revoked from its owner is withheld from its new one, who
gets it in the rebalance that follows the revocation. ``owned`` and ``generation`` are those of the subscription.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.classic import native
from assignors.classic.sticky import balanced
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "cooperative-sticky"
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ("COOPERATIVE", "EAGER")


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Every member's share in this round; what changes hands is in no one's.

    Raises:
        InvalidGroup: see ``assignors.classic.group.checked``; or a negative partition is owned, or so many that do
            not exist that others find no place.
    """
    answer = native.client_shares(NAME, topics, members)
    return plainly(topics, members) if answer is None else answer


def plainly(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """As :func:`assign`, without native code."""
    return balanced(topics, members, withhold=True)
