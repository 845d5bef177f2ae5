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

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from msgspec import structs

from assignors import registry
from assignors.model import Member, Topic
from streaming.events import Cause, Event, Partitions
from streaming.monitor import vote
from streaming.monitor.rounds import NOTHING, Ownership, as_partitions, existing, play
from streaming.monitor.state import DiffOutput, GroupState, MemberState

#: Cooperative rebalances settle in two or three rounds; this ends one that never would.
MAX_ROUNDS = 64


class Claim(NamedTuple):
    """What a member that joins says of itself: the assignor gets it as Kafka's would."""

    owned: Partitions
    generation: int


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
        generation=max(known, claimed) + 1,
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
    topics = _topics(state)
    outputs: list[DiffOutput] = []
    for number in range(1, MAX_ROUNDS + 1):
        members = [
            _member(state, member, before, claims.get(member.member_id), known, cooperative=cooperative)
            for member in change.members
        ]
        after = registry.find("classic", assignor).assign(topics, members)
        state = structs.replace(state, assignor=assignor, round=number, members=_own(change.members, after))
        state, output = play(state, event, before)
        outputs.append(output)
        if not (cooperative and _rejoins(change.members, output)):
            break
        known = state.generation
        before, claims = {member.member_id: member.owned for member in state.members}, {}
        state = structs.replace(state, generation=known + 1)
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
    members = [
        _member(state, member, change.before, None, state.generation - 1, cooperative=False)
        for member in change.members
    ]
    target = registry.find("consumer", assignor).assign(_topics(state, ids=True), members)
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
    owned = {member.member_id: as_partitions(after.get(member.member_id, NOTHING)) for member in members}
    return tuple(
        member
        if member.owned == owned[member.member_id]
        else structs.replace(member, owned=owned[member.member_id])
        for member in members
    )


def _member(
    state: GroupState,
    member: MemberState,
    before: Ownership,
    claim: Claim | None,
    generation: int,
    *,
    cooperative: bool,
) -> Member:
    """A member as the JoinGroup response shows it to the assignor.

    ``sticky`` sends what was owned before the join; ``cooperative-sticky`` reads what is owned *at* the join,
    and a client that rebalances eagerly has given that up already. What a topic does not have any more, made
    again with fewer partitions, nobody brings to a join.
    """
    owned, generation = claim or (before.get(member.member_id, NOTHING), generation)
    if owned:
        owned = existing(owned, state.topics)
    if cooperative and member.group_protocol == "classic" and not vote.cooperative(member):
        owned = NOTHING
    return Member(
        member_id=member.member_id,
        topics=tuple(member.topics),
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        owned=owned,
        generation=generation,
    )


def _topics(state: GroupState, *, ids: bool = False) -> dict[str, Topic]:
    """Cluster metadata for the assignor; a topic that was never announced has none."""
    return {
        name: Topic(
            name,
            topic.partitions,
            None if topic.racks is None else tuple(tuple(racks) for racks in topic.racks),
            (topic.topic_id or _stand_in_id(name)) if ids else topic.topic_id,
        )
        for name, topic in state.topics.items()
    }


def _stand_in_id(name: str) -> str:
    """A topic id for a topic whose events carry none: ``uniform`` orders topics by id. Made from the name."""
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest()).decode().rstrip("=")
