"""Detection of incidents: in each round, in a quiet group, and in the topics of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

from msgspec import UNSET, structs

from assignors.assignment import collect_lists
from streaming.episodes import kinds, waiting
from streaming.episodes.cost import Offsets
from streaming.episodes.identity import MemberIdentity
from streaming.episodes.incidents import IncidentFinding, IncidentState, Thresholds, close_incidents, open_incident
from streaming.episodes.kinds import Storm
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.reasons import application_reasons, exceeds_poll_interval
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import count, duration, member_list, partition_list, quoted, repeatedly
from streaming.records.diffs import Expected
from streaming.records.episodes import IncidentKind, Rebalancing, Waiting
from streaming.records.events import Evidence, Holding
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


class QuietMember(NamedTuple):
    """A member of a quiet group; ``partitions``: how many it owns, ``classic``: it uses the classic protocol."""

    member_id: str
    identity: MemberIdentity
    topics: Sequence[str]
    partitions: int
    classic: bool


class QuietGroup(NamedTuple):
    """A group in which nothing has happened for the quiet time.

    Attributes:
        kind: ``consumer``, ``connect``, ``streams`` or ``share``.
        counts: partition counts of its topics.
        unassigned: partitions that no member owns.
    """

    kind: str
    protocol: str
    members: Sequence[QuietMember]
    counts: Mapping[str, int]
    unassigned: Holding


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

    Args:
        state: the incidents before.
        note: the next note of the group.
        episode: the episode after the note.
        limits: thresholds.
        storm_turns: rebalances of one member that make a storm.
        begins_episode: the note closed an episode and opened the next.
    """
    at = note.timestamp
    if begins_episode:
        state = close_incidents(state, OF_EPISODE, at)
    found: list[IncidentFinding] = []
    if isinstance(note, RoundNote):
        if state.known:
            state = close_incidents(state, _resolved(note, episode), at)
        if note.expected is not None and note.expected.verdict == "different":
            found.append(_unexpected(note, note.expected, episode))
        for member_id, item in _poll_timeouts(note).items():
            state, often = _count_poll_timeout(state, note, member_id, item, limits)
            found += often
    if _may_storm(note, episode, storm_turns):
        storm = kinds.storm(episode, storm_turns)
        if storm is not None:
            found.append(_storm(episode, storm))
    for one in found:
        state = open_incident(state, one, at, episode=episode.number, reopen_ms=limits.reopen_ms)
    return state


def _resolved(note: RoundNote, episode: EpisodeState) -> Iterator[IncidentKind]:
    """Yield the kinds that a round ends at once."""
    if not episode.waiting:
        yield "stuck"
    if not note.unassigned:
        yield "partition-without-owner"
    if note.expected is not None and note.expected.verdict in _ACCEPTED:
        yield "unexpected-assignment"


def _unexpected(note: RoundNote, expected: Expected, episode: EpisodeState) -> IncidentFinding:
    """Return the finding of an assignment that the named assignor does not compute."""
    extra = {} if expected.extra is UNSET else expected.extra
    partitions = {topic: sorted(numbers) for topic, numbers in collect_lists(extra.values()).items()}
    names = {one.now: one.identity for one in episode.histories}
    number = count(sum(map(len, partitions.values())), "partition")
    who = "Coordinator" if note.protocol == "consumer" else "Leader"
    what = f"{who} assigned {number} to other members than {note.assignor} does"
    evidence = Evidence(source="comparison", reason=f"round {note.id}: `expected` has the difference")
    return IncidentFinding("unexpected-assignment", what, sorted(extra), names, partitions, evidence=[evidence])


def _may_storm(note: RoundNote | BounceNote, episode: EpisodeState, turns: int) -> bool:
    """Return whether a storm may have begun or gone on with the note: a quick check for each round."""
    if episode.rebalances + episode.bounces < turns:
        return False
    if isinstance(note, BounceNote):
        return True
    changed = bool(note.joined or note.gone)
    return not changed or any(one.turns >= turns for one in episode.histories) or len(episode.absent) >= turns


