"""Eager: the classic protocol since 0.9's SyncGroup. Members give up everything before they join.

A member's list of assignors takes part in the vote, but everyone rebalances eagerly, also who could do better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors import registry
from assignors.model import Member as AssignorMember
from assignors.model import Share
from streaming.protocols.classic import Classic
from streaming.protocols.classic_state import Member
from streaming.protocols.classic_step import Step
from streaming.protocols.vocabulary import NOTHING, Setup


class Eager:
    """Stop the world: nobody consumes from before JoinGroup until the SyncGroup answer."""

    coordinator_assigns = False
    static = True
    member_id_required = True
    subscribes = True

    def __init__(self, setup: Setup) -> None:
        self._default = (setup.assignor,)

    def assignors(self, member: Member) -> tuple[str, ...]:
        """The client's own list, or the group's default."""
        return member.client.assignors or self._default

    def keeps(self, member: Member) -> Share:
        """Nothing."""
        del member
        return NOTHING

    def assign(self, step: Step, order: Sequence[str]) -> Mapping[str, Share]:
        """The leader runs the chosen client-side assignor."""
        _look(step)
        return client_side(step, order)

    def rejoins(self, member: Member, share: Share) -> bool:
        """Never: what it is given it may consume at once."""
        del member, share
        return False


def client_side(step: Step, order: Sequence[str]) -> dict[str, Share]:
    """Shares by name, from the registry's assignor with what each JoinGroup said."""
    # Owned partitions travel in every Subscription (v1+); sticky reads its own user data instead.
    sticky = step.get("assignor") == "sticky"
    names: dict[str, str] = {}
    members = []
    for name in order:
        member = step.members[name]
        names[member.member_id] = name
        members.append(
            AssignorMember(
                member.member_id,
                member.said,
                member.client.instance_id if step.rules.static else None,
                member.client.rack_id,
                member.last if sticky else member.claim,
                member.claim_generation,
            )
        )
    answer = registry.find("classic", step.get("assignor")).assign(step.topics, members)
    return {names[member_id]: share for member_id, share in answer.items()}


def _look(step: Step) -> None:
    """Which topics the leader's metadata hold when it assigns (``ConsumerCoordinator.updateGroupSubscription``).

    A leader asks for fresh metadata only when the group subscribes to more than it does itself, or its own
    subscription changed. Otherwise a topic that nobody subscribes to any more is still in them; with the next
    refresh the leader takes that for a change, and joins again.
    """
    leader = step.members[step.get("leader")]
    whose = (leader.client.name, leader.incarnation, leader.said)
    wanted = frozenset(topic for member in step.members.values() if member.known for topic in member.said)
    stale = step.get("snapshot")
    fresh = stale is None or whose != step.get("snapshot_of") or not wanted.issubset(leader.said)
    step.set(snapshot=wanted if fresh else stale, snapshot_of=whose)


def machine(setup: Setup) -> Classic:
    """Today's eager protocol."""
    return Classic("eager", setup, Eager(setup))
