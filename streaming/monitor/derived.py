"""Derived groups: known through member events only, so each round is computed as Kafka would.

One event that changes who is in the group, what they subscribe to or how many partitions there are is one
rebalance. Rounds of one rebalance, by protocol:

* eager: one. generation + 1.
* cooperative (the group runs ``cooperative-sticky``): another round, generation + 1 each, as long as a member
  that stays had to give up partitions of topics it still subscribes to (``ConsumerCoordinator.onJoinComplete``
  rejoins then).
* consumer (KIP-848): the target is computed once for the new group epoch; round 1 takes away what members
  lose and hands out what is free, round 2, in the same epoch, hands out what round 1 released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from assignors.shares import minus
from streaming.monitor import asking
from streaming.monitor.asking import COOPERATIVE, Claim
from streaming.monitor.rounds import Round
from streaming.monitor.state import GroupState, MemberState, Ownership, following, ownership
from streaming.wire.diffs import Cause

#: Cooperative rebalances settle in two or three rounds; this ends one that never would.
MAX_ROUNDS = 64


class Occasion(NamedTuple):
    """Why a group rebalances: its members from now on, what everyone owned before, and the cause."""

    members: tuple[MemberState, ...]
    before: Ownership
    cause: Cause
    claims: Mapping[str, Claim] = {}


def rebalance(state: GroupState, occasion: Occasion) -> list[Round]:
    """Every round of one rebalance of a group that is ``state`` before.

    Raises:
        InconsistentGroupProtocol: the members have no assignor in common.
        UnknownAssignor: they chose one that Kafka does not ship.
        InvalidGroup: an assignor refuses the group.
    """
    members, before, cause, claims = occasion
    generation = following(max(state.generation, *[claim.generation for claim in claims.values()], -1))
    if not members:
        return [Round(1, generation, state.protocol, None, cause, members, before)]
    if asking.protocol(members) == "consumer":
        return _reconcile(state, generation, occasion)
    return _join_and_sync(state, generation, occasion)


def _join_and_sync(state: GroupState, generation: int, occasion: Occasion) -> list[Round]:
    """The classic protocol: one round, and under cooperative-sticky those that follow from it."""
    members, before, cause, claims = occasion
    assignor, known = asking.classic_assignor(members), state.generation
    rounds: list[Round] = []
    while True:
        after = asking.sync(state, assignor, members, before, claims, generation=known)
        number = len(rounds) + 1
        rounds.append(Round(number, generation, "classic", assignor, cause, after, before))
        if assignor != COOPERATIVE or number == MAX_ROUNDS or not _rejoins(after, before):
            return rounds
        members, before, claims = after, ownership(after), {}
        known, generation = generation, following(generation)


def _rejoins(members: Sequence[MemberState], before: Ownership) -> bool:
    """Whether a cooperative client gave up partitions after SyncGroup, and so asks for another round."""
    for member in members:
        owned = before[member.member_id]
        if owned is not member.owned and owned:
            lost = minus(owned, member.owned)
            if lost and any(topic in member.topics for topic in lost) and asking.keeps(member):
                return True
    return False


def _reconcile(state: GroupState, generation: int, occasion: Occasion) -> list[Round]:
    """KIP-848: revoke and hand out what is free, then hand out what was released."""
    members, before, cause, _ = occasion
    assignor = asking.consumer_assignor(members)
    settled = asking.target(state, assignor, members, before)
    first = _held_back(settled, before)
    rounds = [Round(1, generation, "consumer", assignor, cause, first, before)]
    if first != settled:
        rounds.append(Round(2, generation, "consumer", assignor, cause, settled, ownership(first)))
    return rounds


def _held_back(settled: tuple[MemberState, ...], before: Ownership) -> tuple[MemberState, ...]:
    """The members without the partitions that another present member still has to release."""
    present = {member.member_id for member in settled}
    holder = {
        (topic, partition): member_id
        for member_id, share in before.items()
        if member_id in present
        for topic, partitions in share.items()
        for partition in partitions
    }
    held: list[MemberState] = []
    for member in settled:
        mine = member.member_id
        owned = {
            topic: [p for p in partitions if holder.get((topic, p), mine) == mine]
            for topic, partitions in member.owned.items()
        }
        held.append(
            structs.replace(
                member, owned={topic: partitions for topic, partitions in owned.items() if partitions}
            )
        )
    return tuple(held)
