"""Updates of a group's episode and incidents by its events, and the timer event ``group.quiet``.

Notes are rounds, rejoins and waits. The timer does not change a group: it writes a ``group.quiet`` with the id of the
last note to the membership log. The episode ends when the stream reads that event, unless a newer note came first. So
a replay of the log needs no timer. Incidents change with each note, with new partition counts, and when the group is
quiet or deleted.
"""

from collections.abc import Sequence

from msgspec import UNSET

from streaming.episodes import detection, fold, incidents, waiting
from streaming.episodes.cost import OffsetSamples, rewound_partitions
from streaming.episodes.incidents import IncidentState, StoredIncident
from streaming.episodes.notes import WaitNote
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import listed
from streaming.monitor import cluster
from streaming.monitor.bucket_state import TrackedGroup
from streaming.monitor.heartbeats import SOURCE
from streaming.monitor.notes import downtime_evidence, make_notes
from streaming.monitor.outputs import DiffOutput, EpisodeOutput, IncidentOutput, Output, Sinks, output_id
from streaming.monitor.quiet_group import detect_in_quiet_group
from streaming.monitor.state import GroupState, names_of, subscribed
from streaming.records import events
from streaming.records.episodes import Acknowledged
from streaming.records.events import Event, Evidence

_STUCK_KIND = "rebalance-stuck"
#: The most partitions that the evidence of an offset reset lists.
_MAX_LISTED_RESETS = 3


def update_group(
    group: TrackedGroup,
    before: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    *,
    now_ms: int,
    sinks: Sinks,
) -> list[EpisodeOutput | IncidentOutput]:
    """Apply an event to the episode and incidents of its group; return the changed episodes and incidents.

    The state in ``group`` is from after the event, its episode and incidents are from before. ``outputs``: outputs of
    the event.
    """
    past = group.incidents or IncidentState()
    step = _EpisodeUpdate(group, event, past, now_ms, sinks)
    match event.data:
        case events.ClusterObserved() as data:
            if group.state is not before:  # the event is not a repeat
                step.incidents = cluster.update_incidents(past, data)
        case events.GroupQuiet() as data:
            step.quiet(data)
        case events.GroupRebalancing() as data:
            step.rebalancing(data)
        case events.GroupProgress() as data:
            step.progress(data)
        case events.IncidentAcknowledged() as data:
            by = Acknowledged(at=data.timestamp, by=data.by, until=data.until, text=data.text, muted=data.muted)
            step.incidents = incidents.acknowledge(past, data.incident, by)
        case _:
            step.apply_outputs(before, outputs)
    now = step.incidents
    if now.is_open(_STUCK_KIND) and (group.episode is None or group.episode.rebalancing is None):
        now = incidents.close_incidents(now, [_STUCK_KIND], event.data.timestamp)
    if sinks.incidents is None or now is past:
        return [*step.episodes]
    group.incidents = None if group.state is None else now
    changed = [incident for key, incident in now.by_key.items() if past.by_key.get(key) != incident]
    return [*step.episodes, *(IncidentOutput(event, incident) for incident in changed)]


