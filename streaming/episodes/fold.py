"""Grouping of rebalance rounds into episodes (:func:`apply_note`), and the end of an episode (:func:`end_if_quiet`).

Reports between two rounds change the open episode, too: rebalances in progress, samples of offsets, reset offsets.

A note opens an episode if no episode is open, or if the quiet time has passed since the previous note. Only
timestamps of the log count: a timer writes the event that closes the last episode, ``group.quiet``, to the log.
Follow-up rounds of a rebalance stay in the episode of its first round while that episode is open.

One operation is one episode. The start of a group ends with the first departure after it. A restart of all members
ends with the next departure, so three rolling restarts in a row are three episodes.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, structs

from streaming.episodes import cost, downtime, evidence, kinds, members, waiting
from streaming.episodes.downtime import Outages
from streaming.episodes.incidents import MAX_LISTED_ITEMS
from streaming.episodes.notes import BounceNote, RoundNote, topic_change
from streaming.episodes.reasons import exceeds_poll_interval
from streaming.episodes.state import EpisodeState
from streaming.records import events
from streaming.records.diffs import Diff, MemberNames
from streaming.records.episodes import Cost, Rebalancing, Waiting
from streaming.records.events import Evidence

#: Time without a round after which an episode ends, ms.
QUIET_TIME_MS: Final = 120_000
#: The most diff ids that an episode lists; a storm may have any number of rounds.
MOST_ROUNDS: Final = 256
#: The most reasons that an episode lists, apart from those about how a member departed.
MAX_EVIDENCE: Final = 16
_MAX_DEPARTURE_EVIDENCE: Final = 48
_PARTITIONS_CHANGED: Final = "topic.partitions_changed"
_SUBSCRIPTION_CHANGED: Final = "member.subscription_changed"
_GROUP_DELETED: Final = "group.deleted"
#: Kinds of causes and evidence that explain why a group rebalanced without a membership change.
_OTHER_CAUSES: Final = frozenset({events.PROBING, events.COORDINATOR_MOVED, _GROUP_DELETED, _SUBSCRIPTION_CHANGED})
#: The most rounds of a classic rebalance: cooperative rebalances take two, a third corrects an uneven result (KIP-429).
_MAX_FOLLOW_UP_ROUNDS: Final = 3
#: The most rebalances of one episode that new partition counts explain.
_MAX_PARTITION_CHANGES: Final = 3
_FIRST_OBSERVATION_REASON: Final = "first observation"
#: The newest episode (the same object if unchanged), and the episode that has ended.
EpisodeStep = tuple[EpisodeState | None, EpisodeState | None]


def end_if_quiet(state: EpisodeState | None, after: str) -> EpisodeStep:
    """End the open episode, or mark it as stuck, if its last note (a round, rejoin or wait) is still ``after``."""
    if state is None or not state.open or state.stuck or state.last_note_id != after:
        return state, None
    if state.waiting or state.awaited:
        return structs.replace(state, stuck=True), None
    if cost_of_episode(state)[1]:
        return state, None  # the timer fires again
    return state_after_end(state), state


def apply_note(
    state: EpisodeState | None, note: RoundNote | BounceNote, quiet_ms: int
) -> tuple[EpisodeState, EpisodeState | None]:
    """Apply a rebalance round, or rejoins of static members; return the newest episode, and the episode that ended.

    The state is changed in place, as a copy per round would cost more than the round.
    """
    closed_state, first = None, note if isinstance(note, RoundNote) else None
    if state is None or not state.open:
        state = open_episode(state or EpisodeState(0), note.timestamp, note.before, first)
    elif (
        state.rebalancing is None
        and note.timestamp > quiet_time_end(state, quiet_ms)
        and (first is None or first.diff.round == 1)
    ):
        closed_state = state
        state = open_episode(state_after_end(state), note.timestamp, note.before, first)
    elif _begins_next_episode(state, note) or (not state.round_count and kinds.is_reset(state)):
        # Open waits continue in the new episode.
        closed_state = structs.replace(state, waiting=(), awaited=(), rebalancing=None)
        state = structs.replace(
            open_episode(state_after_end(state), note.timestamp, note.before, first),
            waiting=state.waiting,
            awaited=state.awaited,
            awaited_names=state.awaited_names,
            waiting_since=state.waiting_since,
            outages=downtime.outages_for_next_episode(state.outages),
            rebalancing=state.rebalancing,
        )
    if state.rebalancing is not None and first is not None and first.diff.protocol == "classic":
        waiting.end_rebalance(state, note.timestamp)  # the round has a new generation; one epoch has several rounds
    if isinstance(note, BounceNote):
        members.apply_bounce(state.present, note)
        state.protocol, state.kind, state.assignor, state.after = note.protocol, note.kind, note.assignor, note.before
        state.bounces += len(note.renamed)
    else:
        _apply_round(state, note)
    # Reports of rebalances have the collector's clock, which may be ahead.
    state.last_at = max(state.last_at, note.timestamp) if state.rebalancing_at else note.timestamp
    state.last_note_id, state.stuck = note.id, False
    if note.change is not None:
        before = state.outages if state.progress is None else downtime.copy_outages(state.outages)
        state.outages = downtime.apply_change(state.outages, note.change)
        if state.progress is not None:
            state.progress = cost.keep_past_cost(state.progress, before, state.outages)
    return state, closed_state


def apply_evidence(state: EpisodeState, data: evidence.DowntimeEvidence) -> bool:
    """Apply evidence of downtime to the episode, in place; return whether the episode's record changes."""
    if state.outages is None:
        state.outages = Outages()
    return evidence.apply_evidence(state.outages, data, state.protocol) and state.open


