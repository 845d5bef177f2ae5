"""Reported groups: members report their own assignments, so nothing is computed and no collector is needed.

Each member reports its own partitions, in its own events. This module combines the reports of one generation:

* classic: a generation is a round once some member has kept its assignment for :data:`SETTLED_MS` and every
  member has acknowledged that generation or a later one. A generation that a client skipped is no round. After
  :data:`PATIENCE_MS` the round no longer waits for late members: they keep the partitions that no other member has.
* consumer (KIP-848): members acknowledge only their own changes, so all assignments together are a step of the
  epoch once some member has kept its assignment for :data:`SETTLED_MS`.

A member that leaves or is removed disappears when the others acknowledge the next generation. The last member
disappears at once, as does any member under the consumer protocol. A late acknowledgement of a generation that is
already a round makes one more round. The reports are combined into a snapshot like a collector's, from which
:mod:`streaming.monitor.observed` derives the round. Members that do not report are missing from it.

No clock is read, and times of different members are never compared.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET, structs

from assignors.assignment import minus_others, union
from streaming.monitor import derived, observed
from streaming.monitor.observed import EAGER_ASSIGNORS, Seen
from streaming.monitor.rounds import Round
from streaming.monitor.state import (
    GroupState,
    MemberState,
    Reports,
    find_member,
    next_generation,
    ownership,
    subscribed,
    tidy,
)
from streaming.protocols.vocabulary import InconsistentGroupProtocol
from streaming.records.events import (
    AssignmentAcknowledged,
    Event,
    Evidence,
    GroupObserved,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    ObservedMember,
    SubscriptionChanged,
)

#: After this time with an unchanged assignment the reports of the other members have arrived, ms.
SETTLED_MS = 2000
#: How long a round waits for a member after another one has acknowledged the generation, ms.
PATIENCE_MS = 10_000
#: The most incomplete generations that are kept; a client that never reports ``heldMs`` completes none.
MOST_OPEN = 16
SOURCE = "listener"
#: Text of the evidence of these rounds.
LIMITS = "as its members report it themselves; members that do not report are not seen"


class Ready(NamedTuple):
    """Complete reports of a generation: the group with them, the round if there is one, and the event for it."""

    state: GroupState
    round: Round | None
    event: Event


def overrule(state: GroupState, data: GroupObserved) -> GroupState:
    """Return a reported group that a collector now follows: from here on reports are only evidence.

    A polled snapshot that is not ahead of the reports changes nothing.
    """
    if data.polled and state.observed and observed.numbered(data) <= state.generation:
        return state
    return structs.replace(state, reports=None)


def add_report(state: GroupState, event: Event) -> GroupState:
    """Return the group with the report of one event stored; rounds follow in :func:`next_ready`."""
    state = state if state.reports is not None else structs.replace(state, reports=Reports())
    match event.data:
        case MemberJoined() as data:
            return _apply_join(state, event, data) if data.acknowledges is True else state
        case SubscriptionChanged() as data:
            return _apply_subscription(state, event, data)
        case MemberLeft() | MemberFenced() as data:
            return _apply_removal(state, event, data)
        case AssignmentAcknowledged() as data:
            return _apply_acknowledgement(state, data)
        case _:
            return state


def _reports(state: GroupState) -> Reports:
    return state.reports or Reports()


def _with_reports(state: GroupState, **changes: object) -> GroupState:
    return structs.replace(state, reports=structs.replace(_reports(state), **changes))


def _apply_join(state: GroupState, event: Event, data: MemberJoined) -> GroupState:
    joining = MemberState.joining(data)
    members = _reports(state).members
    present = find_member(members, data.member_id, data.group_instance_id)
    members = (
        (*members, joining)
        if present is None
        else tuple(joining if member is present else member for member in members)
    )
    state = _with_reports(state, members=members)
    if state.member(data.member_id) is not None:
        return _without_hints(state, data.member_id)
    return observed.add_evidence(state, event) if present is None else state


def _without_hints(state: GroupState, *member_ids: str) -> GroupState:
    hints = tuple(hint for hint in state.hints if not {*hint.member_ids} & {*member_ids})
    return structs.replace(state, hints=hints)


def _apply_return(state: GroupState, member: MemberState) -> GroupState:
    old = state.member(member.member_id, member.instance_id)
    if old is None or old.member_id == member.member_id:
        return state
    return _without_hints(state.rename({old.member_id: member}), old.member_id, member.member_id)


def _apply_subscription(state: GroupState, event: Event, data: SubscriptionChanged) -> GroupState:
    members = _reports(state).members
    present = find_member(members, data.member_id)
    if present is None or set(present.topics) == set(data.topics):
        return state
    changed = structs.replace(present, topics=data.topics)
    state = _with_reports(state, members=tuple(changed if member is present else member for member in members))
    return observed.add_evidence(state, event)


def _apply_removal(state: GroupState, event: Event, data: MemberLeft | MemberFenced) -> GroupState:
    reports = _reports(state)
    present = find_member(reports.members, data.member_id, data.group_instance_id)
    if present is None:
        return state
    at = {name: number for name, number in reports.at.items() if name != present.member_id}
    state = _with_reports(state, members=tuple(member for member in reports.members if member is not present), at=at)
    if reports.at.get(present.member_id, 0) < reports.settled:  # it acknowledged an earlier generation only
        now = {reports.settled: event.data.timestamp}
        state = _with_reports(state, open={reports.settled: {}} | reports.open, since=now | reports.since)
    if state.member(present.member_id) is None:  # it joined and departed between two rounds
        return state
    return observed.hint(state, event, data.reason or "", present.member_id)


def _apply_acknowledgement(state: GroupState, data: AssignmentAcknowledged) -> GroupState:
    reports = _reports(state)
    member = find_member(reports.members, data.member_id)
    if member is None or data.generation < 0:
        return state
    number = data.generation
    if number <= reports.settled:
        state = _apply_return(state, member)
    if member.group_protocol != "classic":
        number = max(number, reports.settled)  # it may still give up partitions of an earlier epoch
    elif number < max(reports.settled, reports.at.get(member.member_id, 0)):
        return state
    at = reports.at | {member.member_id: number}
    held_ms = 0 if data.held_ms is UNSET else data.held_ms
    state = _with_reports(
        state,
        at=at,
        ready=max(reports.ready, number) if held_ms >= SETTLED_MS else reports.ready,
        overdue=max(reports.overdue, number) if held_ms >= PATIENCE_MS else reports.overdue,
    )
    owned = tidy(data.owned)
    last = state.member(member.member_id)
    if (
        last is not None
        and number == reports.settled
        and (member.group_protocol == "classic" or (last.owned == owned and number not in reports.open))
    ):
        return state  # a repeat
    if number not in reports.open:  # perhaps others are late as well
        reports = _reports(state)
        at_most = number if held_ms >= SETTLED_MS else number - 1
        state = _with_reports(state, ready=min(reports.ready, at_most), overdue=min(reports.overdue, at_most))
    reports = _reports(state)
    acknowledged = reports.open.get(number, {}) | {member.member_id: structs.replace(member, owned=owned)}
    since = {number: max(data.timestamp - held_ms, 0)} | reports.since
    return _with_few_open(_with_reports(state, open=reports.open | {number: acknowledged}, since=since))


def _with_few_open(state: GroupState) -> GroupState:
    """Return the group with at most :data:`MOST_OPEN` open generations; older ones count as skipped."""
    reports = _reports(state)
    if len(reports.open) <= MOST_OPEN:
        return state
    first, second, *rest = sorted(reports.open)
    merged = {second: reports.open[first] | reports.open[second]}
    return _with_reports(
        state,
        open=merged | {number: reports.open[number] for number in rest},
        since={number: at for number, at in reports.since.items() if number != first},
    )


def next_ready(state: GroupState, event: Event) -> Ready | None:
    """Return the next complete generation, epoch or step after an event; None if there is none."""
    reports = _reports(state)
    if not reports.members:
        return _last_round(state, event) if state.members or reports.open else None
    if derived.protocol(reports.members) != "classic":
        return _step(state, event)
    for number in sorted(reports.open):
        waiting = any(reports.at.get(member.member_id, 0) < number for member in reports.members)
        if number > reports.ready or (waiting and number > reports.overdue):
            return None
        later = [later_number for later_number in reports.open if later_number > number]
        if later and _is_skipped(state, number):
            merged = reports.open[number] | reports.open[min(later)]
            state = _with_reports(
                state,
                open={min(later): merged}
                | {n: acknowledged for n, acknowledged in reports.open.items() if n > min(later)},
            )
            return Ready(state, None, event)
        return _generation(state, event, number)
    return None


def _is_skipped(state: GroupState, number: int) -> bool:
    """Return whether some member skipped this generation, as it had already joined the next one."""
    reports = _reports(state)
    acknowledged = reports.open[number]
    return any(
        reports.at.get(member.member_id, 0) > number
        and member.member_id not in acknowledged
        and state.member(member.member_id) is not None
        for member in reports.members
    )


def _last_round(state: GroupState, event: Event) -> Ready:
    """Return the round of a group whose last member has departed: its last open generation, or the empty group."""
    reports = _reports(state)
    if reports.open:
        first = min(reports.open)
        if state.protocol == "classic":
            return _generation(state, event, first)
        state = _with_reports(state, open={}, since={})
    number = next_generation(max(state.generation, reports.settled))
    if number <= state.generation:  # numbers start over, and the empty group is not an old one
        state = structs.replace(state, generation=number - 1)
    ready = _complete(state, event, number, [], event.data.timestamp)
    return ready._replace(state=structs.replace(ready.state, reports=Reports()))


def _generation(state: GroupState, event: Event, number: int) -> Ready:
    reports = _reports(state)
    acknowledged, when = reports.open[number], reports.since[number]
    held = ownership(acknowledged.values())
    members = [*acknowledged.values()]
    for member in reports.members:
        last = state.member(member.member_id)
        if member.member_id not in acknowledged and last is not None:
            owned = minus_others(last.owned, member.member_id, held)
            members.append(structs.replace(member, owned=owned))
    rest = {open_number: acks for open_number, acks in reports.open.items() if open_number != number}
    since = {open_number: at for open_number, at in reports.since.items() if open_number != number}
    state = _with_reports(state, open=rest, since=since, settled=number)
    return _complete(state, event, number, members, when)


def _step(state: GroupState, event: Event) -> Ready | None:
    """Return the next step of a consumer group once a member has kept its assignment long enough, or has departed."""
    reports = _reports(state)
    present = {member.member_id for member in reports.members}
    gone = [member for member in state.members if member.member_id not in present]
    if not gone and not any(number <= reports.ready for number in reports.open):
        return None
    before = ownership(state.members)
    acknowledged: dict[str, MemberState] = {}
    for number in sorted(reports.open):
        acknowledged = {name: member for name, member in acknowledged.items() if name not in reports.open[number]}
        acknowledged |= reports.open[number]
    # If two members report a partition, its new owner counts: the report of the old owner is late.
    taken: dict[str, MemberState] = {}
    for member in sorted(
        acknowledged.values(), key=lambda reporting: reporting.owned == before.get(reporting.member_id)
    ):
        owned = minus_others(member.owned, member.member_id, ownership(taken.values()))
        taken[member.member_id] = structs.replace(member, owned=owned)
    members = [member for member in taken.values() if member.member_id in present]
    for member in reports.members:
        last = state.member(member.member_id)
        if member.member_id not in acknowledged and last is not None:
            owned = minus_others(last.owned, member.member_id, ownership(taken.values()))
            members.append(structs.replace(member, owned=owned))
    epochs = (state.generation, *reports.at.values())
    number = next_generation(state.generation) if gone else max(epochs)
    when = min(reports.since.values(), default=event.data.timestamp)
    state = _with_reports(state, open={}, since={}, settled=max(reports.settled, *epochs))
    if number > state.generation and ownership(members) == before:  # no change for any reporting member
        return Ready(state, None, event)
    return _complete(state, event, number, members, when)


def _complete(state: GroupState, event: Event, number: int, members: list[MemberState], when: int) -> Ready:
    data = _snapshot(state, event.data.group_id, number, members, when)
    late = number <= state.generation and data.group_protocol == "classic"
    state_before = structs.replace(state, generation=number - 1) if late else state
    seen = observed.observe(state_before, data)
    if seen.round is not None:
        step = state.round + 1 if late and number == state.generation else seen.round.number
        seen = seen._replace(round=seen.round._replace(number=step, tasks=_released(state, seen, data)))
    return Ready(seen.state, seen.round, Event(event.source, f"{event.id}/{number}", data))


def _released(state: GroupState, seen: Seen, data: GroupObserved) -> dict[str, list[int]] | None:
    """Return the partitions that were given up for a member whose report has not arrived yet.

    None if partition counts are known, which members do not report.
    """
    if seen.round is None or any(topic in state.topics for topic in subscribed(seen.round.members)):
        return None
    after = ownership(seen.round.members)
    moving = data.protocol not in EAGER_ASSIGNORS and any(
        minus_others(owned, "", {"": {}, name: after[name]})
        for name, owned in seen.round.before.items()
        if name in after
    )
    released: dict[str, list[int]] = {}
    for owned in seen.round.before.values() if moving else ():
        released = {topic: [*numbers] for topic, numbers in union(released, owned).items()}
    return released


def _snapshot(state: GroupState, group_id: str, number: int, members: list[MemberState], when: int) -> GroupObserved:
    order = {member.member_id: place for place, member in enumerate(_reports(state).members)}
    protocol = derived.protocol(members) if members else state.protocol
    return GroupObserved(
        group_id=group_id,
        timestamp=when,
        members=[
            ObservedMember(
                member_id=member.member_id,
                topics=member.topics,
                assigned=dict(member.owned),
                group_instance_id=member.instance_id,
                rack_id=member.rack_id,
                session_timeout_ms=member.session_timeout_ms,
                client_id=member.client_id,
                client_host=member.client_host,
            )
            for member in sorted(members, key=lambda sorted_member: order.get(sorted_member.member_id, len(order)))
        ],
        generation=number if protocol == "classic" else None,
        group_epoch=None if protocol == "classic" else number,
        group_protocol="classic" if protocol == "classic" else "consumer",
        protocol=_assignor(members, protocol),
        state="Stable" if members else "Empty",
        evidence=[Evidence(source=SOURCE, reason=LIMITS)],
    )


def _assignor(members: list[MemberState], protocol: str) -> str | None:
    if not members:
        return None
    if protocol != "classic":
        return derived.consumer_assignor(members)
    try:
        return derived.classic_assignor(members)
    except InconsistentGroupProtocol:  # members that do not report also vote
        return None
