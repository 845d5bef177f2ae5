"""Rounds of observed groups: changes between two assignments that a collector read, and the cause of each change.

Under the classic protocol each new generation is one round. Under all other protocols each new epoch is one round, and
so is each step of members towards the epoch's target. `owned` before a round is the assignment after the group's last
observed round. The cause comes from evidence and from the comparison with the previous generation. If neither shows
the cause, its kind is ``group.observed``.

In groups with epochs, one epoch is one rebalance: the coordinator bumps it for every change of the group, so each
further step of the same epoch is the next round, whatever evidence comes with it. Under the classic protocol a round
continues the rebalance of the previous round if no new event is known and the previous round revoked partitions or
left Connect's tasks without a worker.

Members of Connect and of streams groups (KIP-1071) own tasks, and no record lists the existing tasks. A task counts
as existing if a member owns it, is assigned it, or gave it up during the rebalance in progress.
Tasks without an owner after a rebalance count as deleted.

If two collectors follow a group, the collector that reads ``__consumer_offsets`` decides, as it has all data. A polled
snapshot that is not ahead of it changes nothing. The first complete snapshot that equals the polled one gives the group
Kafka's generation, and the fields that polling lacks, without another round.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import UNSET, structs

from assignors.assignment import subtract_other_owners, union
from assignors.errors import BadInput
from assignors.model import TopicPartitions
from streaming.monitor import causes
from streaming.monitor.causes import MemberDifferences
from streaming.monitor.rounds import Round
from streaming.monitor.state import NOTHING, GroupState, MemberState, Ownership
from streaming.records import events
from streaming.records.diffs import Undelivered
from streaming.records.events import Event, Evidence, GroupObserved, Holding

#: Assignors under which members give up everything before they join, so that no round continues another.
EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky"})
#: Connect's protocols under which workers give up everything before they join.
EAGER_CONNECT = frozenset({"default"})


class MissingGeneration(BadInput):
    """group.observed: `generation` (classic) or `groupEpoch` (all other protocols) is missing."""


class ObservedGeneration(NamedTuple):
    """The result of an observed generation: the group's state, and the round, or None if nothing changed.

    ``latest``: True if the assignment changed without a round, as when a static member rejoins under a new id.
    """

    state: GroupState
    round: Round | None = None
    latest: bool = False


def observe(state: GroupState, data: GroupObserved) -> ObservedGeneration:
    """Apply an observed generation to a group.

    A generation at or below the known generation changes nothing, with two exceptions. A static member may have
    rejoined under a new member id, for which Kafka keeps the generation. And if generations start over and all known
    members are missing, or an empty group changed its protocol, the group was deleted and created again.
    """
    number, is_polled = round_number_of(data), data.polled
    first, has_epochs = not state.observed, data.group_protocol != "classic"
    if is_polled and state.observed and not state.counted and number <= state.generation:
        return ObservedGeneration(state)
    past = {member.member_id: member for member in state.members}
    members = tuple([_member_state(member, past.get(member.member_id)) for member in data.members])
    newcomers = _rejoined_members(state, members)
    state = state.rename(newcomers) if newcomers else state
    before = {member.member_id: member.owned for member in state.members}
    roles = _streams_roles(data)
    equal = {member.member_id: member.owned for member in members} == before and roles == (state.standby, state.warmup)
    if state.counted and not is_polled and equal and number >= state.generation:
        after = structs.replace(state, members=members, generation=number, counted=False)
        return ObservedGeneration(after, latest=True)
    can_be_new_group = bool(before) or (data.group_protocol != state.protocol and data.timestamp > state.timestamp)
    if not first and number <= state.generation:
        if number == state.generation:
            if not has_epochs or equal:
                renamed = state.with_names(members)
                return ObservedGeneration(renamed, latest=bool(newcomers) or renamed is not state)
        elif not members or not can_be_new_group or before.keys() & {member.member_id for member in members}:
            return ObservedGeneration(state)
        else:
            first = True
    undelivered: Undelivered | None = None
    if not (first or has_epochs or is_polled or state.counted or state.prior is None):
        state, undelivered = causes.delivered_share(state, state.prior, data)
    before = _shares_before(state, data)
    differences = causes.compare_members(state, members)
    followed = not first and _is_follow_up(state, differences, data, number, again=undelivered is not None)
    if followed and state.cause is not None and not any(differences):
        cause = causes.refine_cause(state.cause, state, data)
    else:
        missed = causes.missed_generations(state, data, number, first=first)
        cause = causes.find_cause(differences, [*data.evidence, *state.hints], members, missed)
    if undelivered is not None:
        cause = causes.add_undelivered(cause, undelivered)
    # Hints that are not about this rebalance are early: they belong to the next rebalance.
    remaining_hints = tuple(hint for hint in state.hints if not causes.has_evidence(cause, hint)) if followed else ()
    kind, (standby, warmup) = data.kind or "consumer", roles
    holds_tasks = kind == "connect" or data.group_protocol == "streams"
    decided = Round(
        state.round + 1 if followed else 1,
        number,
        data.group_protocol,
        data.protocol,
        cause,
        members,
        before,
        kind=kind,
        tasks=_unowned_tasks(state, data, before) if holds_tasks else None,
        changed=_changed_members(state, roles, newcomers, undelivered),
        undelivered=undelivered or UNSET,
    )
    fields = {"hints": remaining_hints, "kind": kind, "standby": standby, "warmup": warmup, "counted": is_polled}
    return ObservedGeneration(structs.replace(state, observed=True, **fields), decided)


def _shares_before(state: GroupState, data: GroupObserved) -> dict[str, Holding]:
    """Return each member's partitions before a round; new members own the unowned partitions that they claim."""
    before = {member.member_id: member.owned for member in state.members}
    for member in data.members:
        if member.member_id not in before:
            claimed = member.owned
            before[member.member_id] = subtract_other_owners(claimed, member.member_id, before) if claimed else NOTHING
    return before