def _begins_next_episode(state: EpisodeState, note: RoundNote | BounceNote) -> bool:
    """Return whether a departure begins another episode, because the open episode's operation is complete."""
    if isinstance(note, RoundNote) and not (note.gone and note.diff.round == 1):
        return False
    if state.before == 0 and not state.departures:
        return bool(state.present)
    # A migration lasts until the group is quiet.
    has_new_protocol = state.protocol_before not in (None, state.protocol)
    if has_new_protocol or (state.before or 0) <= 1 or max(state.departures, state.bounces) < (state.before or 0):
        return False
    for old, new in note.renamed.items() if isinstance(note, BounceNote) else ():
        history = state.present.get(old)
        if history is not None and members.are_alternating((*history.identities, note.names.get(new, MemberNames()))):
            return False  # two processes share the instance id
    returned, _, departed, _ = members.changes(state.present, state.absent)
    if any(member.how not in ("left", "gone") for member in returned):
        return False  # crashes of all members in turn are a storm
    rejoined_count = sum(member.was_present and bool(member.by) and not member.how for member in state.present.values())
    return len(returned) + rejoined_count == state.before and not departed


def cost_of_episode(state: EpisodeState) -> tuple[Cost | None, bool]:
    """Return the cost of an episode, and True if members are still catching up."""
    if state.progress is None:
        return None, False
    total, catching_up = cost.cost(state.progress, state.outages, state.opened_at)
    return total, catching_up and state.after > 0


def open_episode(last: EpisodeState, at: int, before: int, first: RoundNote | None = None) -> EpisodeState:
    """Return a new episode. ``before``: number of members before the episode; ``first``: the round that begins it."""
    first_number, can_be_new_group = 0, False
    members_before: int | None = before
    if first is not None and not last.number and _is_first_observation(first):
        first_number = first.diff.number
        # In a new group each join makes at most one generation.
        can_be_new_group = not first.existed_before and 1 < first_number <= before + len(first.joined) + 1
        members_before = before if can_be_new_group else None
    return structs.replace(
        state_after_end(last),
        number=last.number + 1,
        open=True,
        opened_at=at,
        last_at=0,
        protocol_before=last.protocol if last.number else None,
        assignor_before=last.assignor if last.number else None,
        before=members_before,
        first_seen=first_number,
        may_be_new=can_be_new_group,
        outages=last.outages,
    )


def _is_first_observation(note: RoundNote) -> bool:
    """Return whether the group may have had members before its first observation."""
    evidence = note.diff.cause.evidence
    if any(item.kind == events.GROUP_CREATED for item in evidence):
        return False
    comparisons = [item.reason for item in evidence if item.source == "comparison"]
    return note.existed_before or any(_FIRST_OBSERVATION_REASON in reason for reason in comparisons)


