"""Detection of incidents: in each round (:func:`hear`), at rest (:func:`at_rest`), and in a group's topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from msgspec import UNSET, structs

from assignors.assignment import collect_lists
from streaming.episodes import kinds
from streaming.episodes.identity import MemberIdentity, identity
from streaming.episodes.kinds import Storm
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.reasons import application_reasons, overran
from streaming.episodes.record import repeated
from streaming.episodes.state import EpisodeState
from streaming.episodes.wording import count, lasting, partitions, people
from streaming.incidents import lifecycle
from streaming.incidents.state import AtRest, Finding, IncidentState, MemberAtRest, Thresholds
from streaming.records.diffs import Expected
from streaming.records.episodes import IncidentKind, Waiting
from streaming.records.events import Evidence
from streaming.records.names import called

#: The kinds that only a group at rest shows: they are over when it rests without them.
OF_REST: Final[tuple[IncidentKind, ...]] = (
    "stuck",
    "partition-without-owner",
    "idle-members",
    "skew",
    "half-migration",
)
#: The kinds that are over with the episode that they are of.
OF_EPISODE: Final[tuple[IncidentKind, ...]] = ("storm", "poll-timeout", "duplicate-instance-id")
#: Members whose overruns are remembered, and how many of each.
_MOST: Final = 64
#: Verdicts by which an assignment is as it should be.
_FINE: Final = ("equal", "tie", "custom")
#: Characters of a client's reason that an incident repeats.
_REASON: Final = 120
_ENDS: Final = ("member.left", "member.fenced")


def hear(
    state: IncidentState,
    group_id: str,
    note: RoundNote | BounceNote,
    episode: EpisodeState,
    limits: Thresholds,
    *,
    storm_turns: int,
    anew: bool,
) -> IncidentState:
    """The group's incidents after a note; ``state`` itself where nothing changed.

    Args:
        state: before it.
        group_id: the group.
        note: the next in the log.
        episode: as it is after the note.
        limits: when something is an incident.
        storm_turns: how often one member is the reason of a rebalance in a storm.
        anew: whether the note opened an episode where another had been open.
    """
    at = note.timestamp
    if anew:
        state = lifecycle.gone(state, OF_EPISODE, at)
    if isinstance(note, RoundNote):
        if state.known:
            state = lifecycle.gone(state, _healed(state, note, episode), at)
        if note.expected is not None and note.expected.verdict == "different":
            what = _unexpected(group_id, note, note.expected, episode)
            state = lifecycle.found(state, what, at, episode=episode.number, reopen_ms=limits.reopen_ms)
        for one in _overruns(note):
            state, again = _overrun(state, group_id, note, one, limits)
            if again is not None:
                state = lifecycle.found(state, again, at, episode=episode.number, reopen_ms=limits.reopen_ms)
    if _may_storm(note, episode, storm_turns):
        storm = kinds.storm(episode, storm_turns)
        if storm is not None:
            what = _storm(group_id, episode, storm)
            state = lifecycle.found(state, what, at, episode=episode.number, reopen_ms=limits.reopen_ms)
    return state


def _healed(state: IncidentState, note: RoundNote, episode: EpisodeState) -> Iterator[IncidentKind]:
    """What a round ends at once."""
    if state.lasts("stuck") and not episode.waiting:
        yield "stuck"
    if state.lasts("partition-without-owner") and not note.unassigned:
        yield "partition-without-owner"
    if note.expected is not None and note.expected.verdict in _FINE and state.lasts("unexpected-assignment"):
        yield "unexpected-assignment"


def _unexpected(group_id: str, note: RoundNote, found: Expected, episode: EpisodeState) -> Finding:
    """What the leader, or the coordinator, gave out otherwise than the assignor that it names."""
    extra = {} if found.extra is UNSET else found.extra
    partitions = {topic: sorted(numbers) for topic, numbers in collect_lists(extra.values()).items()}
    names = {one.now: one.identity for one in episode.histories}
    number = sum(map(len, partitions.values()))
    who = "coordinator" if note.protocol == "consumer" else "leader"
    said = f"{group_id}'s {who} gave {count(number, 'partition')} to other members than {note.assignor} does"
    evidence = Evidence(source="comparison", reason=f"round {note.id}: `expected` has the difference")
    return Finding("unexpected-assignment", said, sorted(extra), names, partitions, evidence=[evidence])


def _may_storm(note: RoundNote | BounceNote, episode: EpisodeState, turns: int) -> bool:
    """Return whether a storm may have begun with the note, or gone on. Cheap, as each round needs it."""
    if episode.rebalances + episode.bounces < turns:
        return False
    if isinstance(note, BounceNote):
        return True
    changed = bool(note.joined or note.gone)
    return not changed or any(one.turns >= turns for one in episode.histories) or len(episode.absent) >= turns


def _storm(group_id: str, episode: EpisodeState, storm: Storm) -> Finding:
    """Return the finding of a storm, or of an instance id that two processes share."""
    named = {one.now: one.identity for one in episode.histories}
    names, ids = called(named), [one.now for one in storm.members]
    about = {one: named[one] for one in ids}
    why = [one for one in episode.evidence if set(ids) & set(one.member_ids) or one.kind in _ENDS][:3]
    if storm.instance:
        rejoins = max(one.rejoins for one in storm.members)
        said = f"{people(ids, names)} of {group_id} rejoined {count(rejoins, 'time')} under new member ids"
        maybe = "" if storm.sure else "probably "
        said += f": {maybe}two processes share the instance id"
        return Finding("duplicate-instance-id", said, ids, about, sure=storm.sure, evidence=why)
    said = f"{group_id} rebalances again and again"
    if len(ids) == 1:
        often = repeated(storm.members[0])
        every = f", about every {lasting(often.period_ms)}" if often.period_ms else ""
        said += f" because of {people(ids, names)}: {count(often.times, 'time')}{every}"
    elif ids:
        said += f" because of {people(ids, names)}"
    elif episode.unprovoked:
        said += f": {count(episode.unprovoked, 'rebalance')} without a membership change"
    else:
        said += f": {count(len(episode.absent), 'member')} joined and departed again"
    if any(overran(one.reason) for one in why):
        said += (
            ", as it exceeds max.poll.interval.ms"
            if len(ids) == 1
            else ", as they exceed max.poll.interval.ms"
        )
    elif own := application_reasons(episode.evidence):
        said += f", client reason: “{own[0][:_REASON]}”"
        why = why or [one for one in episode.evidence if own[0] in one.reason][:1]
    return Finding("storm", said, ids, about, evidence=why)


def _overruns(note: RoundNote) -> Iterator[tuple[str, Evidence]]:
    """Who did not poll in time, as the cause of a rebalance says."""
    if note.number != 1:
        return
    told: set[str] = set()
    for item in note.cause.evidence:
        if item.kind in _ENDS and overran(item.reason):
            for one in item.member_ids:
                if one not in told:
                    told.add(one)
                    yield one, item


def _overrun(
    state: IncidentState,
    group_id: str,
    note: RoundNote,
    ended: tuple[str, Evidence],
    limits: Thresholds,
) -> tuple[IncidentState, Finding | None]:
    """The incidents with one more overrun of a member, and what is wrong if it has had too many."""
    member_id, item = ended
    who, at = identity(note.names.get(member_id)), note.timestamp
    key = _key(member_id, who)
    since = at - limits.poll_timeouts_within_ms
    times = tuple(time for time in (*state.overruns.get(key, ()), at) if time > since)[
        -limits.poll_timeouts :
    ]
    others = {one: known for one, known in state.overruns.items() if one != key and known[-1] > since}
    while len(others) >= _MOST:
        del others[next(iter(others))]
    state = structs.replace(state, overruns={**others, key: times})
    if len(times) < limits.poll_timeouts:
        return state, None
    names = called({member_id: who})
    said = f"{people([member_id], names)} of {group_id} exceeds max.poll.interval.ms again and again"
    return state, Finding("poll-timeout", said, [member_id], {member_id: who}, evidence=[item])


def _key(member_id: str, who: MemberIdentity) -> str:
    """Who a member is, also when it comes back under a new id."""
    if who.group_instance_id:
        return f"={who.group_instance_id}"
    return f"{who.client_id}@{who.client_host}" if who.client_id else member_id


def topics_gone(
    state: IncidentState,
    group_id: str,
    at: int,
    *,
    subscribed: Iterable[str],
    before: Mapping[str, int],
    now: Mapping[str, int],
    reopen_ms: int,
) -> IncidentState:
    """The group's incidents after its topics have other partition counts; ``state`` itself where nothing changed.

    Args:
        state: before.
        group_id: the group.
        at: the event's time, ms.
        subscribed: the topics that members subscribe to.
        before: partition counts before the event.
        now: and after it; 0: the topic does not exist.
        reopen_ms: as named in :class:`~streaming.incidents.state.Thresholds`.
    """
    known = state.known.get("topic-gone")
    missed = set(known.partitions) if known is not None and known.lasts else set[str]()
    lost = [
        topic for topic in sorted(subscribed) if not now.get(topic) and (before.get(topic) or topic in missed)
    ]
    if not lost:
        return lifecycle.gone(state, ["topic-gone"], at)
    what = f"{group_id} subscribes to {', '.join(lost[:3])}, which is gone"
    if len(lost) > 1:
        what = f"{group_id} subscribes to {count(len(lost), 'topic')} that are gone: {', '.join(lost[:3])}"
    found = Finding("topic-gone", what, partitions={topic: [] for topic in lost})
    return lifecycle.found(state, found, at, reopen_ms=reopen_ms)


def at_rest(group: AtRest, waiting: Sequence[Waiting], skew: float) -> Iterator[Finding]:
    """What is wrong; nothing is with a group without members, which rests.

    Args:
        group: as it is.
        waiting: what its last episode still waits for.
        skew: as named in :class:`~streaming.incidents.state.Thresholds`.
    """
    if not group.members:
        return
    named = [one for one in waiting if one.member_id is not None or not group.unassigned]
    if named:
        yield _stuck(group, named)
    if group.unassigned:
        yield _unowned(group)
    if group.kind != "consumer":
        return
    total = sum(group.counts.get(topic, 0) for topic in _topics(group))
    idle = [one for one in group.members if not one.partitions]
    if idle and len(group.members) > total > 0:
        yield _idle(group, idle, total)
    heavy = _heavy(group, skew)
    if heavy is not None:
        yield heavy
    classic = [one for one in group.members if one.classic]
    if group.protocol == "consumer" and 0 < len(classic) < len(group.members):
        yield _half(group, classic)


def _topics(group: AtRest) -> set[str]:
    return {topic for one in group.members for topic in one.topics}


def _some(kind: IncidentKind, group: AtRest, members: Sequence[MemberAtRest], what: str) -> Finding:
    """Members of the group of which something is wrong: ``{who}`` in ``what`` stands for what they are called."""
    names = called({one.member_id: one.identity for one in group.members})
    ids = [one.member_id for one in members]
    said = what.replace("{who}", people(ids, names))
    return Finding(kind, said, ids, {one.member_id: one.identity for one in members})


def _stuck(group: AtRest, waiting: Sequence[Waiting]) -> Finding:
    persons = {one.member_id: one.identity for one in group.members}
    names = called(persons)
    held: dict[str, set[int]] = {}
    for one in waiting:
        for topic, numbers in one.partitions.items():
            held.setdefault(topic, set()).update(numbers)
    ids = list(dict.fromkeys(one.member_id for one in waiting if one.member_id is not None))
    said = "; ".join(dict.fromkeys(one.reason for one in waiting[:3]))
    about = f"{people(ids, names)}: " if ids else ""
    return Finding(
        "stuck",
        f"{group.group_id} does not get on with its rebalance: {about}{said}",
        ids,
        {one: persons[one] for one in ids if one in persons},
        {topic: sorted(numbers) for topic, numbers in sorted(held.items())},
        evidence=[Evidence(source="episode", reason=one.reason) for one in waiting[:3]],
    )


def _unowned(group: AtRest) -> Finding:
    has = f"though it has {count(len(group.members), 'member')}"
    what = f"{partitions(group.unassigned)} of {group.group_id}: nobody owns them, {has}"
    return Finding("partition-without-owner", what, partitions=group.unassigned)


def _idle(group: AtRest, idle: Sequence[MemberAtRest], total: int) -> Finding:
    there = f"{count(len(group.members), 'member')} for {count(total, 'partition')}"
    what = f"{group.group_id} has {there}: nothing is left for {{who}}"
    return _some("idle-members", group, idle, what)


def _half(group: AtRest, classic: Sequence[MemberAtRest]) -> Finding:
    of = f"{len(classic)} of {count(len(group.members), 'member')}"
    what = f"{group.group_id} is half migrated: {of} still use the classic protocol: {{who}}"
    return _some("half-migration", group, classic, what)


def _heavy(group: AtRest, skew: float) -> Finding | None:
    """Who owns much more than subscriptions ask for; None: nobody.

    The fair share of a member: its part of each of its topics, were they shared out evenly among their subscribers.
    Subscriptions alone may force more upon it, up to the mean of all members, which is fair as well.
    """
    subscribers = Counter(topic for one in group.members for topic in set(one.topics))
    mean = sum(one.partitions for one in group.members) / len(group.members)
    worst: tuple[float, MemberAtRest, int] | None = None
    for one in group.members:
        share = sum(group.counts.get(topic, 0) / subscribers[topic] for topic in set(one.topics))
        fair = ceil(max(share, mean))
        times = one.partitions / fair if fair else 0.0
        if one.partitions > fair + 1 and times > skew and (worst is None or times > worst[0]):
            worst = times, one, fair
    if worst is None:
        return None
    _, one, fair = worst
    owns = f"owns {count(one.partitions, 'partition')} of {group.group_id}, its fair share is {fair}"
    by = Evidence(source="comparison", reason=f"{one.partitions} partitions, fair share {fair}")
    return _some("skew", group, [one], f"{{who}} {owns}")._replace(evidence=[by])
