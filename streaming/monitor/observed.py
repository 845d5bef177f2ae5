"""Observed groups: a collector read the assignment; what is computed is the difference and the cause.

Each new generation (consumer protocol: each new epoch, and each step of members towards its target) is one
round. `owned` before a round is what the group's last observed round left. The cause comes from comparing
the generation with the one before and from evidence; where both are silent the kind is ``group.observed``.

A rebalance of the consumer protocol is one epoch: the coordinator bumps it for whatever changes the group, so
each further step of the same epoch is the next round, whatever evidence comes with it. Under the classic protocol
a round follows from the one before when that one revoked partitions and nothing new is known to have happened.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from assignors.errors import BadInput
from assignors.shares import minus_others
from streaming.monitor.rounds import Round
from streaming.monitor.state import GroupState, MemberState, ownership
from streaming.wire.events import (
    Cause,
    Event,
    Evidence,
    GroupObserved,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    ObservedMember,
    SubscriptionChanged,
)

#: Under these a member gives everything up before it joins, so no round follows from another.
EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky"})
#: Where evidence comes from the comparison of two generations.
COMPARISON = "comparison"
#: The kind of a cause that neither evidence nor the comparison shows.
UNKNOWN = "group.observed"
#: A topic's new partition count: it may become known before or after the rebalance that it starts.
GROWTH = "topic.partitions_changed"
#: What can start a rebalance, in the order in which it names the cause when there is more than one.
KINDS = (
    "member.joined",
    "member.fenced",
    "member.left",
    "member.subscription_changed",
    GROWTH,
)


class MissingGeneration(BadInput):
    """group.observed: `generation` (classic) or `groupEpoch` (consumer) is missing."""


class _Differing(NamedTuple):
    """Who differs from the generation before."""

    joined: list[str]
    gone: list[str]
    resubscribed: list[str]


class Seen(NamedTuple):
    """What one observed generation says.

    Attributes:
        state: the group with its renamed members and what is left of its hints; the round is still to be played.
        round: None: there is none.
        renamed: whether static members came back under new member ids.
    """

    state: GroupState
    round: Round | None
    renamed: bool


def observe(state: GroupState, data: GroupObserved) -> Seen:
    """What one observed generation says of a group that is ``state`` before.

    A generation at or below the known one changes nothing, except that a static member may have come back
    under a new member id (no rebalance: Kafka keeps the generation), and except that a generation that starts
    over with none of the known members is a new life of the group: its deletion was missed.

    Raises:
        MissingGeneration: the number of the generation is not in the event.
    """
    consumer = data.group_protocol == "consumer"
    number = data.group_epoch if consumer else data.generation
    if number is None:
        raise MissingGeneration
    first = not state.observed
    renames = _renames(state, data)
    state = state.rename(renames) if renames else state
    members = tuple(_member(member) for member in data.members)
    before = ownership(state.members)
    if not first and number <= state.generation:
        if number == state.generation:
            if not consumer or ownership(members) == before:
                return Seen(state, None, bool(renames))
        elif not members or not before or before.keys() & {member.member_id for member in members}:
            return Seen(state, None, renamed=False)
        else:
            first = True
    for member in data.members:
        if member.member_id not in before:
            before[member.member_id] = minus_others(member.owned, member.member_id, before)
    differing = _compare(state, members)
    followed = not first and _follows(state, differing, data, number)
    if followed and state.cause is not None and not any(differing):
        cause = _learned(state.cause, state, data)
    else:
        cause = _cause(state, differing, [*data.evidence, *state.hints], first=first, number=number)
    # What is not of this rebalance was heard early: the next one asks for it.
    hints = tuple(hint for hint in state.hints if not _told(cause, hint)) if followed else ()
    step = state.round + 1 if followed else 1
    decided = Round(step, number, data.group_protocol, data.protocol, cause, members, before)
    return Seen(structs.replace(state, observed=True, hints=hints), decided, bool(renames))


def told(state: GroupState, event: Event) -> GroupState:
    """A member event of an observed group: kept until the next generation asks why."""
    data = event.data
    if isinstance(data, MemberLeft | MemberFenced):
        return hint(state, event, data.reason or "", data.member_id)
    if isinstance(data, MemberJoined | SubscriptionChanged):
        return hint(state, event, "", data.member_id)
    return state


def hint(state: GroupState, event: Event, reason: str, *member_ids: str) -> GroupState:
    """An event of an observed group as evidence for the cause of the next generation."""
    said = Evidence(source=event.source, reason=reason, member_ids=list(member_ids), kind=event.type)
    return structs.replace(state, hints=(*state.hints[-15:], said))


def _renames(state: GroupState, data: GroupObserved) -> dict[str, str]:
    """Old to new ids of static members that came back under the same instance id."""
    present = {member.member_id for member in data.members}
    new_ids = {
        member.group_instance_id: member.member_id
        for member in data.members
        if member.group_instance_id is not None
    }
    return {
        member.member_id: new_ids[member.instance_id]
        for member in state.members
        if member.instance_id in new_ids and member.member_id not in present
    }


def _member(member: ObservedMember) -> MemberState:
    return MemberState(
        member_id=member.member_id,
        topics=member.topics,
        instance_id=member.group_instance_id,
        rack_id=member.rack_id,
        session_timeout_ms=member.session_timeout_ms,
        owned={
            topic: sorted(set(member.assigned[topic]))
            for topic in sorted(member.assigned)
            if member.assigned[topic]
        },
    )


def _compare(state: GroupState, members: tuple[MemberState, ...]) -> _Differing:
    known = {member.member_id: member for member in state.members}
    now = {member.member_id for member in members}
    return _Differing(
        joined=[member.member_id for member in members if member.member_id not in known],
        gone=[member_id for member_id in known if member_id not in now],
        resubscribed=[
            member.member_id
            for member in members
            if member.member_id in known and set(member.topics) != set(known[member.member_id].topics)
        ],
    )


def _follows(state: GroupState, seen: _Differing, data: GroupObserved, number: int) -> bool:
    """Whether this round belongs to the rebalance of the one before."""
    cause = state.cause
    if cause is None or data.group_protocol != state.protocol:
        return False
    if data.group_protocol == "consumer":
        return number == state.generation
    if any(seen) or any(hint.kind == GROWTH for hint in state.hints):
        return False
    if any(item.kind in KINDS and not _told(cause, item) for item in data.evidence):
        return False
    return state.revoked and data.protocol not in EAGER_ASSIGNORS


def _told(cause: Cause, item: Evidence) -> bool:
    """Whether a cause says already what this evidence does: in the same words, or of the same members."""
    if item in cause.evidence:
        return True
    named = set(cause.member_ids) if cause.kind == item.kind else set[str]()
    named.update(
        member_id for told in cause.evidence if told.kind == item.kind for member_id in told.member_ids
    )
    return bool(item.member_ids) and named.issuperset(item.member_ids)


def _learned(cause: Cause, state: GroupState, data: GroupObserved) -> Cause:
    """The cause of a round that follows: its rebalance's, which later evidence may name where none did at first."""
    if cause.kind != UNKNOWN:
        return cause
    evidence = [*data.evidence, *(hint for hint in state.hints if hint.kind == GROWTH)]
    new = [item for item in evidence if item not in cause.evidence]
    found = _cause(state, _Differing([], [], []), new, first=False, number=state.generation)
    return cause if found.kind == UNKNOWN else structs.replace(found, evidence=[*cause.evidence, *new])


