"""Episodes of the stream's groups: what an event gave, as notes for the fold, and the timer that says it was quiet.

Quiet is an event in the log, as a fence is: the timer changes nothing itself but writes a ``group.quiet`` that has
the note after which nothing came, and the episode is over when that is read back. It counts only if nothing came by
then. A replay of the log therefore needs no timer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from streaming.episodes import waiting
from streaming.episodes.evidence import Evidence
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
from streaming.episodes.record import fitting
from streaming.episodes.state import EpisodeState, rests_at
from streaming.monitor.alarms import Alarms
from streaming.monitor.evidence import assignment_change, evidence_of, return_of
from streaming.monitor.liveness import SOURCE
from streaming.monitor.observed import numbered
from streaming.monitor.rendering import DiffOutput, Output, output_id
from streaming.monitor.rounds import Untouched
from streaming.monitor.state import GroupState, LastOwners, MemberState, ownership
from streaming.monitor.tracked import Tracked
from streaming.wire.events import MAX_TIMESTAMP, Event, GroupObserved, GroupQuiet, MemberJoined


class EpisodeOutput(NamedTuple):
    """An episode to write, as it is after an event. Of a batch's only the last is, so it is made when asked for.

    Attributes:
        event: the one behind it.
        state: the episode.
        closed: whether it is over.
        brief: whether it lists but a few of those who came and went (:mod:`streaming.episodes.underway`).
    """

    event: Event
    state: EpisodeState
    closed: bool
    brief: bool = False

    @property
    def id(self) -> str:
        """Its ``ce_id``."""
        return output_id(self.event, f"episode/{self.state.number}")

    def value(self, limit: int, storm_turns: int) -> bytes:
        """Its JSON, of no more bytes than ``limit``."""
        group_id = self.event.data.group_id
        return fitting(
            group_id, self.state, limit, closed=self.closed, storm_turns=storm_turns, brief=self.brief
        )


class Happened(NamedTuple):
    """An event, and what it is for the fold: notes, and what it tells of partitions that stood still.

    ``stepwise``: the group is a large one that is told step by step, by diffs that leave members out.
    """

    event: Event
    notes: Sequence[RoundNote | BounceNote | WaitNote]
    told: Evidence | None = None
    stepwise: bool = False


def tell(
    tracked: Tracked,
    happened: Iterable[Happened],
    now_ms: int,
    quiet_ms: int,
    alarms: Alarms | None = None,
) -> list[EpisodeOutput]:
    """Take what happened to a group into its episode; the records that changed, each as it is in the end.

    All of a batch at once is cheaper than one after the other between what the groups' rounds cost.
    """
    state, told, last, noted, brief = tracked.episode, list[EpisodeOutput](), None, False, False
    for event, found, beside, stepwise in happened:
        for note in found:
            if isinstance(note, WaitNote):
                if state is not None and waiting.is_change(state, note):
                    waiting.apply_note(state, note)
                    last, noted, brief = event, True, stepwise
                continue
            state, closed = take(state, note, quiet_ms)
            if alarms is not None:
                alarms.note(event, note, state, anew=closed is not None)
            if closed is not None:
                told.append(EpisodeOutput(event, closed, closed=True))
            last, noted, brief = event, True, stepwise
        if beside is not None and state is not None and learn(state, beside):
            last, brief = event, stepwise
    if state is not None:
        if last is not None:
            told.append(EpisodeOutput(last, state, closed=False, brief=brief))
        tracked.tell(state, resting(state, now_ms, quiet_ms) if noted else tracked.quiet_at)
    return told


def quiet(tracked: Tracked, event: Event, data: GroupQuiet) -> list[EpisodeOutput]:
    """Apply the word that a group is quiet; the records that changed."""
    state = tracked.episode
    step = advance(state, QuietNote(data.after))
    if step.state is state:
        return []
    tracked.tell(step.state, 0)
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


def happened(
    before: GroupState | None,
    after: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    *,
    first: bool,
    others: Untouched | None = None,
) -> Happened | None:
    """What an event is for a group's episode; None: nothing. ``first``: the group has had none.

    ``others``: members that the event leaves as they are and that ``before`` and ``after`` don't have.
    """
    observed = isinstance(event.data, GroupObserved)
    if observed and after is before:  # said again
        return None
    found = notes(before, after, event, outputs, first=first, others=others) if outputs or observed else ()
    # Of what was before its first episode nothing is asked.
    played = any(isinstance(output, DiffOutput) for output in outputs)
    told = None if first else evidence_of(event, after, played=played, others=others)
    if not found and told is None:
        return None
    stepwise = after is not None and after.view is not None and after.said is not None
    return Happened(event, found, told, stepwise)


def notes(
    before: GroupState | None,
    after: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    *,
    first: bool,
    others: Untouched | None = None,
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
            found.append(_seen(output, past, free, first=first, derived=derived, others=others))
            past, free, first = output.decided.members, output.changes.last_owners, False
    view = event.data if others is None else others.shown
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
    others: Untouched | None,
) -> RoundNote:
    event, decided, changes = output.event, output.decided, output.changes
    members, before, cause = decided.members, decided.before, decided.cause
    there, beside = len(past), 0 if others is None else others.size
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
        before=there + beside,
        after=len(members) + beside,
        names=names,
        moved=changes.moves,
        unassigned=changes.unassigned,
        remade=decided.kind == "connect" and remade(before, free, ownership(members), changes.unassigned),
        midway=first and midway(cause, before),
        derived=derived,
        change=assignment_change(output, past, others),
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
