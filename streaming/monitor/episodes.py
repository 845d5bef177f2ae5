"""Episodes and incidents of the stream's groups: how an event changes them, and the timer's ``group.quiet``.

Quiet is an event in the log: the timer changes no group but writes a ``group.quiet`` with the id of the last note.
The episode is over when that is read back, if no other note came by then. A replay of the log needs no timer.

Incidents change with each note of an episode and with partition counts, when the group is quiet or deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from streaming.episodes import detection, waiting
from streaming.episodes.cost import Progress, rewound
from streaming.episodes.fold import cost_of_episode, learn, quiet, rests_at, take
from streaming.episodes.incidents import IncidentState, acknowledge, changed_incidents, close_incidents, open_incident
from streaming.episodes.notes import ResetNote, WaitNote
from streaming.episodes.reports import take_rebalancing, take_reset, take_samples
from streaming.episodes.state import EpisodeState
from streaming.monitor import cluster
from streaming.monitor.bucket_state import TrackedGroup
from streaming.monitor.heartbeats import SOURCE
from streaming.monitor.notes import evidence_of, notes, rebalancing_note
from streaming.monitor.outputs import DiffOutput, EpisodeOutput, IncidentOutput, Output, Sinks, output_id
from streaming.monitor.quiet_group import detect_in_quiet_group
from streaming.monitor.state import GroupState, subscribed
from streaming.records.episodes import Acknowledged
from streaming.records.events import (
    MAX_TIMESTAMP,
    OFFSETS_RESET,
    ClusterObserved,
    Event,
    Evidence,
    GroupDeleted,
    GroupObserved,
    GroupProgress,
    GroupQuiet,
    GroupRebalancing,
    IncidentAcknowledged,
    PartitionsChanged,
)

_NO_INCIDENTS = IncidentState()
_STUCK = "rebalance-stuck"
#: Partitions with reset offsets that evidence names.
_MOST_REWOUND = 3


def update(
    group: TrackedGroup,
    before: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    *,
    now_ms: int,
    sinks: Sinks,
) -> list[EpisodeOutput | IncidentOutput]:
    """Apply an event to its group's episode and incidents; return those that changed.

    ``group``: after the event, with its episode and incidents before it. ``outputs``: those of the event.
    """
    known = incidents = group.incidents or _NO_INCIDENTS
    data = event.data
    if isinstance(data, ClusterObserved):
        episodes = list[EpisodeOutput]()
        if group.state is not before:  # no repeat
            incidents = cluster.update_incidents(incidents, data)
    elif isinstance(data, GroupQuiet):
        episodes, incidents = _quiet(group, event, data, incidents, sinks)
    elif isinstance(data, GroupRebalancing):
        episodes, incidents = _rebalancing(group, event, data, incidents, now_ms=now_ms, sinks=sinks)
    elif isinstance(data, GroupProgress):
        episodes, incidents = _progress(group, event, data, incidents, now_ms=now_ms, sinks=sinks)
    elif isinstance(data, IncidentAcknowledged):
        by = Acknowledged(at=data.timestamp, by=data.by, until=data.until, text=data.text, muted=data.muted)
        episodes, incidents = [], acknowledge(incidents, data.incident, by)
    else:
        episodes, incidents = _apply_notes(group, before, event, outputs, incidents, now_ms=now_ms, sinks=sinks)
        if group.state is not before:
            incidents = _topics_or_end(group, before, event, incidents, sinks)
        if group.state is None:
            group.episode, group.quiet_at, group.incidents = None, 0, None
    if incidents.is_open(_STUCK) and (group.episode is None or group.episode.rebalancing is None):
        incidents = close_incidents(incidents, [_STUCK], data.timestamp)
    if sinks.incidents is None or incidents is known:
        return [*episodes]
    group.incidents = None if group.state is None else incidents
    return [*episodes, *(IncidentOutput(event, one) for one in changed_incidents(known, incidents))]


def _apply_notes(
    group: TrackedGroup,
    before: GroupState | None,
    event: Event,
    outputs: Sequence[Output],
    incidents: IncidentState,
    *,
    now_ms: int,
    sinks: Sinks,
) -> tuple[list[EpisodeOutput], IncidentState]:
    after, first, state = group.state, group.episode is None, group.episode
    observed = isinstance(event.data, GroupObserved)
    if observed and after is before:  # a repeat
        return [], incidents
    found = notes(before, after, event, outputs, first=first) if outputs or observed else ()
    stopped = None
    if not first and after is not None and (after.observed or after.reports is not None):
        played = any(isinstance(output, DiffOutput) for output in outputs)
        stopped = evidence_of(event, after, played=played)
    updates, noted = list[EpisodeOutput](), False
    for note in found:
        if isinstance(note, WaitNote):
            noted = (state is not None and waiting.apply_note(state, note)) or noted
            continue
        state, closed = take(state, note, sinks.quiet_ms)
        incidents = detection.detect_in_note(
            *(incidents, note, state, sinks.thresholds),
            storm_turns=sinks.storm_turns,
            begins_episode=closed is not None,
        )
        if closed is not None:
            updates.append(EpisodeOutput(event, closed, closed=True))
        noted = True
    learned = stopped is not None and state is not None and learn(state, stopped)
    if state is not None and (noted or learned):
        updates.append(EpisodeOutput(event, state, closed=False))
        group.episode = state
        if noted:
            group.quiet_at = _quiet_at(state, now_ms, sinks)
    return updates, incidents


def _rebalancing(
    group: TrackedGroup, event: Event, data: GroupRebalancing, incidents: IncidentState, *, now_ms: int, sinks: Sinks
) -> tuple[list[EpisodeOutput], IncidentState]:
    """Apply a rebalance in progress, or its end. A group without an episode is unknown and stays so."""
    before, state = group.episode, group.state
    if before is None or state is None:
        return [], incidents
    note = rebalancing_note(event, data, state)
    step = take_rebalancing(before, note, sinks.quiet_ms)
    after = step.state
    if after is None or after is before:
        return [], incidents
    group.episode = after
    now = after.rebalancing
    if now is None or before.rebalancing is None or before.rebalancing.since != now.since:
        group.quiet_at = _quiet_at(after, now_ms, sinks)
    if now is not None and incidents.is_open(_STUCK):
        found = detection.stuck_rebalance(now, after.called, data.timestamp)
        incidents = open_incident(incidents, found, data.timestamp, reopen_ms=sinks.thresholds.reopen_ms)
    updates = [] if step.closed is None else [EpisodeOutput(event, step.closed, closed=True)]
    return [*updates, EpisodeOutput(event, after, closed=False)], incidents


def _progress(
    group: TrackedGroup, event: Event, data: GroupProgress, incidents: IncidentState, *, now_ms: int, sinks: Sinks
) -> tuple[list[EpisodeOutput], IncidentState]:
    before, state = group.episode, group.state
    if before is None or state is None or (after := take_samples(before, data.timestamp, data.partitions)) is before:
        return [], incidents
    group.episode = after
    if data.starts is not UNSET or incidents.is_open("data-loss"):
        wanted = subscribed(state.members)
        starts = {} if data.starts is UNSET else data.starts
        incidents = detection.detect_lost_records(
            *(incidents, data.timestamp, data.partitions),
            {topic: found for topic, found in starts.items() if topic in wanted or not state.members},
            episode=after.number if after.open else 0,
            reopen_ms=sinks.thresholds.reopen_ms,
        )
    if not state.members and (found := rewound(before.progress, after.progress or Progress())):
        more = f" and {len(found) - _MOST_REWOUND} more" if len(found) > _MOST_REWOUND else ""
        reason = ", ".join(found[:_MOST_REWOUND]) + more
        why = Evidence(source="progress", reason=reason, kind=OFFSETS_RESET)
        step = take_reset(after, ResetNote(output_id(event, "reset"), data.timestamp, why), sinks.quiet_ms)
        group.episode = after = step.state or after
        group.quiet_at = _quiet_at(after, now_ms, sinks)
        updates = [] if step.closed is None else [EpisodeOutput(event, step.closed, closed=True)]
        return [*updates, EpisodeOutput(event, after, closed=False)], incidents
    changed = after.open and cost_of_episode(after) != cost_of_episode(before)
    return ([EpisodeOutput(event, after, closed=False)] if changed else []), incidents


def _quiet(
    group: TrackedGroup, event: Event, data: GroupQuiet, incidents: IncidentState, sinks: Sinks
) -> tuple[list[EpisodeOutput], IncidentState]:
    now = None if group.episode is None else group.episode.rebalancing
    if group.episode is not None and now is not None and data.after == _stuck_mark(now.since):
        group.quiet_at = 0
        stuck = detection.stuck_rebalance(now, group.episode.called, data.timestamp)
        number, reopen_ms = group.episode.number, sinks.thresholds.reopen_ms
        return [], open_incident(incidents, stuck, data.timestamp, episode=number, reopen_ms=reopen_ms)
    step = quiet(group.episode, data.after)
    if step.state is group.episode or step.state is None:
        return [], incidents
    group.episode, group.quiet_at = step.state, 0
    if group.state is not None:
        at, limits, episode = event.data.timestamp, sinks.thresholds, step.state
        found = list(detect_in_quiet_group(group.state, waiting.waits_of(episode), limits.skew))
        over = {*detection.OF_QUIET_GROUP, *detection.OF_EPISODE} - {one.kind for one in found}
        incidents = close_incidents(incidents, sorted(over), at)
        number = episode.number if episode.open else 0
        for one in found:
            incidents = open_incident(incidents, one, at, episode=number, reopen_ms=limits.reopen_ms)
    if step.closed is not None:
        return [EpisodeOutput(event, step.closed, closed=True)], incidents
    return [EpisodeOutput(event, step.state, closed=False)], incidents


def _topics_or_end(
    group: TrackedGroup, before: GroupState | None, event: Event, incidents: IncidentState, sinks: Sinks
) -> IncidentState:
    data, state = event.data, group.state
    if isinstance(data, GroupDeleted):
        return close_incidents(incidents, list(incidents.known), data.timestamp)
    if not isinstance(data, PartitionsChanged) or state is None:
        return incidents
    if not incidents.is_open("topic-gone") and all(topic.partitions for topic in data.topics.values()):
        return incidents
    return detection.detect_deleted_topics(
        *(incidents, data.timestamp),
        subscribed=subscribed(state.members),
        before={name: topic.partitions for name, topic in before.topics.items()} if before else {},
        now={name: topic.partitions for name, topic in state.topics.items()},
        reopen_ms=sinks.thresholds.reopen_ms,
    )


def _quiet_at(state: EpisodeState, now_ms: int, sinks: Sinks) -> int:
    if not state.open or state.stuck:
        return 0
    if state.rebalancing is not None:
        lasted = state.rebalancing_at - state.rebalancing.since
        return now_ms + max(0, detection.stuck_after_ms(state.lasted, sinks.thresholds) - lasted)
    return now_ms + rests_at(state, sinks.quiet_ms) - state.last_at


def _stuck_mark(since: int) -> str:
    return f"rebalancing/{since}"


def due(group_id: str, group: TrackedGroup, now_ms: int, sinks: Sinks) -> list[Event]:
    """Return the timer's ``group.quiet`` if it is due, and move the deadline.

    While a rebalance is in progress, the event names that rebalance, which is stuck then.

    An event that is lost before it reaches the log is written again one quiet time later, with the same id.
    """
    state = group.episode
    if not group.quiet_at or group.quiet_at > now_ms or state is None:
        return []
    group.quiet_at = now_ms + max(sinks.quiet_ms, 1000)
    mark, timestamp = state.mark, rests_at(state, sinks.quiet_ms)
    if (now := state.rebalancing) is not None:
        mark = _stuck_mark(now.since)
        timestamp = now.since + detection.stuck_after_ms(state.lasted, sinks.thresholds)
    data = GroupQuiet(group_id=group_id, timestamp=min(timestamp, MAX_TIMESTAMP), after=mark)
    return [Event(SOURCE, f"{group_id}/quiet/{mark}", data)]
