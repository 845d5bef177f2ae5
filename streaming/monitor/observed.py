"""Observed groups: a collector read the assignment; what is computed is the difference and the cause.

Each new generation (all protocols but the classic one: each new epoch, and each step of members towards its target)
is one round. `owned` before a round is what the group's last observed round left. The cause comes from comparing
the generation with the one before and from evidence; if neither shows it, the kind is ``group.observed``.

Where epochs count a rebalance is one epoch: the coordinator bumps it for whatever changes the group, so each
further step of the same epoch is the next round, whatever evidence comes with it. Under the classic protocol a
round follows from the one before when that one revoked partitions, or left tasks of Connect without a worker, and
nothing new is known to have happened.

Members of Connect and of streams groups (KIP-1071) own tasks, and nothing says which there are. They are those that
members own or are to own and, during a rebalance (:func:`_on_its_way`), those that were given up. Tasks without an
owner after it are deleted.

If two collectors follow a group, the one by offsets decides, as it sees everything. A polled view that is not ahead
of it changes nothing. The first view by offsets that equals the polled one gives the group Kafka's number, and what
polling could not see, without another round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import UNSET, structs

from assignors.assignment import minus_others, union
from assignors.errors import BadInput
from assignors.model import TopicPartitions
from streaming.monitor.causes import (
    GROWTH,
    KINDS,
    Differing,
    cause_of,
    compare,
    has_evidence,
    learned,
    undo,
    unseen,
    with_undelivered,
)
from streaming.monitor.rounds import Round
from streaming.monitor.state import NOTHING, GroupState, MemberState, Ownership
from streaming.records.diffs import Undelivered
from streaming.records.events import (
    PROBING,
    Event,
    Evidence,
    GroupObserved,
    Holding,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    ObservedMember,
    Partitions,
    SubscriptionChanged,
)

#: Under these a member gives everything up before it joins, so no round follows from another.
EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky"})
#: The same of Connect's protocols.
EAGER_CONNECT = frozenset({"default"})


class MissingGeneration(BadInput):
    """group.observed: `generation` (classic) or `groupEpoch` (all other protocols) is missing."""


class Seen(NamedTuple):
    """An observed generation, applied to its group, whose round (None: there is none) is still to be played.

    ``latest``: the latest assignment changed without a round, as when a static member came back under a new id.
    """

    state: GroupState
    round: Round | None
    latest: bool


def observe(state: GroupState, data: GroupObserved) -> Seen:
    """Apply an observed generation to a group.

    A generation at or below the known one changes nothing, except that a static member may have rejoined
    under a new member id (no rebalance: Kafka keeps the generation), and except that a generation that starts
    over with none of the known members is a new group of that name: its deletion was missed.
    """
    number, polled = numbered(data), data.polled
    first, epochs = not state.observed, data.group_protocol != "classic"
    if polled and state.observed and not state.counted and number <= state.generation:
        return Seen(state, None, latest=False)
    known = {member.member_id: member for member in state.members}
    members = tuple([seen_as(member, known.get(member.member_id)) for member in data.members])
    newcomers = _newcomers(state, members)
    state = state.rename(newcomers) if newcomers else state
    before = {member.member_id: member.owned for member in state.members}
    roles = _roles(data)
    same = {member.member_id: member.owned for member in members} == before and roles == (state.standby, state.warmup)
    if state.counted and not polled and same and number >= state.generation:
        after = structs.replace(state, members=members, generation=number, counted=False)
        return Seen(after, None, latest=True)
    if not first and number <= state.generation:
        if number == state.generation:
            if not epochs or same:
                called = state.with_names(members)
                return Seen(called, None, bool(newcomers) or called is not state)
        elif not members or not before or before.keys() & {member.member_id for member in members}:
            return Seen(state, None, latest=False)
        else:
            first = True
    undelivered: Undelivered | None = None
    if not (first or epochs or polled or state.counted or state.former is None):
        state, undelivered = undo(state, state.former, data)
    before = _before(state, data)
    differing = compare(state, members)
    followed = not first and _follows(state, differing, data, number, again=undelivered is not None)
    if followed and state.cause is not None and not any(differing):
        cause = learned(state.cause, state, data)
    else:
        said = [*data.evidence, *state.hints]
        cause = cause_of(differing, said, members, unseen(state, data, number, first=first))
    if undelivered is not None:
        cause = with_undelivered(cause, undelivered)
    # Hints that are not about this rebalance are early: they are for the next one.
    hints = tuple(hint for hint in state.hints if not has_evidence(cause, hint)) if followed else ()
    step = state.round + 1 if followed else 1
    kind = data.kind or "consumer"
    standby, warmup = roles
    holds_tasks = kind == "connect" or data.group_protocol == "streams"
    tasks = _tasks(state, data, before) if holds_tasks else None
    decided = Round(
        *(step, number, data.group_protocol, data.protocol, cause, members, before),
        kind=kind,
        tasks=tasks,
        touched=_touched(state, roles, newcomers, undelivered),
        undelivered=undelivered or UNSET,
    )
    after = structs.replace(
        state, observed=True, hints=hints, kind=kind, standby=standby, warmup=warmup, counted=polled
    )
    return Seen(after, decided, bool(newcomers))


def _before(state: GroupState, data: GroupObserved) -> dict[str, Holding]:
    """Return what members own before a round: new ones what they bring, unless another member owns it."""
    before = {member.member_id: member.owned for member in state.members}
    for member in data.members:
        if member.member_id not in before:
            claimed = member.owned
            before[member.member_id] = minus_others(claimed, member.member_id, before) if claimed else NOTHING
    return before


def numbered(data: GroupObserved) -> int:
    """Return the number of the generation or epoch; raises MissingGeneration if it is not in the event."""
    number = data.generation if data.group_protocol == "classic" else data.group_epoch
    if number is None:
        raise MissingGeneration
    return number


def _roles(data: GroupObserved) -> tuple[dict[str, Partitions], dict[str, Partitions]]:
    if data.kind != "streams":
        return {}, {}
    standby = {one.member_id: one.standby for one in data.members if one.standby is not UNSET}
    warmup = {one.member_id: one.warmup for one in data.members if one.warmup is not UNSET}
    return standby, warmup


def _touched(
    state: GroupState,
    roles: tuple[dict[str, Partitions], dict[str, Partitions]],
    newcomers: Mapping[str, MemberState],
    undelivered: Undelivered | None,
) -> frozenset[str]:
    found = {member.member_id for member in newcomers.values()}
    found.update(undelivered.evidence.member_ids if undelivered is not None else ())
    for before, after in zip((state.standby, state.warmup), roles, strict=True):
        found.update(one for one in {**before, **after} if before.get(one) != after.get(one))
    return frozenset(found)


def _tasks(state: GroupState, data: GroupObserved, before: Ownership) -> TopicPartitions:
    """Return the tasks that exist beside those that members own now."""
    found: TopicPartitions = {}
    for member in data.members:
        found = union(found, member.target or {})
    if _on_its_way(data):
        for share in before.values():
            found = union(found, share)
        found = union(found, {name: sorted(owners) for name, owners in state.last_owners.items()})
    return dict(sorted(found.items()))


def _on_its_way(data: GroupObserved) -> bool:
    if data.group_protocol != "classic":
        return data.state not in ("Stable", "Empty")
    return bool(data.delay_ms) or any(member.pending_revocation for member in data.members)


def add_evidence(state: GroupState, event: Event) -> GroupState:
    """Return the group with a member event as evidence for the next generation.

    A report about a change that the last view has shown already is no evidence for the next.
    """
    data = event.data
    if isinstance(data, MemberJoined | MemberLeft | MemberFenced) and data.acknowledges is True:
        shown = (state.member(data.member_id) is not None) == isinstance(data, MemberJoined)
        if shown:
            return state
    if isinstance(data, MemberLeft | MemberFenced):
        return hint(state, event, data.reason or "", data.member_id)
    if isinstance(data, MemberJoined | SubscriptionChanged):
        return hint(state, event, "", data.member_id)
    return state


def hint(state: GroupState, event: Event, reason: str, *member_ids: str) -> GroupState:
    """Return the group with an event as evidence for the cause of the next generation."""
    item = Evidence(source=event.source, reason=reason, member_ids=list(member_ids), kind=event.type)
    return structs.replace(state, hints=(*state.hints[-15:], item))


def _newcomers(state: GroupState, members: tuple[MemberState, ...]) -> dict[str, MemberState]:
    present = {member.member_id for member in members}
    static = {member.instance_id: member for member in members if member.instance_id is not None}
    return {
        member.member_id: static[member.instance_id]
        for member in state.members
        if member.instance_id in static and member.member_id not in present
    }


def seen_as(member: ObservedMember, known: MemberState | None = None) -> MemberState:
    """Return the state of an observed member; ``known`` itself if nothing has changed."""
    seen = MemberState(
        member_id=member.member_id,
        topics=member.topics,
        instance_id=member.group_instance_id,
        rack_id=member.rack_id,
        session_timeout_ms=member.session_timeout_ms,
        owned=_tidy(member.assigned, NOTHING if known is None else known.owned),
        client_id=member.client_id,
        client_host=member.client_host,
    )
    return known if known is not None and seen == known else seen


def _tidy(assigned: Holding, known: Holding) -> Holding:
    """Return the partitions sorted, each once; lists of ``known`` are reused if they are equal."""
    if assigned == known:
        return known
    return {
        topic: mine if (mine := known.get(topic)) == assigned[topic] else sorted(set(assigned[topic]))
        for topic in sorted(assigned)
        if assigned[topic]
    }


def _follows(state: GroupState, seen: Differing, data: GroupObserved, number: int, *, again: bool) -> bool:
    """Return whether a round belongs to the rebalance of the round before; ``again``: that was not delivered."""
    cause = state.cause
    if cause is None or data.group_protocol != state.protocol:
        return False
    if data.group_protocol != "classic":
        return number == state.generation
    if any(seen) or any(hint.kind == GROWTH for hint in state.hints):
        return False
    if any(item.kind in (*KINDS, PROBING) and not has_evidence(cause, item) for item in data.evidence):
        return False
    if data.kind == "connect":
        revoked = state.revoked or bool(state.last_owners)
        return again or (revoked and data.protocol not in EAGER_CONNECT)
    return again or (state.revoked and data.protocol not in EAGER_ASSIGNORS)
