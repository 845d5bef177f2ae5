"""The diff of one round, and what the group remembers after it.

Whatever the protocol, a round is a set difference: for every member kept = owned − revoked and
after = kept + assigned. An eager member stops everything in between; what it gets back still counts as kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from msgspec import structs

from assignors.diff import diff
from assignors.model import Share
from streaming.monitor import violations
from streaming.monitor.state import AssignmentOutput, DiffOutput, GroupState, MemberState, TopicState
from streaming.wire.events import MAX_INT32, Cause, Diff, Event, LatestAssignment, MemberDiff, Partitions

NOTHING: Partitions = {}
#: ``{member: what it owns}``.
Ownership = Mapping[str, Partitions]


def output_id(group_id: str, event: Event, part: int | str) -> str:
    """The ``ce_id`` of an output: a pure function of the group, the event behind it and the round.

    128 bits of BLAKE2b over ``group, ce_source, ce_id, part``, each behind its length, in hexadecimal.
    """
    text = f"{len(group_id)}:{group_id}{len(event.source)}:{event.source}{len(event.id)}:{event.id}{part}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def following(generation: int) -> int:
    """The generation after this one; past Kafka's INT32, which a member may claim to be at, they start over."""
    return generation + 1 if generation < MAX_INT32 else 1


def play(
    state: GroupState,
    event: Event,
    before: Ownership,
) -> tuple[GroupState, DiffOutput]:
    """One round: from ``before`` to what ``state``'s members own.

    Args:
        state: the group after the round: members with their new ``owned``, generation, round and cause set;
            ``last_owners`` still as before the round.
        event: what caused it.
        before: what each member owned, those that left included.

    Returns:
        The group with ``last_owners`` and ``revoked`` of this round, and the diff.
    """
    after: dict[str, Partitions] = {member.member_id: member.owned for member in state.members}
    members: dict[str, MemberDiff] = {}
    changed = False
    stayed_revoked = False
    for member_id in after if after.keys() >= before.keys() else dict.fromkeys((*after, *before)):
        owned = before.get(member_id, NOTHING)
        now = after.get(member_id, NOTHING)
        present = member_id in after
        if owned == now:  # untouched by this round
            members[member_id] = MemberDiff(
                owned=owned, revoked=NOTHING, assigned=NOTHING, kept=owned, present=present
            )
            continue
        change = diff(owned, now)
        members[member_id] = MemberDiff(
            owned=owned, revoked=change.revoked, assigned=change.assigned, kept=change.kept, present=present
        )
        if change.revoked or change.assigned:
            changed = True
            stayed_revoked = stayed_revoked or bool(change.revoked and present)
    last_owners, moved = state.last_owners, 0
    if changed:
        last_owners, moved = _owners(last_owners, members)
    state = structs.replace(state, last_owners=last_owners, revoked=stayed_revoked)
    cause = state.cause or Cause(kind=event.type)
    owned_by_topic = held(state.members)
    consumer = state.protocol == "consumer"
    return state, DiffOutput(
        output_id(event.data.group_id, event, state.round),
        Diff(
            group_id=event.data.group_id,
            protocol=state.protocol,
            assignor=state.assignor,
            generation=None if consumer else state.generation,
            group_epoch=state.generation if consumer else None,
            round=state.round,
            cause=cause,
            timestamp=event.data.timestamp,
            members=members,
            unassigned=unassigned(state, owned_by_topic),
            moved=moved,
            violations=violations.found(state, owned_by_topic),
        ),
    )


def _owners(
    last_owners: Mapping[str, Mapping[int, str]], members: Mapping[str, MemberDiff]
) -> tuple[dict[str, dict[int, str]], int]:
    """The last owners of what is free after the round, and how many partitions another member got."""
    freed: dict[str, dict[int, str]] = {topic: dict(owners) for topic, owners in last_owners.items()}
    for member_id, change in members.items():
        for topic, partitions in change.revoked.items():
            free = freed.get(topic)
            if free is None:
                free = freed[topic] = {}
            for partition in partitions:
                free[partition] = member_id
    moved = 0
    for member_id, change in members.items():
        for topic, partitions in change.assigned.items():
            free = freed.get(topic)
            if free is None:
                continue
            for partition in partitions:
                # A partition that two members own stands in `members` only; violations name it.
                moved += free.pop(partition, member_id) != member_id
    return {topic: owners for topic, owners in freed.items() if owners}, moved