class _EpisodeUpdate:
    """Updates a group's episode and incidents by one event; ``episodes``: the episodes that have changed."""

    def __init__(self, group: TrackedGroup, event: Event, past: IncidentState, now_ms: int, sinks: Sinks) -> None:
        self.group = group
        self.event = event
        self.incidents = past
        self.episodes: list[EpisodeOutput] = []
        self._now_ms = now_ms
        self._sinks = sinks

    def _open(self, incident: StoredIncident, episode: int = 0) -> None:
        at, reopen_ms = self.event.data.timestamp, self._sinks.thresholds.reopen_ms
        self.incidents = incidents.open_incident(self.incidents, incident, at, episode=episode, reopen_ms=reopen_ms)

    def _store(self, closed: EpisodeState | None, state: EpisodeState, *, restarts_quiet_time: bool = True) -> None:
        """Store the group's newest episode and queue its record, after the last record of the ``closed`` one."""
        if closed is not None:
            self.episodes.append(EpisodeOutput(self.event, closed, closed=True))
        self.episodes.append(EpisodeOutput(self.event, state, closed=False))
        self.group.episode = state
        if restarts_quiet_time:
            self.group.quiet_at = _quiet_time_end(state, self._now_ms, self._sinks)

    def apply_outputs(self, before: GroupState | None, outputs: Sequence[Output]) -> None:
        """Apply an event's rounds, topic changes or group deletion to the group's episode and incidents."""
        group, event = self.group, self.event
        self._apply_notes(before, outputs)
        if group.state is not before:
            if isinstance(event.data, events.GroupDeleted):
                keys = list(self.incidents.by_key)
                self.incidents = incidents.close_incidents(self.incidents, keys, event.data.timestamp)
            elif isinstance(event.data, events.PartitionsChanged) and group.state is not None:
                self._topics(event.data, before, group.state)
        if group.state is None:
            group.episode, group.quiet_at, group.incidents = None, 0, None

    def _apply_notes(self, before: GroupState | None, outputs: Sequence[Output]) -> None:
        event, after, state = self.event, self.group.state, self.group.episode
        first, observed = state is None, isinstance(event.data, events.GroupObserved)
        if observed and after is before:  # the event is a repeat
            return
        new_notes = make_notes(before, after, event, outputs, first=first) if outputs or observed else ()
        evidence = None
        if not first and after is not None and (after.observed or after.reports is not None):
            has_round = any(isinstance(output, DiffOutput) for output in outputs)
            evidence = downtime_evidence(event, after, is_replayed=has_round)
        has_note = False
        for note in new_notes:
            if isinstance(note, WaitNote):
                has_note = (state is not None and waiting.apply_wait_note(state, note)) or has_note
                continue
            state, closed = fold.apply_note(state, note, self._sinks.quiet_ms)
            self.incidents = detection.detect_in_note(
                self.incidents,
                note,
                state,
                self._sinks.thresholds,
                storm_turns=self._sinks.storm_turns,
                begins_episode=closed is not None,
            )
            if closed is not None:
                self.episodes.append(EpisodeOutput(event, closed, closed=True))
            has_note = True
        is_changed = evidence is not None and state is not None and fold.apply_evidence(state, evidence)
        if state is not None and (has_note or is_changed):
            self._store(None, state, restarts_quiet_time=has_note)

    def _topics(self, data: events.PartitionsChanged, before: GroupState | None, state: GroupState) -> None:
        if not self.incidents.is_open("topic-gone") and all(topic.partitions for topic in data.topics.values()):
            return
        self.incidents = detection.detect_deleted_topics(
            self.incidents,
            data.timestamp,
            subscribed=subscribed(state.members),
            before={name: topic.partitions for name, topic in before.topics.items()} if before else {},
            now={name: topic.partitions for name, topic in state.topics.items()},
            reopen_ms=self._sinks.thresholds.reopen_ms,
        )

    def rebalancing(self, data: events.GroupRebalancing) -> None:
        """Apply a rebalance in progress, or the end of a rebalance. A group without an episode does not change."""
        before, state = self.group.episode, self.group.state
        if before is None or state is None:
            return
        mark = output_id(self.event, "rebalancing")
        after, closed = fold.apply_rebalancing(before, mark, data, names_of(state.members), self._sinks.quiet_ms)
        if after is None or after is before:
            return
        now, previous = after.rebalancing, before.rebalancing
        self._store(closed, after, restarts_quiet_time=now is None or previous is None or previous.since != now.since)
        if now is not None and self.incidents.is_open(_STUCK_KIND):
            self._open(detection.stuck_rebalance(now, after.awaited_names, data.timestamp))

    def progress(self, data: events.GroupProgress) -> None:
        """Apply samples of the group's offsets to the cost of its episode and to its ``data-loss`` incident."""
        before, state = self.group.episode, self.group.state
        if before is None or state is None:
            return
        after = fold.apply_samples(before, data)
        if after is before:
            return
        self.group.episode = after
        if data.starts is not UNSET or self.incidents.is_open("data-loss"):
            wanted = subscribed(state.members)
            starts = {} if data.starts is UNSET else data.starts
            self.incidents = detection.detect_lost_records(
                self.incidents,
                data.timestamp,
                data.partitions,
                {topic: offsets for topic, offsets in starts.items() if topic in wanted or not state.members},
                episode=after.number if after.open else 0,
                reopen_ms=self._sinks.thresholds.reopen_ms,
            )
        if not state.members and (resets := rewound_partitions(before.progress, after.progress or OffsetSamples())):
            why = Evidence(source="progress", reason=listed(resets, _MAX_LISTED_RESETS), kind=events.OFFSETS_RESET)
            mark = output_id(self.event, "reset")
            reset_state, closed = fold.apply_reset(after, mark, data.timestamp, why, self._sinks.quiet_ms)
            self._store(closed, reset_state or after)
        elif after.open and fold.cost_of_episode(after) != fold.cost_of_episode(before):
            self.episodes.append(EpisodeOutput(self.event, after, closed=False))

    def quiet(self, data: events.GroupQuiet) -> None:
        """Apply the timer event: the group is quiet, or its rebalance is stuck."""
        group, before, limits = self.group, self.group.episode, self._sinks.thresholds
        now = None if before is None else before.rebalancing
        if before is not None and now is not None and data.after == _rebalance_id(now.since):
            group.quiet_at = 0
            self._open(detection.stuck_rebalance(now, before.awaited_names, data.timestamp), before.number)
            return
        episode, closed = fold.end_if_quiet(before, data.after)
        if episode is before or episode is None:
            return
        group.episode, group.quiet_at = episode, 0
        self.episodes.append(EpisodeOutput(self.event, closed or episode, closed=closed is not None))
        if group.state is not None:
            findings = list(detect_in_quiet_group(group.state, waiting.current_waits(episode), limits.skew))
            ended = {*detection.QUIET_GROUP_KINDS, *detection.EPISODE_KINDS} - {incident.kind for incident in findings}
            self.incidents = incidents.close_incidents(self.incidents, sorted(ended), data.timestamp)
            for incident in findings:
                self._open(incident, episode.number if episode.open else 0)


