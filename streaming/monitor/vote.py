"""Which assignor a group runs, as its coordinator decides it, and how each client rebalances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from assignors import registry
from assignors.errors import BadInput, UnknownAssignor
from assignors.java import in_hash_order
from streaming.monitor.state import MemberState

#: What a classic member without named assignors counts as.
DEFAULT_CLASSIC = ("range",)
#: The first of ``group.consumer.assignors``: what the coordinator takes when no member names one.
DEFAULT_CONSUMER = "uniform"


class InconsistentGroupProtocol(BadInput):
    """The members have no assignor in common; Kafka refuses such a JoinGroup (INCONSISTENT_GROUP_PROTOCOL)."""


def _most_votes(votes: Iterable[str]) -> str:
    """``Stream.max`` over a HashMap's entries: of several the first in HashMap order."""
    counted = Counter(votes)
    most = max(counted.values())
    tied = [name for name, count in counted.items() if count == most]
    if len(tied) == 1:
        return tied[0]
    return next(name for name in in_hash_order(list(counted)) if name in tied)


def classic(members: Sequence[MemberState]) -> str:
    """``ClassicGroup.selectProtocol``: candidates all support; each member votes for its first candidate.

    Raises:
        InconsistentGroupProtocol: there is no candidate.
    """
    lists = [member.assignors or DEFAULT_CLASSIC for member in members]
    first = lists[0]
    if all(names == first for names in lists):
        return first[0]
    candidates = set(first).intersection(*lists)
    if not candidates:
        named = "; ".join(
            f"{member.member_id}: {', '.join(names)}" for member, names in zip(members, lists, strict=True)
        )
        raise InconsistentGroupProtocol(f"assignors: no assignor is supported by all members ({named})")
    return _most_votes(next(name for name in names if name in candidates) for names in lists)


def consumer(members: Sequence[MemberState]) -> str:
    """``ModernGroup.preferredServerAssignor``: the most named by consumer members, else ``uniform``.

    A member names one (``group.remote.assignor``): the first of its list. Classic members of a group under
    migration name none.
    """
    votes = [
        member.assignors[0] for member in members if member.group_protocol == "consumer" and member.assignors
    ]
    return _most_votes(votes) if votes else DEFAULT_CONSUMER


def protocol(members: Iterable[MemberState]) -> str:
    """``consumer`` as soon as one member speaks it (KIP-848's online migration), else ``classic``."""
    return "consumer" if any(member.group_protocol == "consumer" for member in members) else "classic"


def cooperative(member: MemberState) -> bool:
    """Whether this client keeps its partitions through a rebalance.

    ``ConsumerCoordinator``: the highest protocol that *all* its assignors support. A client in the middle of
    an upgrade, with ``[cooperative-sticky, range]``, still gives everything up before it joins.
    """
    return all(_supports_cooperative(name) for name in member.assignors or DEFAULT_CLASSIC)


@cache
def _supports_cooperative(name: str) -> bool:
    try:
        return "COOPERATIVE" in registry.find("classic", name).SUPPORTED_PROTOCOLS
    except UnknownAssignor:
        return False  # a list may name assignors of the user's own; only the chosen one must be ours
