"""Reported groups: their members say themselves what they hold, so nothing is computed and nobody else is asked.

Each member tells of itself alone, in an event of its own, so what all say of one generation is put together here:

* classic: a generation is a round once somebody has held what it got for :data:`SETTLED_MS` (others that were given
  something at the same time have said so by then) and every member of the group has acknowledged that generation or
  a later one. One that a member's client passed over is none. Nobody is waited for longer than
  :data:`PATIENCE_MS`: a member that is late keeps what no other has.
* consumer (KIP-848): members acknowledge what changes for them, each when it gets there, so what they hold together
  is a step of the epoch once somebody has held what it has for :data:`SETTLED_MS`.

A member that leaves, or is fenced, is out when the others acknowledge the next generation; if it was the last one,
or under the consumer protocol, at once. A member that acknowledges late what is a round already, as after the
monitor's cluster was away, makes one more round of that generation. What is held together is a view like a
collector's: the round is found by :mod:`streaming.monitor.observed`. Members that do not report are not seen.

All of it is decided by the log: times are compared that one member told of itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import UNSET, structs

from assignors.assignment import minus_others, union
from streaming.monitor import derived, observed
from streaming.monitor.observed import EAGER_ASSIGNORS, Seen
from streaming.monitor.state import GroupState, MemberState, Reports, following, ownership, subscribed
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

#: How long a member has held what it has when what others were given with it has been told, ms.
SETTLED_MS = 2000
#: How long a member is waited for that says nothing of a generation that another has acknowledged, ms.
PATIENCE_MS = 10_000
#: Generations that members have acknowledged and that are not complete; a client that never says for how long it
#: has held what it has completes none.
MOST_OPEN = 16
SOURCE = "listener"
#: What these rounds are not, for their readers.
LIMITS = "as its members report it themselves; members that do not report are not seen"


class Ripe(NamedTuple):
    """What members have told that is complete: the group after it, what it says, and the event that says it."""

    state: GroupState
    seen: Seen
    event: Event


def overruled(state: GroupState, data: GroupObserved) -> GroupState:
    """The reported group once a collector sees it: what members say is evidence from then on.

    A view by polling that is not ahead of what they have said changes nothing.

    Raises:
        MissingGeneration: the number of the generation is not in the event.
    """
    if data.polled and state.observed and observed.numbered(data) <= state.generation:
        return state
    return structs.replace(state, reports=None)


def told(state: GroupState, event: Event) -> GroupState:
    """The group with what this event says; no round yet."""
    state = state if state.reports is not None else structs.replace(state, reports=Reports())
    match event.data:
        case MemberJoined() as data:
            return _joined(state, event, data) if data.acknowledges is True else state
        case SubscriptionChanged() as data:
            return _subscribed(state, event, data)
        case MemberLeft() | MemberFenced() as data:
            return _removed(state, event, data)
        case AssignmentAcknowledged() as data:
            return _acknowledged(state, data)
        case _:
            return state


def _reports(state: GroupState) -> Reports:
    return state.reports or Reports()


def _with(state: GroupState, **changes: object) -> GroupState:
    return structs.replace(state, reports=structs.replace(_reports(state), **changes))


def _find(members: Iterable[MemberState], member_id: str, instance_id: str | None) -> MemberState | None:
    members = list(members)
    known = next((member for member in members if member.member_id == member_id), None)
    if known is not None or instance_id is None:
        return known
    return next((member for member in members if member.instance_id == instance_id), None)


def _joined(state: GroupState, event: Event, data: MemberJoined) -> GroupState:
    joining = MemberState.joining(data)
    members = _reports(state).members
    known = _find(members, data.member_id, data.group_instance_id)
    members = (
        (*members, joining) if known is None else tuple(joining if one is known else one for one in members)
    )
    state = _with(state, members=members)
    if state.member(data.member_id) is not None:
        return _unhinted(state, data.member_id)
    return observed.told(state, event) if known is None else state


def _unhinted(state: GroupState, *member_ids: str) -> GroupState:
    """The group when these were gone by mistake, or say again who they are: neither brings the next generation."""
    hints = tuple(hint for hint in state.hints if not {*hint.member_ids} & {*member_ids})
    return structs.replace(state, hints=hints)


def _returned(state: GroupState, member: MemberState) -> GroupState:
    """The group once a static member is in the generation that it left, under a new id: it takes its own place."""
    old = state.static_member(member.instance_id)
    if old is None or state.member(member.member_id) is not None:
        return state
    return _unhinted(state.rename({old.member_id: member}), old.member_id, member.member_id)


def _subscribed(state: GroupState, event: Event, data: SubscriptionChanged) -> GroupState:
    members = _reports(state).members
    known = _find(members, data.member_id, None)
    if known is None or set(known.topics) == set(data.topics):
        return state
    changed = structs.replace(known, topics=data.topics)
    state = _with(state, members=tuple(changed if one is known else one for one in members))
    return observed.told(state, event)


def _removed(state: GroupState, event: Event, data: MemberLeft | MemberFenced) -> GroupState:
    reports = _reports(state)
    known = _find(reports.members, data.member_id, data.group_instance_id)
    if known is None:
        return state
    at = {name: number for name, number in reports.at.items() if name != known.member_id}
    state = _with(state, members=tuple(one for one in reports.members if one is not known), at=at)
    if reports.at.get(known.member_id, 0) < reports.settled:  # its end was waited for too short a time
        now = {reports.settled: event.data.timestamp}
        state = _with(state, open={reports.settled: {}} | reports.open, since=now | reports.since)
    if state.member(known.member_id) is None:  # it came and went between two rounds
        return state
    return observed.hint(state, event, data.reason or "", known.member_id)


def _acknowledged(state: GroupState, data: AssignmentAcknowledged) -> GroupState:
    reports = _reports(state)
    member = _find(reports.members, data.member_id, None)
    if member is None or data.generation < 0:
        return state
    number = data.generation
    if number <= reports.settled:
        state = _returned(state, member)
    if member.group_protocol != "classic":
        number = max(number, reports.settled)  # it may still give up what an earlier epoch gave it
    elif number < max(reports.settled, reports.at.get(member.member_id, 0)):
        return state
    at = reports.at | {member.member_id: number}
    held_ms = 0 if data.held_ms is UNSET else data.held_ms
    state = _with(
        state,
        at=at,
        ripe=max(reports.ripe, number) if held_ms >= SETTLED_MS else reports.ripe,
        overdue=max(reports.overdue, number) if held_ms >= PATIENCE_MS else reports.overdue,
    )
    owned = {topic: sorted(set(numbers)) for topic, numbers in sorted(data.owned.items()) if numbers}
    last = state.member(member.member_id)
    if (
        last is not None
        and number == reports.settled
        and (member.group_protocol == "classic" or (last.owned == owned and number not in reports.open))
    ):
        return state  # said again
    if number not in reports.open:  # perhaps others are late as well
        reports = _reports(state)
        at_most = number if held_ms >= SETTLED_MS else number - 1
        state = _with(state, ripe=min(reports.ripe, at_most), overdue=min(reports.overdue, at_most))
    reports = _reports(state)
    said = reports.open.get(number, {}) | {member.member_id: structs.replace(member, owned=owned)}
    since = {number: max(data.timestamp - held_ms, 0)} | reports.since
    return _bounded(_with(state, open=reports.open | {number: said}, since=since))


def _bounded(state: GroupState) -> GroupState:
    """Return the group with at most :data:`MOST_OPEN` open generations; the oldest count as passed over."""
    reports = _reports(state)
    if len(reports.open) <= MOST_OPEN:
        return state
    first, second, *rest = sorted(reports.open)
    merged = {second: reports.open[first] | reports.open[second]}
    return _with(
        state,
        open=merged | {number: reports.open[number] for number in rest},
        since={number: at for number, at in reports.since.items() if number != first},
    )


def ripe(state: GroupState, event: Event) -> Ripe | None:
    """The next generation, epoch or step that all have told of; None: there is none.

    Args:
        state: the group.
        event: that made it so.
    """
    reports = _reports(state)
    if not reports.members:
        return _last(state, event) if state.members or reports.open else None
    if derived.protocol(reports.members) != "classic":
        return _step(state, event)
    for number in sorted(reports.open):
        waiting = any(reports.at.get(member.member_id, 0) < number for member in reports.members)
        if number > reports.ripe or (waiting and number > reports.overdue):
            return None
        later = [other for other in reports.open if other > number]
        if later and _passed_over(state, number):
            merged = reports.open[number] | reports.open[min(later)]
            state = _with(
                state,
                open={min(later): merged} | {n: said for n, said in reports.open.items() if n > min(later)},
            )
            return Ripe(state, Seen(state, None, latest=False), event)
        return _generation(state, event, number)
    return None


def _passed_over(state: GroupState, number: int) -> bool:
    """Whether some member was never told of this generation: its client had joined the next one by then."""
    reports = _reports(state)
    said = reports.open[number]
    return any(
        reports.at.get(member.member_id, 0) > number
        and member.member_id not in said
        and state.member(member.member_id) is not None
        for member in reports.members
    )


def _last(state: GroupState, event: Event) -> Ripe:
    """Nobody is left: what is open was a generation, then the group is empty."""
    reports = _reports(state)
    if reports.open:
        first = min(reports.open)
        if state.protocol == "classic":
            return _generation(state, event, first)
        state = _with(state, open={}, since={})
    number = following(max(state.generation, reports.settled))
    if number <= state.generation:  # they start over, and the empty group is no old one
        state = structs.replace(state, generation=number - 1)
    ripe = _seen(state, event, number, [], event.data.timestamp)
    return ripe._replace(state=structs.replace(ripe.state, reports=Reports()))


def _generation(state: GroupState, event: Event, number: int) -> Ripe:
    """The round of a classic generation."""
    reports = _reports(state)
    said, when = reports.open[number], reports.since[number]
    held = ownership(said.values())
    members = [*said.values()]
    for member in reports.members:
        last = state.member(member.member_id)
        if member.member_id not in said and last is not None:
            owned = minus_others(last.owned, member.member_id, held)
            members.append(structs.replace(member, owned=owned))
    rest = {other: acks for other, acks in reports.open.items() if other != number}
    since = {other: at for other, at in reports.since.items() if other != number}
    state = _with(state, open=rest, since=since, settled=number)
    return _seen(state, event, number, members, when)


def _step(state: GroupState, event: Event) -> Ripe | None:
    """What the members of a consumer group hold, when somebody is settled, or somebody is gone."""
    reports = _reports(state)
    present = {member.member_id for member in reports.members}
    gone = [member for member in state.members if member.member_id not in present]
    if not gone and not any(number <= reports.ripe for number in reports.open):
        return None
    before = ownership(state.members)
    said: dict[str, MemberState] = {}
    for number in sorted(reports.open):
        said = {name: one for name, one in said.items() if name not in reports.open[number]}
        said |= reports.open[number]
    # Of two that tell of the same partition, the one that it is new to is right: the other is about to tell.
    taken: dict[str, MemberState] = {}
    for member in sorted(said.values(), key=lambda one: one.owned == before.get(one.member_id)):
        owned = minus_others(member.owned, member.member_id, ownership(taken.values()))
        taken[member.member_id] = structs.replace(member, owned=owned)
    members = [member for member in taken.values() if member.member_id in present]
    for member in reports.members:
        last = state.member(member.member_id)
        if member.member_id not in said and last is not None:
            owned = minus_others(last.owned, member.member_id, ownership(taken.values()))
            members.append(structs.replace(member, owned=owned))
    epochs = (state.generation, *reports.at.values())
    number = following(state.generation) if gone else max(epochs)
    when = min(reports.since.values(), default=event.data.timestamp)
    state = _with(state, open={}, since={}, settled=max(reports.settled, *epochs))
    if number > state.generation and ownership(members) == before:  # nothing for anybody who reports
        return Ripe(state, Seen(state, None, latest=False), event)
    return _seen(state, event, number, members, when)


def _seen(state: GroupState, event: Event, number: int, members: list[MemberState], when: int) -> Ripe:
    """The round of a view that members gave together."""
    data = _view(state, event.data.group_id, number, members, when)
    late = number <= state.generation and not data.counts_epochs
    known = structs.replace(state, generation=number - 1) if late else state
    seen = observed.observe(known, data)
    if seen.round is not None:
        step = state.round + 1 if late and number == state.generation else seen.round.number
        seen = seen._replace(round=seen.round._replace(number=step, tasks=_known(state, seen, data)))
    return Ripe(seen.state, seen, Event(event.source, f"{event.id}/{number}", data))


def _known(state: GroupState, seen: Seen, data: GroupObserved) -> dict[str, list[int]] | None:
    """The partitions that exist beside those that somebody has: what was given up for a member still to come.

    Members do not tell how many partitions there are. None: somebody else did.
    """
    if seen.round is None or any(topic in state.topics for topic in subscribed(seen.round.members)):
        return None
    after = ownership(seen.round.members)
    moving = data.protocol not in EAGER_ASSIGNORS and any(
        minus_others(owned, "", {"": {}, name: after[name]})
        for name, owned in seen.round.before.items()
        if name in after
    )
    found: dict[str, list[int]] = {}
    for owned in seen.round.before.values() if moving else ():
        found = {topic: [*numbers] for topic, numbers in union(found, owned).items()}
    return found


def _view(
    state: GroupState, group_id: str, number: int, members: list[MemberState], when: int
) -> GroupObserved:
    order = {one.member_id: place for place, one in enumerate(_reports(state).members)}
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
            for member in sorted(members, key=lambda one: order.get(one.member_id, len(order)))
        ],
        generation=number if protocol == "classic" else None,
        group_epoch=None if protocol == "classic" else number,
        group_protocol="classic" if protocol == "classic" else "consumer",
        protocol=_assignor(members, protocol),
        state="Stable" if members else "Empty",
        evidence=[Evidence(source=SOURCE, reason=LIMITS)],
    )


def _assignor(members: list[MemberState], protocol: str) -> str | None:
    """What the members run, as far as they say."""
    if not members:
        return None
    if protocol != "classic":
        return derived.consumer_assignor(members)
    try:
        return derived.classic_assignor(members)
    except InconsistentGroupProtocol:  # members that do not report have a say as well
        return None