def _apply_round(state: EpisodeState, note: RoundNote) -> None:
    diff, cause = note.diff, note.diff.cause
    has_too_many_rounds = diff.round > _MAX_FOLLOW_UP_ROUNDS and diff.protocol == "classic"
    first = diff.round == 1 or has_too_many_rounds
    state.rebalances += first or not state.round_count
    if state.before is None and not state.round_count:
        state.before = note.after
    else:
        _apply_members(state, note)
        state.changes_tasks = state.changes_tasks or note.changes_tasks
        state.unexplained += first and _has_no_cause(state, note)
    for topic, partitions in note.moved.items():
        moved = state.moved.setdefault(topic, set())
        twice_moved_partitions = moved.intersection(partitions)
        if twice_moved_partitions and diff.undelivered is UNSET:  # moves of an undelivered generation did not happen
            state.twice_moved_partitions.setdefault(topic, set()).update(twice_moved_partitions)
        moved.update(partitions)
    is_new_cause = first or cause.kind not in state.causes  # a follow-up round may have a cause with more evidence
    if is_new_cause:
        state.causes[cause.kind] = state.causes.get(cause.kind, 0) + 1
    for item in cause.evidence:
        is_departure = item.kind is not None and exceeds_poll_interval(item.reason)
        room = _MAX_DEPARTURE_EVIDENCE if is_departure else MAX_EVIDENCE
        if len(state.evidence) < room and item not in state.evidence:
            state.evidence = (*state.evidence, item)
    if cause.kind == _PARTITIONS_CHANGED and is_new_cause and (topics := topic_change(cause)) is not None:
        state.topics = topics if state.causes[_PARTITIONS_CHANGED] == 1 or topics == state.topics else ""
    if note.gone:
        state.racks = tuple(sorted({*state.racks, note.rack}))
        state.lost_rack = note.rack if note.is_rack_empty and state.racks == (note.rack,) else ""
    state.protocol, state.kind, state.assignor = diff.protocol, diff.kind or "consumer", diff.assignor or state.assignor
    listed = state.rounds if state.round_count < MOST_ROUNDS else state.rounds.partition("\n")[2]
    state.rounds = f"{listed}\n{note.id}" if listed else note.id
    state.round_count += 1
    state.after = note.after
    state.deleted = cause.kind == _GROUP_DELETED
    if state.deleted:
        state.rebalancing = None
    state.waiting = _waiting_for(state, diff) if diff.unassigned and note.after else ()
    if state.awaited and not note.after:
        state.awaited = ()
    if state.waiting or state.waiting_since:
        waiting.record_wait(state, note.timestamp)


def _apply_members(state: EpisodeState, note: RoundNote) -> None:
    if note.joined or note.gone:
        state.absent = members.apply_membership(state.present, state.absent, note, state.rebalances)
        state.departures += len(note.gone)
        state.away = max(state.away, (state.before or 0) - (note.before - len(note.gone)))
    elif note.diff.round == 1:
        members.apply_requests(state.present, note, state.rebalances)


def _has_no_cause(state: EpisodeState, note: RoundNote) -> bool:
    """Return whether nothing explains a rebalance: no membership change, and no other usual reason."""
    cause = note.diff.cause
    kinds = {cause.kind, *(item.kind for item in cause.evidence)}
    if note.joined or note.gone or not note.after or note.changes_tasks or kinds & _OTHER_CAUSES:
        return False
    return _PARTITIONS_CHANGED not in kinds or state.causes.get(_PARTITIONS_CHANGED, 0) > _MAX_PARTITION_CHANGES


def _waiting_for(state: EpisodeState, diff: Diff) -> tuple[Waiting, ...]:
    since, until, reason = state.waiting[0].since if state.waiting else diff.timestamp, None, "partitions have no owner"
    if diff.delay_ms:
        until = min(diff.timestamp + diff.delay_ms, events.MAX_TIMESTAMP)
        reason = "tasks wait for their worker to come back, until the scheduled delay is over"
    return (Waiting(since=since, reason=reason, partitions=diff.unassigned, until=until),)


