"""Incremental cooperative (KIP-429): members go on consuming, and give up only what moves.

A member's own list decides how it rebalances: one that still lists an eager assignor gives everything up, also
in a group that otherwise cooperates (the two-bounce migration).
"""

from __future__ import annotations

from assignors.model import Share
from assignors.shares import minus, only
from streaming.protocols import vote
from streaming.protocols.classic.eager import Eager
from streaming.protocols.classic.group import ClassicMember
from streaming.protocols.classic.machine import Classic
from streaming.protocols.classic.step import ClassicStep
from streaming.protocols.vocabulary import NOTHING, Setup


class Cooperative(Eager):
    """Keeps what it owns through the join, revokes owned − assigned after it, and joins again if that was any."""

    def keeps(self, member: ClassicMember) -> Share:
        """All it owns of topics that it still subscribes to (``onJoinPrepare``)."""
        if not vote.cooperative(self.assignors(member)):
            return NOTHING
        return only(member.owned, member.client.topics)

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: Share) -> bool:
        """``onJoinComplete``: "need to revoke partitions and re-join"."""
        del step
        return share is not member.owned and bool(minus(member.owned, share))


def machine(setup: Setup) -> Classic:
    """The cooperative protocol."""
    return Classic("cooperative", setup, Cooperative(setup))
