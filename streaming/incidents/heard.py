"""What is wrong while a group rebalances: :func:`hear`, with each note of an episode; :func:`topics_gone`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import UNSET, structs

from assignors.shares import held
from streaming.episodes import kinds
from streaming.episodes.record import repeated
from streaming.episodes.seen import Bounced, RoundSeen
from streaming.episodes.state import EpisodeState, tracks
from streaming.episodes.tracks import Person, Track, overran, person
from streaming.episodes.words import count, lasting, people
from streaming.incidents import fold
from streaming.incidents.seen import Thresholds, Trouble
from streaming.incidents.state import IncidentState
from streaming.wire.diffs import Expected
from streaming.wire.episodes import IncidentKind
from streaming.wire.events import Evidence
from streaming.wire.names import called

#: The kinds that are over with the episode that they are of.
OF_EPISODE: Final[tuple[IncidentKind, ...]] = ("storm", "poll-timeout")
#: Members whose overruns are remembered, and how many of each.
_MOST: Final = 64
#: Verdicts by which an assignment is as it should be.
_FINE: Final = ("equal", "tie", "custom")
_ENDS: Final = ("member.left", "member.fenced")


def hear(
    state: IncidentState,
    group_id: str,
    note: RoundSeen | Bounced,
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
        state = fold.gone(state, OF_EPISODE, at)
    if isinstance(note, RoundSeen):
        if state.known:
            state = fold.gone(state, _healed(state, note, episode), at)
        if note.expected is not None and note.expected.verdict == "different":
            what = _unexpected(group_id, note, note.expected, episode)
            state = fold.found(state, what, at, episode=episode.number, reopen_ms=limits.reopen_ms)
        for one in _overruns(note):
            state, again = _overrun(state, group_id, note, one, limits)
            if again is not None:
                state = fold.found(state, again, at, episode=episode.number, reopen_ms=limits.reopen_ms)
    if _may_storm(note, episode, storm_turns):
        storm = kinds.stormy(episode, storm_turns)
        if storm is not None:
            what = _storm(group_id, episode, storm)
            state = fold.found(state, what, at, episode=episode.number, reopen_ms=limits.reopen_ms)
    return state


def _healed(state: IncidentState, note: RoundSeen, episode: EpisodeState) -> Iterator[IncidentKind]:
    """What a round ends at once."""
    if state.lasts("stuck") and not episode.waiting:
        yield "stuck"
    if state.lasts("partition-without-owner") and not note.unassigned:
        yield "partition-without-owner"
    if note.expected is not None and note.expected.verdict in _FINE and state.lasts("unexpected-assignment"):
        yield "unexpected-assignment"


def _unexpected(group_id: str, note: RoundSeen, found: Expected, episode: EpisodeState) -> Trouble:
    """What the leader, or the coordinator, gave out otherwise than the assignor that it names."""
    extra = {} if found.extra is UNSET else found.extra
    partitions = {topic: sorted(numbers) for topic, numbers in held(extra.values()).items()}
    names = {track.now: track.person for track in tracks(episode).all}
    number = sum(map(len, partitions.values()))
    who = "coordinator" if note.protocol == "consumer" else "leader"
    said = f"{group_id}'s {who} gave {count(number, 'partition')} to other members than {note.assignor} does"
    evidence = Evidence(source="comparison", reason=f"round {note.id}: `expected` has the difference")
    return Trouble("unexpected-assignment", said, sorted(extra), names, partitions, evidence=[evidence])


def _may_storm(note: RoundSeen | Bounced, episode: EpisodeState, turns: int) -> bool:
    """Whether the note may be a storm's: who is concerned by it has had its turns. Cheap, as each round asks."""
    if episode.rebalances + episode.bounces < turns:
        return False
    if isinstance(note, Bounced):
        return True
    there = episode.there
    for ids in (note.joined, note.cause.member_ids):
        for one in ids:
            track = there.get(one)
            if track is not None and track.turns >= turns:
                return True
    return bool(note.gone) and any(track.turns >= turns for track in episode.missing)


def _storm(group_id: str, episode: EpisodeState, storm: Track) -> Trouble:
    names = called({track.now: track.person for track in tracks(episode).all})
    who, often = people([storm.now], names), repeated(storm)
    every = f", about every {lasting(often.period_ms)}" if often.period_ms else ""
    said = f"{group_id} rebalances again and again because of {who}: {count(often.times, 'time')}{every}"
    why = [one for one in episode.evidence if storm.now in one.member_ids or one.kind in _ENDS][:3]
    if any(overran(one.reason) for one in why):
        said += ", as it does not poll in time"
    return Trouble("storm", said, [storm.now], {storm.now: storm.person}, evidence=why)


def _overruns(note: RoundSeen) -> Iterator[tuple[str, Evidence]]:
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
    note: RoundSeen,
    ended: tuple[str, Evidence],
    limits: Thresholds,
) -> tuple[IncidentState, Trouble | None]:
    """The incidents with one more overrun of a member, and what is wrong if it has had too many."""
    member_id, item = ended
    who, at = person(note.names.get(member_id)), note.timestamp
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
    said = f"{people([member_id], names)} of {group_id} overruns its poll interval again and again"
    return state, Trouble("poll-timeout", said, [member_id], {member_id: who}, evidence=[item])


def _key(member_id: str, who: Person) -> str:
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
        reopen_ms: as named in :class:`~streaming.incidents.seen.Thresholds`.
    """
    known = state.known.get("topic-gone")
    missed = set(known.partitions) if known is not None and known.lasts else set[str]()
    lost = [
        topic for topic in sorted(subscribed) if not now.get(topic) and (before.get(topic) or topic in missed)
    ]
    if not lost:
        return fold.gone(state, ["topic-gone"], at)
    what = f"{group_id} subscribes to {', '.join(lost[:3])}, which is gone"
    if len(lost) > 1:
        what = f"{group_id} subscribes to {count(len(lost), 'topic')} that are gone: {', '.join(lost[:3])}"
    found = Trouble("topic-gone", what, partitions={topic: [] for topic in lost})
    return fold.found(state, found, at, reopen_ms=reopen_ms)
