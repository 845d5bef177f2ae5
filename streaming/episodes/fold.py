"""Fold of notes into episodes, in place (:func:`take`), and the quiet time that ends an episode (:func:`quiet`).

A note opens an episode when none is open, or when it comes more than the quiet time after the previous note. Only
timestamps of the log count: a timer writes the event that closes the last episode, ``group.quiet``, to the log.
Follow-up rounds of a rebalance stay in the episode of its first round while that is open.

One operation is one episode. The start of a group ends with the first departure after it. A restart of all members
ends with the next departure, so three rolling restarts in a row are three episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from streaming.episodes import cost, downtime, evidence, kinds, members, waiting
from streaming.episodes.downtime import Outages
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.reasons import exceeds_poll_interval
from streaming.episodes.state import EpisodeState
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Cost, Waiting
from streaming.records.events import COORDINATOR_MOVED, GROUP_CREATED, MAX_TIMESTAMP, PROBING, Evidence

#: Time without a round after which an episode ends, ms.
QUIET_MS: Final = 120_000
#: The most diff ids that an episode lists; a storm may have any number of rounds.
MOST_ROUNDS: Final = 256
#: The most reasons that an episode lists, apart from those about how a member departed.
MOST_EVIDENCE: Final = 16
_MORE_EVIDENCE: Final = 48

_GROWTH: Final = "topic.partitions_changed"
_SUBSCRIPTION: Final = "member.subscription_changed"
_REJOINS: Final = frozenset({"member.joined", _SUBSCRIPTION})
_DELETED: Final = "group.deleted"
#: The most rounds of a classic rebalance: a cooperative one takes two, a third corrects an uneven result (KIP-429).
_MOST_FOLLOW_UPS: Final = 3
#: The most rebalances of an episode that new partition counts explain.
_MOST_GROWTH: Final = 3
_UNSEEN: Final = "first observation"


class EpisodeStep(NamedTuple):
    """Result of one note: the newest episode (the same object if nothing changed), and the episode that it ended."""

    state: EpisodeState | None
    closed: EpisodeState | None = None


def quiet(state: EpisodeState | None, after: str) -> EpisodeStep:
    """End the open episode if no note came after the one with the id ``after``, the last before the quiet time."""
    if state is None or not state.open or state.stuck or state.mark != after:
        return EpisodeStep(state)
    if state.waiting or state.awaited:
        return EpisodeStep(structs.replace(state, stuck=True))
    if cost_of_episode(state)[1]:
        return EpisodeStep(state)  # the timer fires again
    return EpisodeStep(over(state), state)


def take(
    state: EpisodeState | None, note: RoundNote | BounceNote, quiet_ms: int
) -> tuple[EpisodeState, EpisodeState | None]:
    """Apply a round or a static bounce in place; return the newest episode, and the episode that the note ended.

    In place, as a copy for each round would cost more than the round.
    """
    closed, first = None, note if isinstance(note, RoundNote) else None
    if state is None or not state.open:
        state = open_episode(state or EpisodeState(0), note.timestamp, note.before, first)
    elif state.rebalancing is None and note.timestamp > rests_at(state, quiet_ms) and not _follows(note):
        closed = state
        state = open_episode(over(state), note.timestamp, note.before, first)
    elif _begins_another(state, note) or (not state.round_count and kinds.is_reset(state)):
        # Open waits continue in the new episode.
        closed = structs.replace(state, waiting=(), awaited=(), rebalancing=None)
        state = structs.replace(
            open_episode(over(state), note.timestamp, note.before, first),
            waiting=state.waiting,
            awaited=state.awaited,
            called=state.called,
            began=state.began,
            outages=downtime.cut(state.outages),
            rebalancing=state.rebalancing,
        )
    if state.rebalancing is not None and _is_next_generation(note):
        waiting.end_rebalance(state, note.timestamp)
    if isinstance(note, BounceNote):
        _apply_bounce(state, note)
    else:
        _apply_round(state, note)
    if note.change is not None:
        before = state.outages if state.progress is None else downtime.copied(state.outages)
        state.outages = downtime.play(state.outages, note.change)
        if state.progress is not None:
            state.progress = cost.settle(state.progress, before, state.outages)
    return state, closed


def _is_next_generation(note: RoundNote | BounceNote) -> bool:
    """Return whether a note is a new classic generation; groups with epochs have several rounds per epoch."""
    return isinstance(note, RoundNote) and note.protocol == "classic"


def learn(state: EpisodeState, data: evidence.Evidence) -> bool:
    """Apply evidence of downtime, in place; return whether it changes the episode's record."""
    if state.outages is None:
        state.outages = Outages()
    return evidence.learn(state.outages, data, state.protocol) and state.open