def _cause(
    state: GroupState, seen: _Differing, evidence: list[Evidence], *, first: bool, number: int
) -> Cause:
    """The first kind, in the order of :data:`KINDS`, that evidence names; else that the comparison shows."""
    evidence = [*evidence]
    gone: dict[str, list[str]] = {"member.fenced": [], "member.left": [], UNKNOWN: []}
    for member_id in seen.gone:
        said = {item.kind for item in evidence if member_id in item.member_ids}
        # Somebody looked, and can't tell a crash from a leave.
        unsure = UNKNOWN in said and "member.left" not in said
        gone["member.fenced" if "member.fenced" in said else UNKNOWN if unsure else "member.left"].append(
            member_id
        )
    shown: dict[str, list[str]] = {
        "member.joined": seen.joined,
        "member.fenced": gone["member.fenced"],
        "member.left": gone["member.left"],
        "member.subscription_changed": seen.resubscribed,
        UNKNOWN: gone[UNKNOWN],
    }
    shown = {kind: ids for kind, ids in shown.items() if ids}
    named = [kind for kind in KINDS if any(item.kind == kind for item in evidence)]
    kind = next(iter([*named, *shown]), UNKNOWN)
    member_ids = shown.get(kind) or [
        member_id for item in evidence if item.kind == kind for member_id in item.member_ids
    ]
    evidence.extend(
        Evidence(source=COMPARISON, reason=_SHOWN[other], member_ids=ids, kind=other)
        for other, ids in shown.items()
        if other != kind
    )
    if first and number > 1:
        evidence.append(Evidence(source=COMPARISON, reason=f"first observation, at generation {number}"))
    elif not first and number > state.generation + 1:
        evidence.append(
            Evidence(
                source=COMPARISON, reason=f"generations {state.generation + 1} to {number - 1} were not seen"
            )
        )
    return Cause(kind=kind, member_ids=list(dict.fromkeys(member_ids)), evidence=evidence)


_SHOWN = {
    "member.joined": "not in the generation before",
    "member.fenced": "gone since the generation before, its session ended",
    "member.left": "gone since the generation before",
    "member.subscription_changed": "subscribes to other topics than in the generation before",
    UNKNOWN: "gone since the generation before, whether it left or crashed is not known",
}
