"""Episodes and incidents of the stream's groups: what an event changes in them, and the timer's ``group.quiet``.

Quiet is an event in the log, as a fence is: the timer changes nothing itself but writes a ``group.quiet`` that has
the note after which nothing came, and the episode is over when that is read back. It counts only if nothing came by
then. A replay of the log therefore needs no timer.

Incidents change with each note of an episode; when a topic has other partitions; when the log says that a group is
quiet; and once more when the group is deleted. Each is an event of the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from assignors.assignment import collect_lists, unassigned
from streaming.episodes import waiting
from streaming.episodes.fold import advance, learn, take
from streaming.episodes.identity import MemberIdentity
from streaming.episodes.notes import (
    BounceNote,
    QuietNote,
    RoundNote,
    WaitNote,
)
from streaming.episodes.state import EpisodeState, rests_at
from streaming.incidents import detection, lifecycle
from streaming.incidents.state import AtRest, IncidentState, MemberAtRest, Thresholds
from streaming.monitor.bucket_state import Tracked
from streaming.monitor.liveness import SOURCE
from streaming.monitor.notes import evidence_of, notes
from streaming.monitor.outputs import DiffOutput, EpisodeOutput, IncidentOutput, Output, Sinks
from streaming.monitor.state import GroupState, MemberState, subscribed
from streaming.records.events import (
    MAX_TIMESTAMP,
    Event,
    GroupDeleted,
    GroupObserved,
    GroupQuiet,
    Holding,
    PartitionsChanged,
)


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


_NONE = IncidentState()


class Alarms:
    """The incidents of one group while events are told: what they become, and what is to be written.

    Args:
        tracked: the group.
        limits: when something is an incident.
        storm_turns: how often one member is the reason of a rebalance in a storm.
    """

    def __init__(self, tracked: Tracked, limits: Thresholds, storm_turns: int) -> None:
        self._tracked = tracked
        self._limits = limits
        self._storm_turns = storm_turns
        self.outputs: list[IncidentOutput] = []

    def note(self, event: Event, note: RoundNote | BounceNote, episode: EpisodeState, *, anew: bool) -> None:
        """Take a note of the group's episode, which is ``episode`` after it."""
        known = self._tracked.incidents or _NONE
        group_id, turns = event.data.group_id, self._storm_turns
        after = detection.hear(known, group_id, note, episode, self._limits, storm_turns=turns, anew=anew)
        self._take(event, known, after)

    def topics_or_end(self, event: Event, before: GroupState | None) -> None:
        """Take the end of the group, or other partition counts of its topics."""
        state = self._tracked.state
        if isinstance(event.data, GroupDeleted):
            self.deleted(event)
        elif state is not None:
            self.topics(event, before, state)

    def topics(self, event: Event, before: GroupState | None, state: GroupState) -> None:
        """Take other partition counts."""
        known = self._tracked.incidents or _NONE
        after = detection.topics_gone(
            *(known, event.data.group_id, event.data.timestamp),
            subscribed=subscribed(state.members),
            before={name: topic.partitions for name, topic in before.topics.items()} if before else {},
            now={name: topic.partitions for name, topic in state.topics.items()},
            reopen_ms=self._limits.reopen_ms,
        )
        self._take(event, known, after)

    def quiet(self, event: Event, state: GroupState, episode: EpisodeState) -> None:
        """Take the word that the group is quiet; ``episode``: as that has left it."""
        known, at = self._tracked.incidents or _NONE, event.data.timestamp
        found = list(
            detection.at_rest(
                _at_rest(event.data.group_id, state), waiting.waits_of(episode), self._limits.skew
            )
        )
        over = {*detection.OF_REST, *detection.OF_EPISODE} - {one.kind for one in found}
        after = lifecycle.gone(known, sorted(over), at)
        for one in found:
            number = episode.number if episode.open else 0
            after = lifecycle.found(after, one, at, episode=number, reopen_ms=self._limits.reopen_ms)
        self._take(event, known, after)

    def deleted(self, event: Event) -> None:
        """Take the end of the group: nothing of it is wrong any more, and once it is forgotten nothing is kept."""
        known = self._tracked.incidents
        if known is not None:
            self._take(event, known, lifecycle.gone(known, list(known.known), event.data.timestamp))
            if self._tracked.state is None:
                self._tracked.report(None)

    def _take(self, event: Event, before: IncidentState, after: IncidentState) -> None:
        if after is not before:
            self.outputs += [IncidentOutput(event, *one) for one in lifecycle.changed(before, after)]
            self._tracked.report(after)


def concerned(tracked: Tracked, event: Event) -> bool:
    """Whether an event is about the end of a group, or about topics that are gone, or were."""
    if isinstance(event.data, GroupDeleted):
        return True
    if not isinstance(event.data, PartitionsChanged):
        return False
    known = tracked.incidents
    return (known is not None and known.lasts("topic-gone")) or any(
        not topic.partitions for topic in event.data.topics.values()
    )


def _at_rest(group_id: str, state: GroupState) -> AtRest:
    counts = {name: topic.partitions for name, topic in state.topics.items()}
    free: Holding
    if state.holds_tasks:
        free = {name: sorted(owners) for name, owners in state.last_owners.items()}
    else:
        free = unassigned(
            subscribed(state.members), counts, collect_lists(one.owned for one in state.members)
        )
    return AtRest(
        group_id=group_id,
        kind=state.kind,
        protocol=state.protocol,
        members=[_member(member, state) for member in state.members],
        counts=counts,
        unassigned=free,
    )


def _member(member: MemberState, state: GroupState) -> MemberAtRest:
    # In a view of a KIP-848 group only classic members have a session timeout: the others' is the broker's.
    classic = member.session_timeout_ms is not None if state.observed else member.group_protocol == "classic"
    return MemberAtRest(
        member.member_id,
        MemberIdentity(member.client_id, member.client_host, member.instance_id),
        member.topics,
        sum(map(len, member.owned.values())),
        classic,
    )
