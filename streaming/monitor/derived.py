"""Rounds of derived groups: without a collector's snapshots, each round is computed from member events as in Kafka.

One event that changes the members, their subscriptions or the partition counts is one rebalance. Its rounds depend
on the protocol:

* eager: one round; generation + 1.
* cooperative (``cooperative-sticky``): one more round, generation + 1 each, as long as a member that stays had to
  give up partitions of topics it still subscribes to (``ConsumerCoordinator.onJoinComplete``).
* consumer (KIP-848): the target is computed once for the new group epoch. Round 1 revokes and assigns free partitions,
  round 2 of the same epoch assigns the partitions that round 1 released.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, structs

from assignors import registry
from assignors.assignment import subtract
from assignors.java import uuid_of
from assignors.model import Member, Topic, TopicPartitions
from streaming.monitor.rounds import Round
from streaming.monitor.state import NOTHING, GroupState, MemberState, Ownership, next_generation, ownership
from streaming.protocols import vote
from streaming.records.diffs import Cause
from streaming.records.events import Partitions

#: Assignor of a classic member that does not name an assignor.
_DEFAULT_CLASSIC_ASSIGNORS = ("range",)
#: The assignor under which clients keep their partitions through a rebalance.
COOPERATIVE = "cooperative-sticky"
#: Partitions that a joining member claims to own, with the generation: input of the assignor.
OwnershipClaim = tuple[Partitions, int]


def protocol(members: Iterable[MemberState]) -> str:
    """Return ``consumer`` if any member uses the consumer protocol (KIP-848's online migration), else ``classic``."""
    return "consumer" if "consumer" in [member.group_protocol for member in members] else "classic"


def classic_assignor(members: Sequence[MemberState]) -> str:
    """Return the assignor that ``ClassicGroup.selectProtocol`` picks; raise InconsistentGroupProtocol if none fits."""
    lists = [member.assignors for member in members]
    if lists.count(lists[0]) == len(lists):
        return (lists[0] or _DEFAULT_CLASSIC_ASSIGNORS)[0]
    return vote.select({member.member_id: member.assignors or _DEFAULT_CLASSIC_ASSIGNORS for member in members})


def consumer_assignor(members: Sequence[MemberState]) -> str:
    """Return the assignor that most consumer members name (``ModernGroup.preferredServerAssignor``), else ``uniform``.

    A member names one assignor (``group.remote.assignor``), the first of its list. Classic members of a migrating
    group do not name a consumer assignor.
    """
    votes = [member.assignors[0] for member in members if member.group_protocol == "consumer" and member.assignors]
    return vote.most_votes(votes) if votes else "uniform"  # the first of ``group.consumer.assignors``


def is_cooperative(member: MemberState) -> bool:
    """Return whether a member's client is cooperative: it keeps its partitions during a rebalance."""
    return vote.cooperative(tuple(member.assignors or _DEFAULT_CLASSIC_ASSIGNORS))


class JoiningMember(Struct, frozen=True, gc=False):
    """A member with the attributes of :class:`assignors.model.Member`, but eighteen times as fast to create."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None
    rack_id: str | None
    owned: TopicPartitions
    generation: int
    streams: None = None


def _joining_members(
    state: GroupState,
    members: Sequence[MemberState],
    before: Ownership,
    claims: Mapping[str, OwnershipClaim],
    generation: int,
    *,
    cooperative: bool,
) -> list[Member]:
    """Return the members as the JoinGroup response lists them for the assignor.

    ``sticky`` sends the partitions owned before the join. ``cooperative-sticky`` reads the partitions owned *at* the
    join, when an eager client has already given up its partitions. Partitions that no longer exist are left out.
    """
    joining: list[Any] = []
    counts = {name: topic.partitions for name, topic in state.topics.items()}
    listed: list[str] | None = None
    topics: tuple[str, ...] = ()
    for member in members:
        if member.topics != listed:  # most members have equal subscriptions: share one object, which is fast to compare
            listed = member.topics
            topics = tuple(listed)
        owned, at = claims.get(member.member_id) or (before.get(member.member_id, NOTHING), generation)
        if cooperative and owned and member.group_protocol == "classic" and not is_cooperative(member):
            owned = NOTHING
        owned = _existing_partitions(owned, counts)
        joining.append(JoiningMember(member.member_id, topics, member.instance_id, member.rack_id, owned, at))
    return joining


def _existing_partitions(owned: Partitions, counts: Mapping[str, int]) -> Partitions:
    """Return the partitions that exist by their topics' counts; partitions of other topics count as existing."""
    for topic, numbers in owned.items():
        if topic in counts and numbers and max(numbers) >= counts[topic]:
            kept = {topic: [p for p in numbers if p < counts.get(topic, p + 1)] for topic, numbers in owned.items()}
            return {topic: numbers for topic, numbers in kept.items() if numbers}
    return owned


def topics_of(state: GroupState, *, ids: bool = False) -> dict[str, Topic]:
    """Return a group's topics as input of an assignor; ``ids``: a topic without an id gets one made from its name."""
    return {
        name: Topic(
            name,
            topic.partitions,
            None if topic.racks is None else tuple(tuple(racks) for racks in topic.racks),
            (topic.topic_id or uuid_of(name)) if ids else topic.topic_id,
        )
        for name, topic in state.topics.items()
    }


def _with_shares(members: Sequence[MemberState], shares: Mapping[str, TopicPartitions]) -> tuple[MemberState, ...]:
    return tuple(_with_share(member, shares.get(member.member_id, NOTHING)) for member in members)


def _with_share(member: MemberState, share: TopicPartitions) -> MemberState:
    if share == member.owned:
        return member
    owned = {topic: list(share[topic]) for topic in sorted(share) if share[topic]}
    return member if owned == member.owned else structs.replace(member, owned=owned)


#: The most rounds of a cooperative rebalance, which usually takes two or three rounds.
MAX_ROUNDS = 64


def rebalance(
    state: GroupState,
    members: tuple[MemberState, ...],
    cause: Cause,
    before: Ownership | None = None,
    claims: Mapping[str, OwnershipClaim] = MappingProxyType({}),
) -> list[Round]:
    """Return the rounds of one rebalance: ``state`` is the group before it, ``members`` are the members after it.

    ``before``: partitions owned before, by default those in ``state``; ``claims``: claims of joining members, by id.

    Raises:
        InconsistentGroupProtocol: the members have no assignor in common.
        UnknownAssignor: the members chose an assignor that Kafka does not ship.
        InvalidGroup: the assignor refuses the group.
    """
    before = ownership(state.members) if before is None else before
    generation = next_generation(max(state.generation, *[claimed for _, claimed in claims.values()], -1))
    if not members:
        return [Round(1, generation, state.protocol, None, cause, members, before)]
    if protocol(members) == "consumer":
        return _reconcile(state, generation, members, before, cause)
    assignor, owned_at = classic_assignor(members), state.generation
    assign, topics, rounds = registry.find("classic", assignor).assign, topics_of(state), list[Round]()
    while True:
        joining = _joining_members(state, members, before, claims, owned_at, cooperative=assignor == COOPERATIVE)
        after = _with_shares(members, assign(topics, joining))
        number = len(rounds) + 1
        rounds.append(Round(number, generation, "classic", assignor, cause, after, before))
        if assignor != COOPERATIVE or number == MAX_ROUNDS or not _has_rejoins(after, before):
            return rounds
        members, before, claims = after, ownership(after), {}
        owned_at, generation = generation, next_generation(generation)


def _has_rejoins(members: Sequence[MemberState], before: Ownership) -> bool:
    """Return whether some cooperative member revoked partitions of its subscribed topics, and so rejoins."""
    for member in members:
        owned = before[member.member_id]
        lost = NOTHING if owned is member.owned or not owned else subtract(owned, member.owned)
        if any(topic in member.topics for topic in lost) and is_cooperative(member):
            return True
    return False


def _reconcile(
    state: GroupState, generation: int, members: tuple[MemberState, ...], before: Ownership, cause: Cause
) -> list[Round]:
    assignor = consumer_assignor(members)
    # The coordinator starts from its last target: a claim counts only where no other member owns the partition.
    joining = _joining_members(state, members, before, {}, state.generation, cooperative=False)
    settled = _with_shares(members, registry.find("consumer", assignor).assign(topics_of(state, ids=True), joining))
    first = _remove_unreleased_partitions(settled, before)
    rounds = [Round(1, generation, "consumer", assignor, cause, first, before)]
    if first != settled:
        rounds.append(Round(2, generation, "consumer", assignor, cause, settled, ownership(first)))
    return rounds


def _remove_unreleased_partitions(settled: tuple[MemberState, ...], before: Ownership) -> tuple[MemberState, ...]:
    """Return the members without the newly assigned partitions that another member must release first."""
    owners = {
        (topic, partition): member.member_id
        for member in settled
        for topic, partitions in before[member.member_id].items()
        for partition in partitions
    }
    shares = {
        member.member_id: {
            topic: [p for p in partitions if owners.get((topic, p), member.member_id) == member.member_id]
            for topic, partitions in member.owned.items()
        }
        for member in settled
    }
    return _with_shares(settled, shares)