def _storm(episode: EpisodeState, storm: Storm) -> IncidentFinding:
    """Return the finding of a storm, or of an instance id that two processes share."""
    named = {one.now: one.identity for one in episode.histories}
    ids = [one.now for one in storm.members]
    who, about = member_list(ids, called(named)), {one: named[one] for one in ids}
    why = [one for one in episode.evidence if set(ids) & set(one.member_ids) or one.kind in _DEPARTURES][:3]
    if storm.instance:
        rejoins = count(max(one.rejoins for one in storm.members), "time")
        maybe = "" if storm.sure else "probably "
        what = f"{who} rejoined {rejoins} under new member ids: {maybe}two processes share the instance id"
        return IncidentFinding("duplicate-instance-id", what, ids, about, sure=storm.sure, evidence=why)
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
    return IncidentFinding("storm", what, ids, about, evidence=why)


def _poll_timeouts(note: RoundNote) -> dict[str, Evidence]:
    """Return the members that exceeded max.poll.interval.ms, with the evidence."""
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
) -> tuple[IncidentState, list[IncidentFinding]]:
    """Return the incidents with one more poll timeout of a member, and the finding if there were too many."""
    who, at = note.names.get(member_id, MemberIdentity()), note.timestamp
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
    return state, [IncidentFinding("poll-timeout", what, [member_id], {member_id: who}, evidence=[item])]


def _key(member_id: str, who: MemberIdentity) -> str:
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

    Args:
        state: the incidents before.
        at: time of the event, ms.
        subscribed: topics that members subscribe to.
        before: partition counts before the event.
        now: partition counts after it; 0: the topic does not exist.
        reopen_ms: see :class:`~streaming.episodes.incidents.Thresholds`.
    """
    known = state.known.get("topic-gone")
    missing = set(known.partitions) if known is not None and not known.closed_at else set[str]()
    deleted = [topic for topic in sorted(subscribed) if not now.get(topic) and (before.get(topic) or topic in missing)]
    if not deleted:
        return close_incidents(state, ["topic-gone"], at)
    what = f"Subscribed to {count(len(deleted), 'deleted topic')}: {', '.join(deleted[:3])}"
    found = IncidentFinding("topic-gone", what, partitions={topic: [] for topic in deleted})
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

    Args:
        state: the incidents before.
        at: time of the samples, ms.
        partitions: committed and end offsets.
        starts: log start offsets above the committed offset.
        episode: number of the open episode; 0: none.
        reopen_ms: see :class:`~streaming.episodes.incidents.Thresholds`.
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
    found = IncidentFinding("data-loss", what, partitions=holding, evidence=[why])
    return open_incident(state, found, at, episode=episode, reopen_ms=reopen_ms)


def _shows(state: IncidentState, partitions: Offsets) -> bool:
    """Return whether samples have a partition of the open incident of lost records."""
    known = state.known.get("data-loss")
    return known is not None and any(topic in partitions for topic in known.partitions)


def detect_in_quiet_group(group: QuietGroup, waits: Sequence[Waiting], skew: float) -> Iterator[IncidentFinding]:
    """Yield the findings of a quiet group. A group without members has none.

    Args:
        group: the group.
        waits: what its last episode still waits for.
        skew: see :class:`~streaming.episodes.incidents.Thresholds`.
    """
    if not group.members:
        return
    named = [one for one in waits if one.member_id is not None or not group.unassigned]
    if named:
        yield _stuck(group, named)
    if group.unassigned:
        members = count(len(group.members), "member")
        what = f"{partition_list(group.unassigned)} without a consumer, though the group has {members}"
        yield IncidentFinding("partition-without-owner", what, partitions=group.unassigned)
    if group.kind != "consumer":
        return
    total = sum(group.counts.get(topic, 0) for topic in {topic for one in group.members for topic in one.topics})
    idle = [one for one in group.members if not one.partitions]
    if idle and len(group.members) > total > 0:
        sizes = f"{count(len(group.members), 'member')} share {count(total, 'partition')}"
        yield _of_members("idle-members", group, idle, f"{sizes}: none left for {{who}}")
    heavy = _skew(group, skew)
    if heavy is not None:
        yield heavy
    classic = [one for one in group.members if one.classic]
    if group.protocol == "consumer" and 0 < len(classic) < len(group.members):
        some = f"{len(classic)} of {count(len(group.members), 'member')}"
        what = f"Half migrated: {some} still use the classic protocol ({{who}})"
        yield _of_members("half-migration", group, classic, what)


def stuck_after_ms(lasted_ms: Sequence[int], limits: Thresholds) -> int:
    """Return how long a rebalance lasts until it is stuck: the threshold, or far beyond the group's usual time."""
    if len(lasted_ms) < waiting.FEWEST_TOOK:
        return limits.rebalance_stuck_ms
    usual = max(_USUAL_TIMES * waiting.usual_ms(lasted_ms), _LEAST_STUCK_MS)
    return min(usual, limits.rebalance_stuck_ms)