def _follows(note: RoundNote | BounceNote) -> bool:
    return isinstance(note, RoundNote) and note.number > 1


def _begins_another(state: EpisodeState, note: RoundNote | BounceNote) -> bool:
    """Return whether a departure begins another operation than the open episode, whose operation has ended."""
    if isinstance(note, RoundNote) and not (note.gone and note.number == 1):
        return False
    if state.before == 0 and not state.departures:
        return bool(state.present)
    # A migration lasts until the group is quiet.
    migrates = state.started_with not in (None, state.protocol)
    returned = max(state.departures, state.bounces)
    if migrates or (state.before or 0) <= 1 or returned < (state.before or 0):
        return False
    if isinstance(note, BounceNote) and any(_has_alternating_identity(state, note, old) for old in note.renamed):
        return False
    back, _, went, _ = members.changes(state.present, state.absent)
    if any(member.how not in ("left", "gone") for member in back):
        return False  # crashes of all members in turn are a storm
    rejoined = sum(member.founder and bool(member.by) and not member.how for member in state.present.values())
    return len(back) + rejoined == state.before and not went


def _has_alternating_identity(state: EpisodeState, note: BounceNote, old: str) -> bool:
    """Return whether a static member rejoins with an earlier identity: two processes share its instance id."""
    history = state.present.get(old)
    who = note.names.get(note.renamed[old], MemberNames())
    return history is not None and members.alternate((*history.identities, who))


def cost_of_episode(state: EpisodeState) -> tuple[Cost | None, bool]:
    """Return the cost of an episode, and whether members are still catching up."""
    if state.progress is None:
        return None, False
    total, catching_up = cost.cost(state.progress, state.outages, state.opened_at)
    return total, catching_up and state.after > 0


def open_episode(last: EpisodeState, at: int, before: int, first: RoundNote | None = None) -> EpisodeState:
    """Return a new episode. ``before``: number of members before it; ``first``: the round that begins it."""
    first_seen, may_be_new = 0, False
    unseen = first is not None and not last.number and _first_seen(first)
    if unseen and first is not None:
        first_seen = first.generation
        # In a new group each join makes at most one generation.
        may_be_new = not first.midway and 1 < first_seen <= before + len(first.joined) + 1
    return EpisodeState(
        number=last.number + 1,
        open=True,
        opened_at=at,
        protocol=last.protocol,
        assignor=last.assignor,
        kind=last.kind,
        after=last.after,
        started_with=last.protocol if last.number else None,
        started_by=last.assignor if last.number else None,
        before=None if unseen and not may_be_new else before,
        first_seen=first_seen,
        may_be_new=may_be_new,
        took=last.took,
        outages=last.outages,
        lasted=last.lasted,
        progress=cost.over(last.progress),
    )


def _first_seen(note: RoundNote) -> bool:
    """Return whether the group may have had members before its first observation."""
    if any(item.kind == GROUP_CREATED for item in note.cause.evidence):
        return False
    return note.midway or any(item.source == "comparison" and _UNSEEN in item.reason for item in note.cause.evidence)


def _later_time(state: EpisodeState, timestamp: int) -> int:
    """Return the later of both times: reports of rebalances have the collector's clock, which may be ahead."""
    return max(state.last_at, timestamp) if state.rebalancing_at else timestamp


def _apply_bounce(state: EpisodeState, note: BounceNote) -> None:
    members.bounce(state.present, note)
    state.stuck = False
    state.last_at = _later_time(state, note.timestamp)
    state.mark = note.id
    state.protocol = note.protocol
    state.assignor = note.assignor
    state.kind = note.kind
    state.after = note.before
    state.bounces += len(note.renamed)


def _apply_round(state: EpisodeState, note: RoundNote) -> None:
    cause = note.cause
    endless = note.number > _MOST_FOLLOW_UPS and note.protocol == "classic"
    first = note.number == 1 or endless
    state.rebalances += first or not state.round_count
    if state.before is None and not state.round_count:
        state.before = note.after
    else:
        _apply_members(state, note)
        state.remade = state.remade or note.remade
        state.unprovoked += first and _is_unprovoked(state, note)
    if note.moved:
        _add_moves(state, note.moved, again=not note.repeats)
    if first or cause.kind not in state.causes:  # a follow-up round may have a better cause
        state.causes[cause.kind] = state.causes.get(cause.kind, 0) + 1
    if cause.evidence:
        state.evidence = _evidence(state.evidence, note)
    if cause.kind == _GROWTH and note.number == 1:
        state.topics = note.topics if state.causes[_GROWTH] == 1 or note.topics == state.topics else ""
    if note.gone:
        state.racks = state.racks | {note.rack}
        state.zone = note.rack if note.is_rack_empty and state.racks == {note.rack} else ""
    state.stuck = False
    state.last_at = _later_time(state, note.timestamp)
    state.mark = note.id
    state.protocol = note.protocol
    state.assignor = note.assignor or state.assignor
    state.kind = note.kind
    state.rounds = _with_diff_id(state, note.id)
    state.round_count += 1
    state.after = note.after
    state.deleted = cause.kind == _DELETED
    if state.deleted:
        state.rebalancing = None
    state.waiting = _waiting(state, note) if note.unassigned and note.after else ()
    if state.awaited and not note.after:
        state.awaited = ()
    if state.waiting or state.began:
        waiting.measure(state, note.timestamp)


