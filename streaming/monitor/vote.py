"""Which assignor a group runs, and how each client rebalances, from the members as the monitor knows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streaming.monitor.state import MemberState
from streaming.protocols import vote
from streaming.protocols.vocabulary import InconsistentGroupProtocol

__all__ = ["InconsistentGroupProtocol", "classic", "consumer", "cooperative", "protocol"]

#: What a classic member without named assignors counts as.
DEFAULT_CLASSIC = ("range",)
#: The first of ``group.consumer.assignors``: what the coordinator takes when no member names one.
DEFAULT_CONSUMER = "uniform"


def classic(members: Sequence[MemberState]) -> str:
    """``ClassicGroup.selectProtocol``: see :func:`streaming.protocols.vote.select`.

    Raises:
        InconsistentGroupProtocol: there is no candidate.
    """
    lists = [member.assignors for member in members]
    if lists.count(lists[0]) == len(lists):  # as nearly always
        return (lists[0] or DEFAULT_CLASSIC)[0]
    return vote.select({member.member_id: member.assignors or DEFAULT_CLASSIC for member in members})


def consumer(members: Sequence[MemberState]) -> str:
    """``ModernGroup.preferredServerAssignor``: the most named by consumer members, else ``uniform``.

    A member names one (``group.remote.assignor``): the first of its list. Classic members of a group under
    migration name none.
    """
    votes = [
        member.assignors[0] for member in members if member.group_protocol == "consumer" and member.assignors
    ]
    return vote.most_votes(votes) if votes else DEFAULT_CONSUMER


def protocol(members: Iterable[MemberState]) -> str:
    """``consumer`` as soon as one member speaks it (KIP-848's online migration), else ``classic``."""
    return "consumer" if "consumer" in [member.group_protocol for member in members] else "classic"


def cooperative(member: MemberState) -> bool:
    """Whether this client keeps its partitions through a rebalance."""
    return vote.cooperative(tuple(member.assignors or DEFAULT_CLASSIC))
