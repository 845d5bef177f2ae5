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
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

from msgspec import Struct, structs

from assignors import registry
from assignors.assignment import drop_missing, minus, normalize_members
from assignors.model import Member, Topic, TopicPartitions
from streaming.monitor.rounds import Round
from streaming.monitor.state import NOTHING, GroupState, MemberState, Ownership, following, ownership
from streaming.protocols import vote
from streaming.records.diffs import Cause
from streaming.records.events import Partitions

#: What a classic member that names no assignor counts as.
DEFAULT_CLASSIC = ("range",)
#: The first of ``group.consumer.assignors``: what the coordinator takes when no member names one.
DEFAULT_CONSUMER = "uniform"
#: The assignor under which clients keep their partitions through a rebalance.
COOPERATIVE = "cooperative-sticky"


class Claim(NamedTuple):
    """What a member that joins says of itself: the assignor gets it as Kafka's would."""

    owned: Partitions
    generation: int


def protocol(members: Iterable[MemberState]) -> str:
    """``consumer`` as soon as one member speaks it (KIP-848's online migration), else ``classic``."""
    return "consumer" if "consumer" in [member.group_protocol for member in members] else "classic"


def classic_assignor(members: Sequence[MemberState]) -> str:
    """``ClassicGroup.selectProtocol``: see :func:`streaming.protocols.vote.select`.

    Raises:
        InconsistentGroupProtocol: there is no candidate.
    """
    first = members[0].assignors
    if _alike(members):
        return (first or DEFAULT_CLASSIC)[0]
    return vote.select({member.member_id: member.assignors or DEFAULT_CLASSIC for member in members})


def consumer_assignor(members: Sequence[MemberState]) -> str:
    """``ModernGroup.preferredServerAssignor``: the most named by consumer members, else ``uniform``.

    A member names one (``group.remote.assignor``): the first of its list. Classic members of a group under
    migration name none.
    """
    votes = [
        member.assignors[0] for member in members if member.group_protocol == "consumer" and member.assignors
    ]
    return vote.most_votes(votes) if votes else DEFAULT_CONSUMER


def keeps(member: MemberState) -> bool:
    """Whether this client keeps its partitions through a rebalance."""
    return vote.cooperative(tuple(member.assignors or DEFAULT_CLASSIC))


def sync(
    state: GroupState,
    assignor: str,
    members: tuple[MemberState, ...],
    before: Ownership,
    claims: Mapping[str, Claim],
    *,
    generation: int,
) -> tuple[MemberState, ...]:
    """Return the members with what the leader of a classic group assigns to them.

    Args:
        state: the group before, for its topics, its last owners, and what those that are gone are called.
        assignor: one of the classic protocol.
        members: those that join.
        before: what each member owned, those that are gone included.
        claims: of members that say something else of themselves.
        generation: that of what they owned ``before``.

    Raises:
        UnknownAssignor: Kafka ships no such assignor.
        InvalidGroup: the assignor refuses the group.
    """
    joining = _joining(state, members, before, claims, generation, cooperative=assignor == COOPERATIVE)
    shares = registry.find("classic", assignor).assign(_topics(state), joining)
    return _owning(members, shares)


def target(
    state: GroupState, assignor: str, members: tuple[MemberState, ...], before: Ownership
) -> tuple[MemberState, ...]:
    """The members with what the coordinator of a consumer group wants them to have; raises as :func:`sync`."""
    # The coordinator starts from the target it has: a claim counts where nobody else owns, as `before` has it.
    joining = _joining(state, members, before, {}, state.generation, cooperative=False)
    shares = registry.find("consumer", assignor).assign(_topics(state, ids=True), joining)
    return _owning(members, shares)


def _alike(members: Sequence[MemberState]) -> bool:
    """Whether all name the same assignors, as they nearly always do."""
    lists = [member.assignors for member in members]
    return lists.count(lists[0]) == len(lists)


class _Joining(Struct, frozen=True, gc=False):
    """:class:`assignors.model.Member` by attributes; a frozen dataclass takes eight times as long to make."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None
    rack_id: str | None
    owned: TopicPartitions
    generation: int
    streams: None = None


def _joining(
    state: GroupState,
    members: Sequence[MemberState],
    before: Ownership,
    claims: Mapping[str, Claim],
    generation: int,
    *,
    cooperative: bool,
) -> list[Member]:
    """The members as the JoinGroup response shows them to the assignor.

    ``sticky`` sends what was owned before the join; ``cooperative-sticky`` reads what is owned *at* the join,
    and a client that rebalances eagerly has given that up already. What a topic does not have any more, made
    again with fewer partitions, nobody brings to a join.
    """
    found: list[Any] = []
    counts = {name: topic.partitions for name, topic in state.topics.items()}
    listed: list[str] | None = None
    topics: tuple[str, ...] = ()
    for member in members:
        if member.topics != listed:  # members mostly share one subscription, and assignors look for that
            listed = member.topics
            topics = tuple(listed)
        claim = claims.get(member.member_id)
        owned, said = claim or (before.get(member.member_id, NOTHING), generation)
        if cooperative and owned and member.group_protocol == "classic" and not keeps(member):
            owned = NOTHING
        brought = drop_missing(owned, counts) if owned else owned
        found.append(_Joining(member.member_id, topics, member.instance_id, member.rack_id, brought, said))
    return found


def _topics(state: GroupState, *, ids: bool = False) -> dict[str, Topic]:
    """Cluster metadata for the assignor; a topic that was never announced has none.

    With ``ids`` every topic has one, made from its name where its events carry none: ``uniform`` orders by id.
    """
    return {
        name: Topic(
            name,
            topic.partitions,
            None if topic.racks is None else tuple(tuple(racks) for racks in topic.racks),
            (topic.topic_id or _stand_in_id(name)) if ids else topic.topic_id,
        )
        for name, topic in state.topics.items()
    }


@cache
def _stand_in_id(name: str) -> str:
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest()).decode().rstrip("=")


def _owning(members: Sequence[MemberState], shares: Mapping[str, TopicPartitions]) -> tuple[MemberState, ...]:
    """The members with their new shares; one whose share is the same stays the same object."""
    owned = {member.member_id: member.owned for member in members}
    changed = normalize_members(
        {one: share for one in owned if (share := shares.get(one, NOTHING)) != owned[one]}
    )
    return tuple(
        [
            member
            if changed.get(member.member_id, member.owned) == member.owned
            else structs.replace(member, owned=changed[member.member_id])
            for member in members
        ]
    )


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
    if protocol(members) == "consumer":
        return _reconcile(state, generation, occasion)
    return _join_and_sync(state, generation, occasion)


def _join_and_sync(state: GroupState, generation: int, occasion: Occasion) -> list[Round]:
    """The classic protocol: one round, and under cooperative-sticky those that follow from it."""
    members, before, cause, claims = occasion
    assignor, known = classic_assignor(members), state.generation
    rounds: list[Round] = []
    while True:
        after = sync(state, assignor, members, before, claims, generation=known)
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
            if lost and any(topic in member.topics for topic in lost) and keeps(member):
                return True
    return False


def _reconcile(state: GroupState, generation: int, occasion: Occasion) -> list[Round]:
    """KIP-848: revoke and hand out what is free, then hand out what was released."""
    members, before, cause, _ = occasion
    assignor = consumer_assignor(members)
    settled = target(state, assignor, members, before)
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