def _apply_members(state: EpisodeState, note: RoundNote) -> None:
    changed = bool(note.joined or note.gone)
    if changed:
        state.absent = members.follow(state.present, state.absent, note, state.rebalances)
        state.departures += len(note.gone)
        state.away = max(state.away, (state.before or 0) - (note.before - len(note.gone)))
    if note.number == 1 and note.requesters and (note.cause.kind in _REJOINS or not changed):
        members.rejoin(state.present, note, state.rebalances)


def _is_unprovoked(state: EpisodeState, note: RoundNote) -> bool:
    """Return whether a rebalance has no membership change and no other usual reason."""
    kinds = {note.cause.kind, *(item.kind for item in note.cause.evidence)}
    if note.joined or note.gone or not note.after or note.remade or kinds & {PROBING, COORDINATOR_MOVED, _DELETED}:
        return False
    if _SUBSCRIPTION in kinds:
        return False
    return _GROWTH not in kinds or state.causes.get(_GROWTH, 0) > _MOST_GROWTH


def _with_diff_id(state: EpisodeState, diff_id: str) -> str:
    listed = state.rounds
    if state.round_count >= MOST_ROUNDS:
        listed = listed.partition("\n")[2]
    return f"{listed}\n{diff_id}" if listed else diff_id


def _add_moves(state: EpisodeState, moved: Mapping[str, Sequence[int]], *, again: bool) -> None:
    """Add the partitions that a round moved; with ``again`` also count those that moved more than once."""
    for topic, partitions in moved.items():
        earlier = state.moved.setdefault(topic, set())
        twice = earlier.intersection(partitions)
        if twice and again:
            state.again.setdefault(topic, set()).update(twice)
        earlier.update(partitions)


def _evidence(evidence: tuple[Evidence, ...], note: RoundNote) -> tuple[Evidence, ...]:
    for item in note.cause.evidence:
        room = len(evidence) < MOST_EVIDENCE or (
            len(evidence) < _MORE_EVIDENCE and item.kind is not None and exceeds_poll_interval(item.reason)
        )
        if room and item not in evidence:
            evidence = (*evidence, item)
    return evidence


def _waiting(state: EpisodeState, note: RoundNote) -> tuple[Waiting, ...]:
    since = state.waiting[0].since if state.waiting else note.timestamp
    until, reason = None, "partitions have no owner"
    if note.delay_ms:
        until = min(note.timestamp + note.delay_ms, MAX_TIMESTAMP)
        reason = "tasks wait for their worker to come back, until the scheduled delay is over"
    return (Waiting(since=since, reason=reason, partitions=note.unassigned, until=until),)


def copied(state: EpisodeState) -> EpisodeState:
    """Return a copy that shares no containers."""
    return structs.replace(
        state,
        present=dict(state.present),
        moved={topic: set(partitions) for topic, partitions in state.moved.items()},
        again={topic: set(partitions) for topic, partitions in state.again.items()},
        causes=dict(state.causes),
        called=dict(state.called),
        outages=downtime.copied(state.outages),
    )


def rests_at(state: EpisodeState, quiet_ms: int) -> int:
    """Return when the episode ends if no further note comes, ms: the quiet time after its last note.

    After a wait with a known end, the quiet time begins at that end.
    """
    if not state.waiting:
        return state.last_at + quiet_ms
    until = max((wait.until for wait in state.waiting if wait.until is not None), default=0)
    return max(state.last_at, until) + quiet_ms


def over(state: EpisodeState) -> EpisodeState:
    """Return the state to keep after an episode has ended."""
    return EpisodeState(
        number=state.number,
        last_at=state.last_at,
        mark=state.mark,
        protocol=state.protocol,
        assignor=state.assignor,
        kind=state.kind,
        after=state.after,
        took=state.took,
        outages=downtime.over(state.outages),
        lasted=state.lasted,
        progress=cost.over(state.progress),
    )
