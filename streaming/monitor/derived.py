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

from assignors import registry
from streaming.monitor import vote
from streaming.monitor.joining import Claim, joining, metadata
from streaming.monitor.rounds import NOTHING, Ownership, as_partitions, following, play
from streaming.monitor.state import DiffOutput, GroupState, MemberState
from streaming.wire.events import Cause, Event

#: Cooperative rebalances settle in two or three rounds; this ends one that never would.
MAX_ROUNDS = 64


class Change(NamedTuple):
    """One change of a group: its members after it, what everyone owned before, and why."""

    members: tuple[MemberState, ...]
    before: Ownership
    cause: Cause
    claims: Mapping[str, Claim] = {}


def rebalance(state: GroupState, event: Event, change: Change) -> tuple[GroupState, tuple[DiffOutput, ...]]:
    """Every round of one rebalance.

    Raises:
        InconsistentGroupProtocol: the members have no assignor in common.
        UnknownAssignor: they chose one that Kafka does not ship.
        InvalidGroup: an assignor refuses the group.
    """
    protocol = vote.protocol(change.members) if change.members else state.protocol
    claimed = max((claim.generation for claim in change.claims.values()), default=-1)
    known = state.generation
    state = structs.replace(
        state,
        protocol=protocol,
        assignor=None,
        generation=following(max(known, claimed)),
        members=change.members,
        timestamp=event.data.timestamp,
        round=1,
        cause=change.cause,
    )
    if not change.members:
        state, output = play(state, event, change.before)
        return state, (output,)
    if protocol == "consumer":
        return _reconcile(state, event, change)
    return _join_and_sync(state, event, change, known)


def _join_and_sync(
    state: GroupState, event: Event, change: Change, known: int
) -> tuple[GroupState, tuple[DiffOutput, ...]]:
    """The classic protocol: one round, and under cooperative-sticky those that follow from it."""
    assignor = vote.classic(change.members)
    cooperative = assignor == "cooperative-sticky"
    before, claims = change.before, change.claims
    topics = metadata(state)
    outputs: list[DiffOutput] = []
    for number in range(1, MAX_ROUNDS + 1):
        members = joining(state, change.members, before, claims, known, cooperative=cooperative)
        after = registry.find("classic", assignor).assign(topics, members)
        state = structs.replace(state, assignor=assignor, round=number, members=_own(change.members, after))
        state, output = play(state, event, before)
        outputs.append(output)
        if not (cooperative and _rejoins(change.members, output)):
            break
        known = state.generation
        before, claims = {member.member_id: member.owned for member in state.members}, {}
        state = structs.replace(state, generation=following(known))
    # Between events a group is at rest: what follows from round n has been played.
    return structs.replace(state, revoked=False), tuple(outputs)


def _rejoins(members: Sequence[MemberState], output: DiffOutput) -> bool:
    """Whether a cooperative client gave up partitions after SyncGroup, and so asks for another round."""
    changes = output.diff.members
    return any(
        any(topic in member.topics for topic in changes[member.member_id].revoked)
        for member in members
        if changes[member.member_id].revoked and vote.cooperative(member)
    )


def _reconcile(state: GroupState, event: Event, change: Change) -> tuple[GroupState, tuple[DiffOutput, ...]]:
    """KIP-848: revoke and hand out what is free, then hand out what was released."""
    assignor = vote.consumer(change.members)
    # The coordinator starts from the target it has: a claim counts where nobody else owns, as `before` has it.
    members = joining(state, change.members, change.before, {}, state.generation - 1, cooperative=False)
    target = registry.find("consumer", assignor).assign(metadata(state, ids=True), members)
    settled = _own(change.members, target)
    first = _held_back(settled, change.before)
    state = structs.replace(state, assignor=assignor, members=first)
    state, output = play(state, event, change.before)
    if first == settled:
        return structs.replace(state, revoked=False), (output,)
    before = {member.member_id: member.owned for member in first}
    state, follow_up = play(structs.replace(state, round=2, members=settled), event, before)
    return structs.replace(state, revoked=False), (output, follow_up)


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


def _own(
    members: Sequence[MemberState], after: Mapping[str, Mapping[str, Sequence[int]]]
) -> tuple[MemberState, ...]:
    """The members with their new shares; one whose share is the same stays the same object."""
    owning: list[MemberState] = []
    for member in members:
        share = after.get(member.member_id, NOTHING)
        if share != member.owned:
            owned = as_partitions(share)
            if owned != member.owned:
                member = structs.replace(member, owned=owned)  # noqa: PLW2901 - as it is from now on
        owning.append(member)
    return tuple(owning)