def stuck_rebalance(now: Rebalancing, names: Mapping[str, MemberIdentity], at: int) -> IncidentFinding:
    """Return the finding of a rebalance that has not ended by ``at``."""
    who = f" for {member_list(now.awaited, called(dict(names)))}" if now.awaited else ""
    why = [Evidence(source="episode", reason=now.reason, member_ids=now.awaited)] if now.reason else []
    what = f"Rebalance has waited{who} for more than {duration(at - now.since)}"
    return IncidentFinding("rebalance-stuck", what, now.awaited, names, evidence=why)


def _of_members(kind: IncidentKind, group: QuietGroup, members: Sequence[QuietMember], what: str) -> IncidentFinding:
    """Return a finding about some members, whose names replace ``{who}`` in ``what``."""
    names = called({one.member_id: one.identity for one in group.members})
    ids = [one.member_id for one in members]
    what = what.replace("{who}", member_list(ids, names))
    return IncidentFinding(kind, what, ids, {one.member_id: one.identity for one in members})


def _stuck(group: QuietGroup, waits: Sequence[Waiting]) -> IncidentFinding:
    identities = {one.member_id: one.identity for one in group.members}
    partitions: dict[str, set[int]] = {}
    for one in waits:
        for topic, numbers in one.partitions.items():
            partitions.setdefault(topic, set()).update(numbers)
    ids = list(dict.fromkeys(one.member_id for one in waits if one.member_id is not None))
    reasons = "; ".join(dict.fromkeys(one.reason for one in waits[:3]))
    about = f"{member_list(ids, called(identities))} " if ids else ""
    return IncidentFinding(
        "stuck",
        f"Rebalance is stuck: waiting for {about}{reasons}" if ids else f"Rebalance is stuck: {reasons}",
        ids,
        {one: identities[one] for one in ids if one in identities},
        {topic: sorted(numbers) for topic, numbers in sorted(partitions.items())},
        evidence=[Evidence(source="episode", reason=one.reason) for one in waits[:3]],
    )


def _skew(group: QuietGroup, skew: float) -> IncidentFinding | None:
    """Return the finding of the member that owns the most above its fair share; None if no member does.

    A member's fair share is its part of each of its topics, if subscribers shared them evenly. Where subscriptions
    alone force more upon it, up to the mean of all members is fair.
    """
    subscribers = Counter(topic for one in group.members for topic in set(one.topics))
    mean = sum(one.partitions for one in group.members) / len(group.members)
    worst: tuple[float, QuietMember, int] | None = None
    for one in group.members:
        share = sum(group.counts.get(topic, 0) / subscribers[topic] for topic in set(one.topics))
        fair = ceil(max(share, mean))
        times = one.partitions / fair if fair else 0.0
        if one.partitions > fair + 1 and times > skew and (worst is None or times > worst[0]):
            worst = times, one, fair
    if worst is None:
        return None
    _, one, fair = worst
    what = f"{{who}} owns {count(one.partitions, 'partition')}, its fair share is {fair}"
    by = Evidence(source="comparison", reason=f"{one.partitions} partitions, fair share {fair}")
    return _of_members("skew", group, [one], what)._replace(evidence=[by])