def held(members: Iterable[MemberState]) -> dict[str, list[int]]:
    """Every topic's owned partitions, one after the other: a partition that two members own is there twice."""
    found: dict[str, list[int]] = {}
    for member in members:
        for topic, partitions in member.owned.items():
            known = found.get(topic)
            if known is None:
                found[topic] = [*partitions]
            else:
                known += partitions
    return found


def subscribed(members: Iterable[MemberState]) -> set[str]:
    """The topics that some member subscribes to."""
    found: set[str] = set()
    listed: list[str] | None = None
    for member in members:
        if member.topics != listed:  # mostly all subscribe alike
            listed = member.topics
            found.update(listed)
    return found


def unassigned(state: GroupState, owned: Mapping[str, Sequence[int]]) -> Partitions:
    """Partitions of subscribed topics with metadata that are not among those ``owned``."""
    found: Partitions = {}
    for topic in sorted(subscribed(state.members)):
        if topic not in state.topics:
            continue
        taken, all_of_it = set(owned.get(topic, ())), range(state.topics[topic].partitions)
        if not taken.issuperset(all_of_it):
            found[topic] = [p for p in all_of_it if p not in taken]
    return found


def minus_others(claim: Partitions, member_id: str, held: Ownership) -> Partitions:
    """What a member says it owns, less what others own: no partition has two owners before a round."""
    if not claim:
        return {}
    free: Partitions = {}
    for topic, partitions in claim.items():
        taken = {p for other, share in held.items() if other != member_id for p in share.get(topic, ())}
        mine = sorted({p for p in partitions if p not in taken})
        if mine:
            free[topic] = mine
    return free


def existing(owned: Partitions, topics: Mapping[str, TopicState]) -> Partitions:
    """A share without partitions that their topic, made again with fewer, does not have any more."""
    for topic, partitions in owned.items():
        known = topics.get(topic)
        if known is not None and partitions and max(partitions) >= known.partitions:
            break
    else:
        return owned
    return {
        topic: [p for p in partitions if topic not in topics or p < topics[topic].partitions]
        for topic, partitions in owned.items()
    }


def prune(
    last_owners: Mapping[str, Mapping[int, str]], topics: Mapping[str, TopicState]
) -> dict[str, dict[int, str]]:
    """Last owners without partitions that their topic does not have any more."""
    kept: dict[str, dict[int, str]] = {}
    for topic, owners in last_owners.items():
        count = topics[topic].partitions if topic in topics else None
        left = {p: owner for p, owner in owners.items() if count is None or p < count}
        if left:
            kept[topic] = left
    return kept


def latest(state: GroupState, event: Event) -> AssignmentOutput:
    """The record of the compacted topic after an event."""
    consumer = state.protocol == "consumer"
    group_id, timestamp = event.data.group_id, event.data.timestamp
    return AssignmentOutput(
        output_id(group_id, event, "assignment"),
        group_id,
        timestamp,
        LatestAssignment(
            group_id=group_id,
            protocol=state.protocol,
            assignor=state.assignor,
            generation=None if consumer else state.generation,
            group_epoch=state.generation if consumer else None,
            timestamp=timestamp,
            members={member.member_id: member.owned for member in state.members},
        ),
    )


def tombstone(event: Event) -> AssignmentOutput:
    """The group is gone from the compacted topic."""
    group_id = event.data.group_id
    return AssignmentOutput(output_id(group_id, event, "assignment"), group_id, event.data.timestamp, None)


def as_partitions(share: Share) -> Partitions:
    """An assignor's share in lists, topics ascending, without empty topics."""
    if len(share) == 1:
        ((topic, partitions),) = share.items()
        return {topic: list(partitions)} if partitions else {}
    return {topic: list(share[topic]) for topic in sorted(share) if share[topic]}