def quiet_time_end(state: EpisodeState, quiet_ms: int) -> int:
    """Return the time (ms) at which the episode ends if no round follows: one quiet time after its last note.

    If a wait has a known end after the last note, the quiet time begins at the end of the wait.
    """
    if not state.waiting:
        return state.last_at + quiet_ms
    until = max((wait.until for wait in state.waiting if wait.until is not None), default=0)
    return max(state.last_at, until) + quiet_ms


def state_after_end(state: EpisodeState) -> EpisodeState:
    """Return the fields of an ended episode that the group's next episode needs."""
    return EpisodeState(
        number=state.number,
        last_at=state.last_at,
        last_note_id=state.last_note_id,
        protocol=state.protocol,
        assignor=state.assignor,
        kind=state.kind,
        after=state.after,
        wait_durations_ms=state.wait_durations_ms,
        outages=downtime.outages_after_end(state.outages),
        rebalance_durations_ms=state.rebalance_durations_ms,
        progress=cost.samples_after_end(state.progress),
    )


def apply_rebalancing(
    last: EpisodeState, mark: str, data: events.GroupRebalancing, names: Mapping[str, MemberNames], quiet_ms: int
) -> EpisodeStep:
    """Apply a report of a rebalance in progress, or of its end. ``names``: names of the group's members.

    A report older than the last note is ignored, unless the note is a step of a KIP-848 rebalance.
    """
    closed_state, state, awaited = None, structs.replace(last), data.awaited[:MAX_LISTED_ITEMS]
    now = None if data.ended else _rebalancing_summary(data, awaited)
    is_between_steps = state.protocol != "classic" and bool(state.waiting or state.awaited)
    if state.rebalancing is not None:
        if data.timestamp < state.rebalancing_at or now == state.rebalancing:
            return last, None
        if now is None:
            waiting.end_rebalance(state, data.timestamp)
    elif now is None or (data.since <= state.last_at and not is_between_steps):
        return last, None
    elif not state.open:
        state = open_episode(state, data.since, len(names))
    elif data.since > quiet_time_end(state, quiet_ms):
        closed_state = state
        state = open_episode(state_after_end(state), data.since, len(names))
    state.rebalancing, state.rebalancing_at = now, data.timestamp
    state.stuck = False
    state.last_at = max(state.last_at, data.since if now is not None else data.timestamp)
    state.last_note_id = mark
    if now is not None:
        awaited_names = {member_id: names[member_id] for member_id in awaited if member_id in names}
        state.awaited_names = state.awaited_names | awaited_names
    return state, closed_state


def _rebalancing_summary(data: events.GroupRebalancing, awaited: list[str]) -> Rebalancing:
    return Rebalancing(
        since=data.since,
        reason=data.reason,
        joined=data.joined[:MAX_LISTED_ITEMS],
        awaited=awaited,
        state=data.state,
        until={member_id: data.until[member_id] for member_id in awaited if member_id in data.until},
        commits_stopped=None if data.commits_stopped is UNSET else data.commits_stopped,
    )


def apply_samples(state: EpisodeState, data: events.GroupProgress) -> EpisodeState:
    """Return the state with samples of the group's offsets added; ``state`` itself if the samples are out of date."""
    if (progress := cost.add_samples(state.progress, data)) is None:
        return state
    return structs.replace(state, progress=progress if state.open else cost.samples_after_end(progress))


def apply_reset(state: EpisodeState, mark: str, at: int, why: Evidence, quiet_ms: int) -> EpisodeStep:
    """Apply a reset of committed offsets in a group without members: open an episode, or add evidence to it."""
    closed_state = None
    if state.open and at > quiet_time_end(state, quiet_ms):
        closed_state, state = state, state_after_end(state)
    if not state.open:
        state = open_episode(state, at, 0)
    evidence = state.evidence if len(state.evidence) >= MAX_EVIDENCE else (*state.evidence, why)
    return structs.replace(state, evidence=evidence, last_at=max(state.last_at, at), last_note_id=mark), closed_state
