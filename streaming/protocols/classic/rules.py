"""Rules of the consumers' JoinGroup protocols: eager, incremental cooperative (KIP-429) and the first version.

A member's own list decides how it rebalances under ``cooperative``: one that still lists an eager assignor gives
everything up, also in a group that otherwise cooperates (the two-bounce migration).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.model import Member as AssignorMember
from assignors.model import Share
from assignors.shares import minus, only
from streaming.protocols import vote
from streaming.protocols.classic.step import ClassicMember, ClassicStep
from streaming.protocols.vocabulary import NOTHING, Setup


class Eager:
    """Stop the world: nobody consumes from before JoinGroup until the SyncGroup answer."""

    coordinator_assigns = False
    static = True
    member_id_required = True
    subscribes = True

    def __init__(self, setup: Setup) -> None:
        self._default = (setup.assignor,)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """The client's own list, or the group's default."""
        return member.client.assignors or self._default

    def keeps(self, member: ClassicMember) -> Share:
        """Nothing."""
        del member
        return NOTHING

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, Share]:
        """The leader runs the chosen client-side assignor."""
        _update_snapshot(step)
        return client_side_shares(step, order)

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: Share) -> bool:
        """Never: what it is given it may consume at once."""
        del step, member, share
        return False


def client_side_shares(step: ClassicStep, order: Sequence[str]) -> dict[str, Share]:
    """Shares by name, from the registry's assignor with what each JoinGroup said."""
    # Owned partitions travel in every Subscription (v1+); sticky reads its own user data instead.
    assignor = step.group.assignor
    told = {}
    for name in order:
        member = step.members[name]
        told[name] = AssignorMember(
            member.member_id,
            member.said,
            member.client.instance_id if step.rules.static else None,
            member.client.rack_id,
            member.last if assignor == "sticky" else member.claim,
            member.claim_generation,
        )
    return step.shares("classic", assignor, told)


def _update_snapshot(step: ClassicStep) -> None:
    """Which topics the leader's metadata hold when it assigns (``ConsumerCoordinator.updateGroupSubscription``).

    A leader asks for fresh metadata only when the group subscribes to more than it does itself, or its own
    subscription changed. Otherwise a topic that nobody subscribes to any more is still in them; with the next
    refresh the leader takes that for a change, and joins again.
    """
    leader = step.members[step.group.leader]
    whose = (leader.client.name, leader.incarnation, leader.said)
    wanted = step.said()
    stale = step.group.snapshot
    fresh = stale is None or whose != step.group.snapshot_of or not wanted.issubset(leader.said)
    step.set(snapshot=wanted if fresh else stale, snapshot_of=whose)


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


class EagerV1(Eager):
    """As eager, without SyncGroup, votes and instance ids."""

    coordinator_assigns = True
    static = False
    member_id_required = False

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, Share]:
        """The coordinator runs the strategy, with the cluster's metadata as they are."""
        return client_side_shares(step, order)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """The broker's strategy, whatever clients say."""
        del member
        return self._default