def round_number_of(data: GroupObserved) -> int:
    """Return the generation or epoch of a snapshot; raise MissingGeneration if the event does not have it."""
    number = data.generation if data.group_protocol == "classic" else data.group_epoch
    if number is None:
        raise MissingGeneration
    return number


def _streams_roles(data: GroupObserved) -> tuple[dict[str, events.Partitions], dict[str, events.Partitions]]:
    if data.kind != "streams":
        return {}, {}
    standby = {member.member_id: member.standby for member in data.members if member.standby is not UNSET}
    return standby, {member.member_id: member.warmup for member in data.members if member.warmup is not UNSET}


def _changed_members(
    state: GroupState,
    roles: tuple[dict[str, events.Partitions], dict[str, events.Partitions]],
    newcomers: Mapping[str, MemberState],
    undelivered: Undelivered | None,
) -> frozenset[str]:
    changed = {member.member_id for member in newcomers.values()}
    changed.update(undelivered.evidence.member_ids if undelivered is not None else ())
    for before, after in zip((state.standby, state.warmup), roles, strict=True):
        changed.update(member_id for member_id in {**before, **after} if before.get(member_id) != after.get(member_id))
    return frozenset(changed)


def _unowned_tasks(state: GroupState, data: GroupObserved, before: Ownership) -> TopicPartitions:
    """Return the existing tasks that no member owns now."""
    if data.group_protocol != "classic":
        is_rebalancing = data.state not in ("Stable", "Empty")
    else:
        is_rebalancing = bool(data.delay_ms) or any(member.pending_revocation for member in data.members)
    shares: list[TopicPartitions] = [member.target or {} for member in data.members]
    if is_rebalancing:
        shares += [*before.values(), {name: sorted(owners) for name, owners in state.last_owners.items()}]
    tasks: TopicPartitions = {}
    for share in shares:
        tasks = union(tasks, share)
    return dict(sorted(tasks.items()))


def add_evidence(state: GroupState, event: Event) -> GroupState:
    """Return the group with a member event stored as evidence for the next generation.

    An event about a change that the last snapshot already contains is not evidence for the next generation.
    """
    data = event.data
    if isinstance(data, events.MemberJoined | events.MemberLeft | events.MemberFenced):
        joins = isinstance(data, events.MemberJoined)
        is_shown = data.acknowledges is True and joins == (state.member(data.member_id) is not None)
        reason = "" if isinstance(data, events.MemberJoined) else data.reason or ""
        return state if is_shown else add_hint(state, event, reason, data.member_id)
    return add_hint(state, event, "", data.member_id) if isinstance(data, events.SubscriptionChanged) else state


def add_hint(state: GroupState, event: Event, reason: str, *member_ids: str) -> GroupState:
    """Return the group with an event stored as evidence for the cause of the next generation."""
    item = Evidence(source=event.source, reason=reason, member_ids=list(member_ids), kind=event.type)
    return structs.replace(state, hints=(*state.hints[-15:], item))


def _rejoined_members(state: GroupState, members: tuple[MemberState, ...]) -> dict[str, MemberState]:
    present = {member.member_id for member in members}
    static = {member.instance_id: member for member in members if member.instance_id is not None}
    return {
        member.member_id: static[member.instance_id]
        for member in state.members
        if member.instance_id in static and member.member_id not in present
    }


def _member_state(member: events.ObservedMember, state: MemberState | None) -> MemberState:
    """Return the state of an observed member; the same object as ``state`` if the member has not changed."""
    seen = MemberState(
        member_id=member.member_id,
        topics=member.topics,
        instance_id=member.group_instance_id,
        rack_id=member.rack_id,
        session_timeout_ms=member.session_timeout_ms,
        owned=_sorted_partitions(member.assigned, NOTHING if state is None else state.owned),
        client_id=member.client_id,
        client_host=member.client_host,
    )
    return state if state is not None and seen == state else seen


def _sorted_partitions(assigned: Holding, current: Holding) -> Holding:
    """Return the assigned partitions, sorted and without duplicates; a list equal to one in ``current`` is reused."""
    if assigned == current:
        return current
    return {
        topic: old if (old := current.get(topic)) == assigned[topic] else sorted(set(assigned[topic]))
        for topic in sorted(assigned)
        if assigned[topic]
    }


def _is_follow_up(state: GroupState, seen: MemberDifferences, data: GroupObserved, number: int, *, again: bool) -> bool:
    """Return whether a round belongs to the previous round's rebalance; ``again``: that round was never delivered."""
    cause = state.cause
    if cause is None or data.group_protocol != state.protocol:
        return False
    if data.group_protocol != "classic":
        return number == state.generation
    if any(seen) or any(hint.kind == causes.PARTITIONS_CHANGED for hint in state.hints):
        return False
    trigger_evidence = [item for item in data.evidence if item.kind in (*causes.CAUSE_KINDS, events.PROBING)]
    if not all(causes.has_evidence(cause, item) for item in trigger_evidence):
        return False
    revoked = state.revoked or (data.kind == "connect" and bool(state.last_owners))
    return again or (revoked and data.protocol not in (EAGER_CONNECT if data.kind == "connect" else EAGER_ASSIGNORS))
