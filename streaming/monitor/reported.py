"""Rounds of reported groups: members report their own assignments, so neither an assignor nor a collector is needed.

Each member reports its own partitions, in its own events. This module combines the reports of one generation:

* classic: a generation is a round once some member has kept its assignment for :data:`SETTLING_MS` and every
  member has acknowledged that generation or a later one. A generation that a client skipped is not a round. After
  :data:`LATE_MEMBER_WAIT_MS` the round no longer waits for late members: they keep partitions that no other member has.
* consumer (KIP-848): a member acknowledges only changes of its own assignment. So the newest assignments of all
  members are a step of the epoch once the assignment of some member is unchanged for :data:`SETTLING_MS`.

A member that leaves or is removed counts until the other members acknowledge the next generation. The last member
is dropped at once, as is any member under the consumer protocol. A late acknowledgement of a generation that is
already a round makes one more round. The reports are combined into a snapshot like a collector's, from which
:mod:`streaming.monitor.observed` derives the round. Members that do not report are missing from it.

No clock is read, and times of different members are never compared.
"""

from contextlib import suppress
from typing import NamedTuple

from msgspec import UNSET, structs

from assignors.assignment import as_lists, subtract, subtract_other_owners, union
from assignors.model import TopicPartitions
from streaming.monitor import derived, observed
from streaming.monitor.observed import EAGER_ASSIGNORS, ObservedGeneration
from streaming.monitor.rounds import Round
from streaming.monitor.state import (
    GroupState,
    MemberState,
    Ownership,
    Reports,
    find_member,
    next_generation,
    ownership,
    sorted_partitions,
    subscribed,
)
from streaming.protocols.vocabulary import InconsistentGroupProtocol
from streaming.records import events
from streaming.records.events import Event, Evidence, GroupObserved, Holding

#: After this time with an unchanged assignment the reports of the other members have arrived, ms.
REPORT_WAIT_MS = 2000
#: How long a round waits for a member after another member has acknowledged the generation, ms.
LATE_MEMBER_WAIT_MS = 10_000
#: The most incomplete generations that are kept; a client that never reports ``heldMs`` completes none.
MAX_OPEN_GENERATIONS = 16
SOURCE = "listener"
#: Reason in the evidence of rounds that members reported.
REPORTED_ONLY_REASON = "as its members report it themselves; members that do not report are not seen"


class ReadyRound(NamedTuple):
    """A generation that all members reported: the resulting state, the round (None: no change), and its event."""

    state: GroupState
    round: Round | None
    event: Event


def switch_to_observed(state: GroupState, data: GroupObserved) -> GroupState:
    """Return a group that a collector now observes: from now on, members' reports are only evidence.

    A polled snapshot that is not ahead of the reports changes nothing.
    """
    if data.polled and state.observed and observed.round_number_of(data) <= state.generation:
        return state
    return structs.replace(state, reports=None)


def add_report(state: GroupState, event: Event) -> GroupState:
    """Return the state with a member's report from this event; :func:`next_ready_round` makes rounds of the reports."""
    state = state if state.reports is not None else structs.replace(state, reports=Reports())
    match event.data:
        case events.MemberJoined() as data:
            return _apply_join(state, event, data) if data.acknowledges is True else state
        case events.SubscriptionChanged() as data:
            return _apply_subscription(state, event, data)
        case events.MemberLeft() | events.MemberFenced() as data:
            return _apply_removal(state, event, data)
        case events.AssignmentAcknowledged() as data:
            return _apply_acknowledgement(state, data)
        case _:
            return state


def _reports_of(state: GroupState) -> Reports:
    return state.reports or Reports()


def _replace_reports(state: GroupState, **changes: object) -> GroupState:
    return structs.replace(state, reports=structs.replace(_reports_of(state), **changes))


def _set_member(state: GroupState, present: MemberState | None, member: MemberState) -> GroupState:
    """Return the state with ``member`` added, or in place of its earlier state ``present`` if that is not None."""
    kept = tuple(member if item is present else item for item in _reports_of(state).members)
    return _replace_reports(state, members=kept if present is not None else (*kept, member))


def _apply_join(state: GroupState, event: Event, data: events.MemberJoined) -> GroupState:
    present = find_member(_reports_of(state).members, data.member_id, data.group_instance_id)
    state = _set_member(state, present, MemberState.joining(data))
    if state.member(data.member_id) is not None:
        return _remove_hints(state, data.member_id)
    return observed.add_evidence(state, event) if present is None else state


def _remove_hints(state: GroupState, *member_ids: str) -> GroupState:
    return structs.replace(state, hints=tuple(hint for hint in state.hints if not {*hint.member_ids} & {*member_ids}))


def _apply_subscription(state: GroupState, event: Event, data: events.SubscriptionChanged) -> GroupState:
    present = find_member(_reports_of(state).members, data.member_id)
    if present is None or set(present.topics) == set(data.topics):
        return state
    state = _set_member(state, present, structs.replace(present, topics=data.topics))
    return observed.add_evidence(state, event)


