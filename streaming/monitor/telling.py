"""Episodes of the stream's groups: what an event gave, as notes for the fold, and the timer that says it was quiet.

Quiet is an event in the log, as a fence is: the timer changes nothing itself but writes a ``group.quiet`` that has
the note after which nothing came, and the episode is over when that is read back. It counts only if nothing came by
then. A replay of the log therefore needs no timer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import UNSET

from streaming.episodes import waiting
from streaming.episodes.fold import advance, learn, take
from streaming.episodes.identity import MemberIdentity
from streaming.episodes.notes import (
    BounceNote,
    QuietNote,
    RoundNote,
    WaitNote,
    midway,
    remade,
    requesters,
)
from streaming.episodes.state import EpisodeState, rests_at
from streaming.monitor.alarms import Alarms, concerned
from streaming.monitor.envelope import Sinks
from streaming.monitor.evidence import assignment_change, evidence_of, return_of
from streaming.monitor.liveness import SOURCE
from streaming.monitor.observed import numbered
from streaming.monitor.rendering import DiffOutput, EpisodeOutput, IncidentOutput, Output, output_id
from streaming.monitor.state import GroupState, LastOwners, MemberState, ownership
from streaming.monitor.tracked import Tracked
from streaming.wire.events import MAX_TIMESTAMP, Event, GroupObserved, GroupQuiet, MemberJoined


def tell(
    tracked: Tracked,
    before: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    *,
    now_ms: int,
    sinks: Sinks,
) -> list[EpisodeOutput | IncidentOutput]:
    """Take an event into its group's episode and incidents; return the records that changed.

    Args:
        tracked: the group after the event, with its episode and incidents before it.
        before: the group before the event.
        event: the event.
        outputs: what the event gave.
        now_ms: the batch's time.
        sinks: how long a group is quiet before its episode is over, and when something is an incident.
    """
    alarms = None if sinks.incidents is None else Alarms(tracked, sinks.thresholds, sinks.storm_turns)
    if isinstance(event.data, GroupQuiet):
        told = _quiet(tracked, event, event.data, alarms)
    else:
        told = _noted(tracked, before, event, outputs, alarms=alarms, now_ms=now_ms, quiet_ms=sinks.quiet_ms)
        if alarms is not None and tracked.state is not before and concerned(tracked, event):
            alarms.topics_or_end(event, before)
        if tracked.state is None and not tracked.untold:
            tracked.tell(None, 0)
    return [*told, *(alarms.outputs if alarms is not None else ())]


def _noted(
    tracked: Tracked,
    before: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    *,
    alarms: Alarms | None,
    now_ms: int,
    quiet_ms: int,
) -> list[EpisodeOutput]:
    """Take the notes of an event, and what it shows of stopped partitions, into the episode."""
    after, first = tracked.state, tracked.untold
    observed = isinstance(event.data, GroupObserved)
    if observed and after is before:  # seen before
        return []
    found = notes(before, after, event, outputs, first=first) if outputs or observed else ()
    played = any(isinstance(output, DiffOutput) for output in outputs)
    stopped = None if first else evidence_of(event, after, played=played)
    if not found and stopped is None:
        return []
    state, told, noted = tracked.episode, list[EpisodeOutput](), False
    for note in found:
        if isinstance(note, WaitNote):
            if state is not None and waiting.is_change(state, note):
                waiting.apply_note(state, note)
                noted = True
            continue
        state, closed = take(state, note, quiet_ms)
        if alarms is not None:
            alarms.note(event, note, state, anew=closed is not None)
        if closed is not None:
            told.append(EpisodeOutput(event, closed, closed=True))
        noted = True
    learned = stopped is not None and state is not None and learn(state, stopped)
    if state is not None:
        if noted or learned:
            told.append(EpisodeOutput(event, state, closed=False))
        tracked.tell(state, resting(state, now_ms, quiet_ms) if noted else tracked.quiet_at)
    return told


def _quiet(tracked: Tracked, event: Event, data: GroupQuiet, alarms: Alarms | None) -> list[EpisodeOutput]:
    """Take the word of the timer that the group is quiet."""
    state = tracked.episode
    step = advance(state, QuietNote(data.after))
    if step.state is state:
        return []
    tracked.tell(step.state, 0)
    if alarms is not None and tracked.state is not None and step.state is not None:
        alarms.quiet(event, tracked.state, step.state)
    if step.closed is not None:
        return [EpisodeOutput(event, step.closed, closed=True)]
    return [] if step.state is None else [EpisodeOutput(event, step.state, closed=False)]


def resting(state: EpisodeState | None, now_ms: int, quiet_ms: int) -> int:
    """When the timer is due, ms on the clock of the job; 0: never."""
    if state is None or not state.open or state.stuck:
        return 0
    return now_ms + rests_at(state, quiet_ms) - state.last_at


def due(group_id: str, tracked: Tracked, now_ms: int, quiet_ms: int) -> list[Event]:
    """The event that the timer writes for one group, its id a function of what it had read; the deadline moves on.

    An event that is lost between here and the log is written again one quiet time later, with the same id.
    """
    state = tracked.episode
    if not tracked.quiet_at or tracked.quiet_at > now_ms or state is None:
        return []
    tracked.quiet_at = now_ms + max(quiet_ms, 1000)
    timestamp = min(rests_at(state, quiet_ms), MAX_TIMESTAMP)
    data = GroupQuiet(group_id=group_id, timestamp=timestamp, after=state.mark)
    return [Event(SOURCE, f"{group_id}/quiet/{state.mark}", data)]


def notes(
    before: GroupState | None,
    after: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    *,
    first: bool,
) -> list[RoundNote | BounceNote | WaitNote]:
    """What an event is for the fold. ``first``: the group has had no episode."""
    found: list[RoundNote | BounceNote | WaitNote] = []
    past: Sequence[MemberState] = ()
    free: LastOwners = {}
    if before is not None:
        past, free = before.members, before.last_owners
        if after is not None and _may_rename(event, before) and (renamed := _renamed(past, after.members)):
            found.append(_bounced(event, past, after, renamed))
    for output in outputs:
        if isinstance(output, DiffOutput):
            derived = after is not None and not after.observed
            found.append(_seen(output, past, free, first=first, derived=derived))
            past, free, first = output.decided.members, output.changes.last_owners, False
    view = event.data
    if not first and isinstance(view, GroupObserved) and after is not None and _shown(after, view):
        found.append(waiting.awaited(output_id(event, "awaited"), view))
    return found


def _shown(after: GroupState, data: GroupObserved) -> bool:
    """Whether a view is the group as it is now: neither an old one, nor one by polling where another decides."""
    if data.polled and not after.counted:
        return False
    return (after.protocol, after.generation) == (data.group_protocol, numbered(data))


def _may_rename(event: Event, state: GroupState) -> bool:
    """Whether an event is of those with which static members come back under new ids."""
    data = event.data
    if isinstance(data, MemberJoined):
        return data.group_instance_id is not None or state.reports is not None
    return state.observed or state.reports is not None


def _renamed(past: Sequence[MemberState], members: Sequence[MemberState]) -> dict[str, str]:
    """Static members that have another id now: old id → new id."""
    old = {member.instance_id: member.member_id for member in past if member.instance_id is not None}
    if not old:
        return {}
    return {
        known: member.member_id
        for member in members
        if member.instance_id is not None
        and (known := old.get(member.instance_id)) is not None
        and known != member.member_id
    }


def _bounced(
    event: Event, past: Sequence[MemberState], after: GroupState, renamed: Mapping[str, str]
) -> BounceNote:
    """``past``: the members before it; the same event may have a round as well."""
    names: dict[str, MemberIdentity] = {}
    _name(names, past, renamed)
    _name(names, after.members, renamed.values())
    return BounceNote(
        id=output_id(event, "bounce"),
        timestamp=event.data.timestamp,
        renamed=renamed,
        names=names,
        before=len(past),
        protocol=after.protocol,
        assignor=after.assignor,
        kind=after.kind,
        change=return_of(event, after, renamed),
    )


def _seen(
    output: DiffOutput,
    past: Sequence[MemberState],
    free: LastOwners,
    *,
    first: bool,
    derived: bool,
) -> RoundNote:
    event, decided, changes = output.event, output.decided, output.changes
    members, before, cause = decided.members, decided.before, decided.cause
    there = len(past)
    joined: Sequence[str] = ()
    gone: Sequence[str] = ()
    names: dict[str, MemberIdentity] = {}
    # `before` has who was there, in that order, and behind them who came: nobody is new or gone if it is as long.
    if len(before) != there:
        joined = list(before)[there:]
        _name(names, members, joined)
    if len(before) != len(members):
        now = {member.member_id for member in members}
        gone = [one for one in before if one not in now]
        _name(names, past, gone)
    if decided.number == 1 and (requesting := {*requesters(cause)}.difference(joined)):
        _name(names, members, requesting)
    return RoundNote(
        id=output.id,
        timestamp=event.data.timestamp,
        number=decided.number,
        protocol=decided.protocol,
        assignor=decided.assignor,
        kind=decided.kind,
        cause=cause,
        delay_ms=_delay(event),
        joined=joined,
        gone=gone,
        before=there,
        after=len(members),
        names=names,
        moved=changes.moves,
        unassigned=changes.unassigned,
        remade=decided.kind == "connect" and remade(before, free, ownership(members), changes.unassigned),
        midway=first and midway(cause, before),
        derived=derived,
        change=assignment_change(output, past),
        expected=None if decided.expected is UNSET else decided.expected,
        generation=decided.generation,
    )


def _name(names: dict[str, MemberIdentity], members: Sequence[MemberState], wanted: Collection[str]) -> None:
    left = len(wanted)
    for member in reversed(members):  # who came stands last
        if member.member_id in wanted:
            names[member.member_id] = MemberIdentity(member.client_id, member.client_host, member.instance_id)
            left -= 1
            if not left:
                return


def _delay(event: Event) -> int | None:
    data = event.data
    if not isinstance(data, GroupObserved) or data.delay_ms is UNSET:
        return None
    return data.delay_ms
