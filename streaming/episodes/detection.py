"""Detection of incidents in rounds, in rebalances in progress, and in the topics and offsets of a group."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from msgspec import UNSET, structs

from assignors.assignment import collect_lists
from streaming.episodes import kinds, waiting
from streaming.episodes.cost import PROGRESS_SOURCE, Offsets
from streaming.episodes.incidents import IncidentLimits, IncidentState, StoredIncident, close_incidents, open_incident
from streaming.episodes.kinds import Storm
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.reasons import application_reasons, exceeds_poll_interval
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import count, duration, member_list, partition_list, quote_reasons, repetition_text
from streaming.records.diffs import Expected, MemberNames
from streaming.records.episodes import EpisodeIncidentKind, IncidentKind, QuietIncidentKind, Rebalancing
from streaming.records.events import Evidence
from streaming.records.names import display_names

QUIET_GROUP_KINDS: Final[tuple[IncidentKind, ...]] = get_args(QuietIncidentKind)
EPISODE_KINDS: Final[tuple[IncidentKind, ...]] = get_args(EpisodeIncidentKind)
#: The most members for which the state has times at which max.poll.interval.ms was exceeded.
_MAX_MEMBERS: Final = 64
#: A rebalance is stuck after this many times the group's usual duration, but not before :data:`_LEAST_STUCK_MS`.
_USUAL_DURATION_FACTOR: Final = 3
_MIN_STUCK_MS: Final = 10_000
#: Verdicts of the comparison with the assignor that open no incident.
_ACCEPTED_VERDICTS: Final = ("equal", "tie", "custom")
_DEPARTURE_CAUSES: Final = ("member.left", "member.fenced")


def detect_in_note(
    state: IncidentState,
    note: RoundNote | BounceNote,
    episode: EpisodeState,
    limits: IncidentLimits,
    *,
    storm_turns: int,
    begins_episode: bool,
) -> IncidentState:
    """Return the group's incidents after a note of its episode; the same object as ``state`` if no incident changes.

    ``episode``: the episode after the note. ``begins_episode``: the note closed an episode and opened the next.
    """
    at = note.timestamp
    if begins_episode:
        state = close_incidents(state, EPISODE_KINDS, at)
    incidents: list[StoredIncident] = []
    if isinstance(note, RoundNote):
        expected = note.diff.expected
        if state.by_key:
            is_resolved_by_kind = {
                "stuck": not episode.waiting,
                "partition-without-owner": not note.diff.unassigned,
                "unexpected-assignment": expected is not UNSET and expected.verdict in _ACCEPTED_VERDICTS,
            }
            state = close_incidents(state, [kind for kind, is_over in is_resolved_by_kind.items() if is_over], at)
        if expected is not UNSET and expected.verdict == "different":
            incidents.append(_unexpected_assignment(note, expected))
        for member_id, item in _poll_timeouts(note).items():
            state, repeated = _count_poll_timeout(state, note, member_id, item, limits)
            incidents += repeated
    can_be_storm = episode.rebalances + episode.bounces >= storm_turns
    if can_be_storm and (storm := kinds.find_storm(episode, storm_turns)) is not None:
        incidents.append(_storm_incident(episode, storm))
    for incident in incidents:
        state = open_incident(state, incident, at, episode=episode.number, reopen_ms=limits.reopen_ms)
    return state


def _unexpected_assignment(note: RoundNote, expected: Expected) -> StoredIncident:
    extra = {} if expected.extra is UNSET else expected.extra
    partitions = {topic: sorted(numbers) for topic, numbers in collect_lists(extra.values()).items()}
    members = {member_id: note.diff.members[member_id] for member_id in sorted(extra)}
    names = {
        member_id: MemberNames(member.client_id, member.client_host, member.group_instance_id)
        for member_id, member in members.items()
    }
    number = count(sum(map(len, partitions.values())), "partition")
    who = "Coordinator" if note.diff.protocol == "consumer" else "Leader"
    what = f"{who} assigned {number} to other members than {note.diff.assignor} does"
    evidence = Evidence(source="comparison", reason=f"round {note.id}: `expected` has the difference")
    return StoredIncident("unexpected-assignment", what, list(members), names, partitions, evidence=[evidence])


def _storm_incident(episode: EpisodeState, storm: Storm) -> StoredIncident:
    named = {member.now: member.identity for member in episode.histories}
    ids = [member.now for member in storm.members]
    who, names_by_member = member_list(ids, display_names(named)), {member_id: named[member_id] for member_id in ids}
    why = [item for item in episode.evidence if set(ids) & set(item.member_ids) or item.kind in _DEPARTURE_CAUSES][:3]
    if storm.instance:
        rejoins = count(max(member.rejoins for member in storm.members), "time")
        qualifier = "" if storm.sure else "probably "
        what = f"{who} rejoined {rejoins} under new member ids: {qualifier}two processes share the instance id"
        return StoredIncident("duplicate-instance-id", what, ids, names_by_member, sure=storm.sure, evidence=why)
    what = "Rebalances again and again"
    if len(ids) == 1:
        what += f" because of {who}: {repetition_text(kinds.repetition_of(storm.members[0]))}"
    elif ids:
        what += f" because of {who}"
    elif episode.unexplained:
        what += f": {count(episode.unexplained, 'rebalance')} without a membership change"
    else:
        what += f": {count(len(episode.absent), 'member')} joined and departed again"
    if any(exceeds_poll_interval(item.reason) for item in why):
        what += ", max.poll.interval.ms exceeded"
    elif own := application_reasons(episode.evidence):
        what += f", client reason: {quote_reasons(own)}"
        why = why or [item for item in episode.evidence if own[0] in item.reason][:1]
    return StoredIncident("storm", what, ids, names_by_member, evidence=why)


def _poll_timeouts(note: RoundNote) -> dict[str, Evidence]:
    evidence: dict[str, Evidence] = {}
    for item in note.diff.cause.evidence if note.diff.round == 1 else ():
        if item.kind in _DEPARTURE_CAUSES and exceeds_poll_interval(item.reason):
            evidence |= {member_id: item for member_id in item.member_ids if member_id not in evidence}
    return evidence


def _count_poll_timeout(
    state: IncidentState, note: RoundNote, member_id: str, item: Evidence, limits: IncidentLimits
) -> tuple[IncidentState, list[StoredIncident]]:
    who, at = note.names.get(member_id, MemberNames()), note.timestamp
    since = at - limits.poll_timeouts_within_ms
    # A key that stays the same when the member rejoins under a new member id.
    key = f"{who.client_id}@{who.client_host}" if who.client_id else member_id
    key = f"={who.group_instance_id}" if who.group_instance_id else key
    times = tuple(time for time in (*state.overruns.get(key, ()), at) if time > since)[-limits.poll_timeouts :]
    others = {name: times for name, times in state.overruns.items() if name != key and times[-1] > since}
    while len(others) >= _MAX_MEMBERS:
        del others[next(iter(others))]
    state = structs.replace(state, overruns={**others, key: times})
    if len(times) < limits.poll_timeouts:
        return state, []
    what = f"{member_list([member_id], display_names({member_id: who}))} exceeds max.poll.interval.ms again and again"
    return state, [StoredIncident("poll-timeout", what, [member_id], {member_id: who}, evidence=[item])]


def detect_deleted_topics(
    state: IncidentState,
    at: int,
    *,
    subscribed: Iterable[str],
    before: Mapping[str, int],
    now: Mapping[str, int],
    reopen_ms: int,
) -> IncidentState:
    """Return the group's incidents after new partition counts; ``state`` itself if no incident changes.

    ``before`` and ``now``: partition counts before and after the event; 0 if the topic does not exist.
    """
    stored = state.by_key.get("topic-gone")
    missing = set(stored.partitions) if stored is not None and not stored.closed_at else set[str]()
    deleted = [topic for topic in sorted(subscribed) if not now.get(topic) and (before.get(topic) or topic in missing)]
    if not deleted:
        return close_incidents(state, ["topic-gone"], at)
    what = f"Subscribed to {count(len(deleted), 'deleted topic')}: {', '.join(deleted[:3])}"
    incident = StoredIncident("topic-gone", what, partitions={topic: [] for topic in deleted})
    return open_incident(state, incident, at, reopen_ms=reopen_ms)


def detect_lost_records(
    state: IncidentState,
    at: int,
    partitions: Offsets,
    starts: Mapping[str, Mapping[str, int]],
    *,
    episode: int,
    reopen_ms: int,
) -> IncidentState:
    """Return the group's incidents after samples of its offsets; ``state`` itself if no incident changes.

    ``starts``: log start offsets above the committed offset. ``episode``: number of the open episode; 0: none.
    """
    lost: dict[str, list[int]] = {}
    records = 0
    for topic, numbers in starts.items():
        for name, start in numbers.items():
            committed, _ = partitions.get(topic, {}).get(name, (None, 0))
            if committed is not None and start > committed:
                lost.setdefault(topic, []).append(int(name))
                records += start - committed
    if not lost:
        stored = state.by_key.get("data-loss")
        is_sampled = stored is not None and any(topic in partitions for topic in stored.partitions)
        return close_incidents(state, ["data-loss"], at) if is_sampled else state
    lost_partitions = {topic: sorted(numbers) for topic, numbers in sorted(lost.items())}
    what = f"Retention deleted {records:,} records of {partition_list(lost_partitions)} before they were consumed"
    why = Evidence(source=PROGRESS_SOURCE, reason="log start offset above the committed offset")
    incident = StoredIncident("data-loss", what, partitions=lost_partitions, evidence=[why])
    return open_incident(state, incident, at, episode=episode, reopen_ms=reopen_ms)


def stuck_after_ms(past_durations_ms: Sequence[int], limits: IncidentLimits) -> int:
    """Return the duration (ms) after which a rebalance counts as stuck: as configured, or less in a fast group."""
    if len(past_durations_ms) < waiting.MIN_DURATION_COUNT:
        return limits.rebalance_stuck_ms
    usual = max(_USUAL_DURATION_FACTOR * waiting.usual_ms(past_durations_ms), _MIN_STUCK_MS)
    return min(usual, limits.rebalance_stuck_ms)


def stuck_rebalance(now: Rebalancing, names: dict[str, MemberNames], at: int) -> StoredIncident:
    """Return the incident of a rebalance that has not ended by ``at`` (ms)."""
    who = f" for {member_list(now.awaited, display_names(names))}" if now.awaited else ""
    why = [Evidence(source="episode", reason=now.reason, member_ids=now.awaited)] if now.reason else []
    what = f"Rebalance has waited{who} for more than {duration(at - now.since)}"
    return StoredIncident("rebalance-stuck", what, now.awaited, names, evidence=why)