def _apply_removal(state: GroupState, event: Event, data: events.MemberLeft | events.MemberFenced) -> GroupState:
    reports = _reports_of(state)
    present = find_member(reports.members, data.member_id, data.group_instance_id)
    if present is None:
        return state
    members = tuple(member for member in reports.members if member is not present)
    at = {name: number for name, number in reports.at.items() if name != present.member_id}
    state = _replace_reports(state, members=members, at=at)
    if reports.at.get(present.member_id, 0) < reports.settled:  # the member acknowledged only an earlier generation
        now = {reports.settled: event.data.timestamp}
        state = _replace_reports(state, open={reports.settled: {}} | reports.open, since=now | reports.since)
    if state.member(present.member_id) is None:  # the member joined and departed between two rounds
        return state
    return observed.add_hint(state, event, data.reason or "", present.member_id)


def _apply_acknowledgement(state: GroupState, data: events.AssignmentAcknowledged) -> GroupState:
    reports = _reports_of(state)
    member = find_member(reports.members, data.member_id)
    if member is None or data.generation < 0:
        return state
    number = data.generation
    old = state.member(member.member_id, member.instance_id)
    if number <= reports.settled and old is not None and old.member_id != member.member_id:  # a static rejoin
        state = _remove_hints(state.rename({old.member_id: member}), old.member_id, member.member_id)
    if member.group_protocol != "classic":
        number = max(number, reports.settled)  # the member may still give up partitions of an earlier epoch
    elif number < max(reports.settled, reports.at.get(member.member_id, 0)):
        return state
    at = reports.at | {member.member_id: number}
    wait_ms = 0 if data.held_ms is UNSET else data.held_ms
    ready = max(reports.ready, number) if wait_ms >= REPORT_WAIT_MS else reports.ready
    overdue = max(reports.overdue, number) if wait_ms >= LATE_MEMBER_WAIT_MS else reports.overdue
    owned, last, is_open = sorted_partitions(data.owned), state.member(member.member_id), number in reports.open
    is_classic = member.group_protocol == "classic"
    if last is not None and number == reports.settled and (is_classic or (last.owned == owned and not is_open)):
        return _replace_reports(state, at=at, ready=ready, overdue=overdue)  # the event is a repeat
    if not is_open:  # other members may be late as well
        last_number = number if wait_ms >= REPORT_WAIT_MS else number - 1
        ready, overdue = min(ready, last_number), min(overdue, last_number)
    acknowledged = reports.open.get(number, {}) | {member.member_id: structs.replace(member, owned=owned)}
    reported_generations = reports.open | {number: acknowledged}
    since = {number: max(data.timestamp - wait_ms, 0)} | reports.since
    if len(reported_generations) > MAX_OPEN_GENERATIONS:  # the oldest generation counts as skipped
        first, second, *_ = sorted(reported_generations)
        reported_generations[second] = reported_generations.pop(first) | reported_generations[second]
        since.pop(first, None)
    return _replace_reports(state, at=at, ready=ready, overdue=overdue, open=reported_generations, since=since)


def next_ready_round(state: GroupState, event: Event) -> ReadyRound | None:
    """Return the next round (a generation or a step of an epoch) that all members have reported, or None."""
    reports = _reports_of(state)
    if not reports.members:
        return _last_round(state, event) if state.members or reports.open else None
    if derived.protocol(reports.members) != "classic":
        return _next_epoch_step(state, event)
    for number in sorted(reports.open):
        waiting = any(reports.at.get(member.member_id, 0) < number for member in reports.members)
        if number > reports.ready or (waiting and number > reports.overdue):
            return None
        later = [later_number for later_number in reports.open if later_number > number]
        # A member that has joined the next generation without acknowledging this one skipped it.
        has_missing_generation = any(
            reports.at.get(member.member_id, 0) > number
            and member.member_id not in reports.open[number]
            and state.member(member.member_id) is not None
            for member in reports.members
        )
        if later and has_missing_generation:
            reported_generations = {later_number: reports.open[later_number] for later_number in sorted(later)}
            reported_generations[min(later)] = reports.open[number] | reported_generations[min(later)]
            return ReadyRound(_replace_reports(state, open=reported_generations), None, event)
        return _complete_generation(state, event, number)
    return None


def _last_round(state: GroupState, event: Event) -> ReadyRound:
    """Return the last round of a group without members: the generation still being reported, or an empty assignment."""
    reports = _reports_of(state)
    if reports.open:
        first = min(reports.open)
        if state.protocol == "classic":
            return _complete_generation(state, event, first)
        state = _replace_reports(state, open={}, since={})
    number = next_generation(max(state.generation, reports.settled))
    if number <= state.generation:  # generations start over, and the empty group is not an older generation
        state = structs.replace(state, generation=number - 1)
    ready = _end_round(state, event, number, [], event.data.timestamp)
    return ready._replace(state=structs.replace(ready.state, reports=Reports()))


