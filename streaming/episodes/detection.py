"""Detection of incidents: in each round, in a quiet group, and in the topics of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import UNSET, structs

from assignors.assignment import collect_lists
from streaming.episodes import kinds, waiting
from streaming.episodes.cost import Offsets
from streaming.episodes.incidents import IncidentState, StoredIncident, Thresholds, close_incidents, open_incident
from streaming.episodes.kinds import Storm
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.reasons import application_reasons, exceeds_poll_interval
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import count, duration, member_list, partition_list, quoted, repeatedly
from streaming.records.diffs import Expected, MemberNames
from streaming.records.episodes import IncidentKind, Rebalancing
from streaming.records.events import Evidence
from streaming.records.names import called

#: Kinds that only a quiet group shows: they end when the group is quiet without them.
OF_QUIET_GROUP: Final[tuple[IncidentKind, ...]] = (
    "stuck",
    "partition-without-owner",
    "idle-members",
    "skew",
    "half-migration",
)
#: Kinds that end with their episode.
OF_EPISODE: Final[tuple[IncidentKind, ...]] = ("storm", "poll-timeout", "duplicate-instance-id")
#: Members whose times of exceeding max.poll.interval.ms are kept.
_MOST_MEMBERS: Final = 64
#: A rebalance is stuck after so many times the group's usual time, but not before :data:`_LEAST_STUCK_MS`.
_USUAL_TIMES: Final = 3
_LEAST_STUCK_MS: Final = 10_000
#: Verdicts of an assignment that needs no incident.
_ACCEPTED: Final = ("equal", "tie", "custom")
_DEPARTURES: Final = ("member.left", "member.fenced")


def detect_in_note(
    state: IncidentState,
    note: RoundNote | BounceNote,
    episode: EpisodeState,
    limits: Thresholds,
    *,
    storm_turns: int,
    begins_episode: bool,
) -> IncidentState:
    """Return the group's incidents after a note; ``state`` itself if nothing changes.

    ``episode``: after the note. ``begins_episode``: the note closed an episode and opened the next.
    """
    at = note.timestamp
    if begins_episode:
        state = close_incidents(state, OF_EPISODE, at)
    found: list[StoredIncident] = []
    if isinstance(note, RoundNote):
        if state.known:
            state = close_incidents(state, _resolved(note, episode), at)
        if note.expected is not None and note.expected.verdict == "different":
            found.append(_unexpected(note, note.expected, episode))
        for member_id, item in _poll_timeouts(note).items():
            state, often = _count_poll_timeout(state, note, member_id, item, limits)
            found += often
    may_storm = episode.rebalances + episode.bounces >= storm_turns
    if may_storm and (storm := kinds.storm(episode, storm_turns)) is not None:
        found.append(_storm(episode, storm))
    for one in found:
        state = open_incident(state, one, at, episode=episode.number, reopen_ms=limits.reopen_ms)
    return state


def _resolved(note: RoundNote, episode: EpisodeState) -> Iterator[IncidentKind]:
    if not episode.waiting:
        yield "stuck"
    if not note.unassigned:
        yield "partition-without-owner"
    if note.expected is not None and note.expected.verdict in _ACCEPTED:
        yield "unexpected-assignment"


def _unexpected(note: RoundNote, expected: Expected, episode: EpisodeState) -> StoredIncident:
    extra = {} if expected.extra is UNSET else expected.extra
    partitions = {topic: sorted(numbers) for topic, numbers in collect_lists(extra.values()).items()}
    names = {one.now: one.identity for one in episode.histories}
    number = count(sum(map(len, partitions.values())), "partition")
    who = "Coordinator" if note.protocol == "consumer" else "Leader"
    what = f"{who} assigned {number} to other members than {note.assignor} does"
    evidence = Evidence(source="comparison", reason=f"round {note.id}: `expected` has the difference")
    return StoredIncident("unexpected-assignment", what, sorted(extra), names, partitions, evidence=[evidence])


def _storm(episode: EpisodeState, storm: Storm) -> StoredIncident:
    named = {one.now: one.identity for one in episode.histories}
    ids = [one.now for one in storm.members]
    who, about = member_list(ids, called(named)), {one: named[one] for one in ids}
    why = [one for one in episode.evidence if set(ids) & set(one.member_ids) or one.kind in _DEPARTURES][:3]
    if storm.instance:
        rejoins = count(max(one.rejoins for one in storm.members), "time")
        maybe = "" if storm.sure else "probably "
        what = f"{who} rejoined {rejoins} under new member ids: {maybe}two processes share the instance id"
        return StoredIncident("duplicate-instance-id", what, ids, about, sure=storm.sure, evidence=why)
    what = "Rebalances again and again"
    if len(ids) == 1:
        what += f" because of {who}: {repeatedly(kinds.repeated(storm.members[0]))}"
    elif ids:
        what += f" because of {who}"
    elif episode.unprovoked:
        what += f": {count(episode.unprovoked, 'rebalance')} without a membership change"
    else:
        what += f": {count(len(episode.absent), 'member')} joined and departed again"
    if any(exceeds_poll_interval(one.reason) for one in why):
        what += ", max.poll.interval.ms exceeded"
    elif own := application_reasons(episode.evidence):
        what += f", client reason: {quoted(own)}"
        why = why or [one for one in episode.evidence if own[0] in one.reason][:1]
    return StoredIncident("storm", what, ids, about, evidence=why)


def _poll_timeouts(note: RoundNote) -> dict[str, Evidence]:
    if note.number != 1:
        return {}
    found: dict[str, Evidence] = {}
    for item in note.cause.evidence:
        if item.kind in _DEPARTURES and exceeds_poll_interval(item.reason):
            for member_id in item.member_ids:
                found.setdefault(member_id, item)
    return found


def _count_poll_timeout(
    state: IncidentState, note: RoundNote, member_id: str, item: Evidence, limits: Thresholds
) -> tuple[IncidentState, list[StoredIncident]]:
    who, at = note.names.get(member_id, MemberNames()), note.timestamp
    key, since = _key(member_id, who), at - limits.poll_timeouts_within_ms
    times = tuple(time for time in (*state.overruns.get(key, ()), at) if time > since)
    times = times[-limits.poll_timeouts :]
    others = {one: known for one, known in state.overruns.items() if one != key and known[-1] > since}
    while len(others) >= _MOST_MEMBERS:
        del others[next(iter(others))]
    state = structs.replace(state, overruns={**others, key: times})
    if len(times) < limits.poll_timeouts:
        return state, []
    what = f"{member_list([member_id], called({member_id: who}))} exceeds max.poll.interval.ms again and again"
    return state, [StoredIncident("poll-timeout", what, [member_id], {member_id: who}, evidence=[item])]


def _key(member_id: str, who: MemberNames) -> str:
    """Return a key for a member that stays the same when it rejoins under a new member id."""
    if who.group_instance_id:
        return f"={who.group_instance_id}"
    return f"{who.client_id}@{who.client_host}" if who.client_id else member_id


def detect_deleted_topics(
    state: IncidentState,
    at: int,
    *,
    subscribed: Iterable[str],
    before: Mapping[str, int],
    now: Mapping[str, int],
    reopen_ms: int,
) -> IncidentState:
    """Return the group's incidents after new partition counts; ``state`` itself if nothing changes.

    ``before`` and ``now``: partition counts before and after the event; 0: the topic does not exist.
    """
    known = state.known.get("topic-gone")
    missing = set(known.partitions) if known is not None and not known.closed_at else set[str]()
    deleted = [topic for topic in sorted(subscribed) if not now.get(topic) and (before.get(topic) or topic in missing)]
    if not deleted:
        return close_incidents(state, ["topic-gone"], at)
    what = f"Subscribed to {count(len(deleted), 'deleted topic')}: {', '.join(deleted[:3])}"
    found = StoredIncident("topic-gone", what, partitions={topic: [] for topic in deleted})
    return open_incident(state, found, at, reopen_ms=reopen_ms)


def detect_lost_records(
    state: IncidentState,
    at: int,
    partitions: Offsets,
    starts: Mapping[str, Mapping[str, int]],
    *,
    episode: int,
    reopen_ms: int,
) -> IncidentState:
    """Return the incidents after samples of the group's offsets; ``state`` itself if nothing changes.

    ``starts``: log start offsets above the committed offset. ``episode``: number of the open one; 0: none.
    """
    lost: dict[str, list[int]] = {}
    number = 0
    for topic, numbers in starts.items():
        for name, start in numbers.items():
            committed, _ = partitions.get(topic, {}).get(name, (None, 0))
            if committed is not None and start > committed:
                lost.setdefault(topic, []).append(int(name))
                number += start - committed
    if not lost:
        return close_incidents(state, ["data-loss"], at) if _shows(state, partitions) else state
    holding = {topic: sorted(numbers) for topic, numbers in sorted(lost.items())}
    what = f"Retention deleted {number:,} records of {partition_list(holding)} before they were consumed"
    why = Evidence(source="progress", reason="log start offset above the committed offset")
    found = StoredIncident("data-loss", what, partitions=holding, evidence=[why])
    return open_incident(state, found, at, episode=episode, reopen_ms=reopen_ms)


def _shows(state: IncidentState, partitions: Offsets) -> bool:
    known = state.known.get("data-loss")
    return known is not None and any(topic in partitions for topic in known.partitions)


def stuck_after_ms(lasted_ms: Sequence[int], limits: Thresholds) -> int:
    """Return how long a rebalance lasts until it is stuck: the threshold, or far beyond the group's usual time."""
    if len(lasted_ms) < waiting.FEWEST_TOOK:
        return limits.rebalance_stuck_ms
    usual = max(_USUAL_TIMES * waiting.usual_ms(lasted_ms), _LEAST_STUCK_MS)
    return min(usual, limits.rebalance_stuck_ms)


def stuck_rebalance(now: Rebalancing, names: dict[str, MemberNames], at: int) -> StoredIncident:
    """Return the finding of a rebalance that has not ended by ``at``."""
    who = f" for {member_list(now.awaited, called(names))}" if now.awaited else ""
    why = [Evidence(source="episode", reason=now.reason, member_ids=now.awaited)] if now.reason else []
    what = f"Rebalance has waited{who} for more than {duration(at - now.since)}"
    return StoredIncident("rebalance-stuck", what, now.awaited, names, evidence=why)
