"""Eager: the classic protocol since 0.9's SyncGroup. Members give up everything before they join.

A member's list of assignors takes part in the vote, but every member rebalances eagerly, whatever it supports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.model import Member as AssignorMember
from assignors.model import Share
from streaming.protocols.classic.group import ClassicMember
from streaming.protocols.classic.machine import Classic
from streaming.protocols.classic.step import ClassicStep
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
        _look(step)
        return client_side(step, order)

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: Share) -> bool:
        """Never: what it is given it may consume at once."""
        del step, member, share
        return False


def client_side(step: ClassicStep, order: Sequence[str]) -> dict[str, Share]:
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


def _look(step: ClassicStep) -> None:
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


def machine(setup: Setup) -> Classic:
    """Today's eager protocol."""
    return Classic("eager", setup, Eager(setup))