def _complete_generation(state: GroupState, event: Event, number: int) -> ReadyRound:
    reports = _reports_of(state)
    acknowledged, time_ms = reports.open[number], reports.since[number]
    members = [*acknowledged.values(), *_silent_members(state, ownership(acknowledged.values()))]
    reported_generations, since = dict(reports.open), dict(reports.since)
    del reported_generations[number], since[number]
    state = _replace_reports(state, open=reported_generations, since=since, settled=number)
    return _end_round(state, event, number, members, time_ms)


def _silent_members(state: GroupState, reported: Ownership) -> list[MemberState]:
    """Return the members without a report, with their partitions of the last round that no other member reports."""
    silent_members: list[MemberState] = []
    for member in _reports_of(state).members:
        last = state.member(member.member_id)
        if member.member_id not in reported and last is not None:
            owned = subtract_other_owners(last.owned, member.member_id, reported)
            silent_members.append(structs.replace(member, owned=owned))
    return silent_members


def _next_epoch_step(state: GroupState, event: Event) -> ReadyRound | None:
    """Return the next round of a KIP-848 group, from its members' reports; None if no round is complete yet."""
    reports = _reports_of(state)
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
    for member in sorted(acknowledged.values(), key=lambda m: m.owned == before.get(m.member_id)):
        owned = subtract_other_owners(member.owned, member.member_id, ownership(taken.values()))
        taken[member.member_id] = structs.replace(member, owned=owned)
    members = [member for member in taken.values() if member.member_id in present]
    members += _silent_members(state, ownership(taken.values()))
    epochs = (state.generation, *reports.at.values())
    number = next_generation(state.generation) if gone else max(epochs)
    time_ms = min(reports.since.values(), default=event.data.timestamp)
    state = _replace_reports(state, open={}, since={}, settled=max(reports.settled, *epochs))
    if number > state.generation and ownership(members) == before:  # no change for any reporting member
        return ReadyRound(state, None, event)
    return _end_round(state, event, number, members, time_ms)


def _end_round(state: GroupState, event: Event, number: int, members: list[MemberState], time_ms: int) -> ReadyRound:
    data = _snapshot(state, event.data.group_id, number, members, time_ms)
    late = number <= state.generation and data.group_protocol == "classic"
    seen = observed.observe(structs.replace(state, generation=number - 1) if late else state, data)
    if seen.round is not None:
        step = state.round + 1 if late and number == state.generation else seen.round.number
        seen = seen._replace(round=seen.round._replace(number=step, tasks=_released_partitions(state, seen, data)))
    return ReadyRound(seen.state, seen.round, Event(event.source, f"{event.id}/{number}", data))


def _released_partitions(state: GroupState, seen: ObservedGeneration, data: GroupObserved) -> Holding | None:
    """Return the partitions that members have revoked, and whose new owner has not reported yet.

    None if partition counts were published: reports need not reveal the partitions then.
    """
    if seen.round is None or any(topic in state.topics for topic in subscribed(seen.round.members)):
        return None
    after, before = ownership(seen.round.members), seen.round.before
    has_revoked = any(any(subtract(owned, after[name]).values()) for name, owned in before.items() if name in after)
    released_partitions: TopicPartitions = {}
    for owned in before.values() if has_revoked and data.protocol not in EAGER_ASSIGNORS else ():
        released_partitions = union(released_partitions, owned)
    return as_lists(released_partitions)


def _snapshot(state: GroupState, group_id: str, number: int, members: list[MemberState], time_ms: int) -> GroupObserved:
    order = {member.member_id: place for place, member in enumerate(_reports_of(state).members)}
    protocol = derived.protocol(members) if members else state.protocol
    is_classic, assignor = protocol == "classic", None
    if members:
        with suppress(InconsistentGroupProtocol):  # members that do not report also vote for an assignor
            assignor = derived.classic_assignor(members) if is_classic else derived.consumer_assignor(members)
    return GroupObserved(
        group_id=group_id,
        timestamp=time_ms,
        members=[
            events.ObservedMember(
                member_id=member.member_id,
                topics=member.topics,
                assigned=dict(member.owned),
                group_instance_id=member.instance_id,
                rack_id=member.rack_id,
                session_timeout_ms=member.session_timeout_ms,
                client_id=member.client_id,
                client_host=member.client_host,
            )
            for member in sorted(members, key=lambda member: order.get(member.member_id, len(order)))
        ],
        generation=number if is_classic else None,
        group_epoch=None if is_classic else number,
        group_protocol="classic" if is_classic else "consumer",
        protocol=assignor,
        state="Stable" if members else "Empty",
        evidence=[Evidence(source=SOURCE, reason=REPORTED_ONLY_REASON)],
    )