def _quiet_time_end(state: EpisodeState, now_ms: int, sinks: Sinks) -> int:
    if not state.open or state.stuck:
        return 0
    if state.rebalancing is not None:
        duration_ms = state.rebalancing_at - state.rebalancing.since
        return now_ms + max(0, detection.stuck_after_ms(state.rebalance_durations_ms, sinks.thresholds) - duration_ms)
    return now_ms + fold.quiet_time_end(state, sinks.quiet_ms) - state.last_at


def _rebalance_id(since: int) -> str:
    return f"rebalancing/{since}"


def due_quiet_events(group_id: str, group: TrackedGroup, now_ms: int, sinks: Sinks) -> list[Event]:
    """Return a ``group.quiet`` event if the quiet time has passed, and move the group's deadline.

    While a rebalance is in progress, the event names that rebalance and reports it as stuck.

    An event that is lost before it reaches the log is written again one quiet time later, with the same id.
    """
    state = group.episode
    if not group.quiet_at or group.quiet_at > now_ms or state is None:
        return []
    group.quiet_at = now_ms + max(sinks.quiet_ms, 1000)
    after, timestamp = state.last_note_id, fold.quiet_time_end(state, sinks.quiet_ms)
    if (now := state.rebalancing) is not None:
        after = _rebalance_id(now.since)
        timestamp = now.since + detection.stuck_after_ms(state.rebalance_durations_ms, sinks.thresholds)
    data = events.GroupQuiet(group_id=group_id, timestamp=min(timestamp, events.MAX_TIMESTAMP), after=after)
    return [Event(SOURCE, f"{group_id}/quiet/{after}", data)]
