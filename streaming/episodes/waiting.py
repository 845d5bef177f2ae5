"""Members and steps that a rebalancing group waits for, from its snapshots, and the usual duration of such waits.

============  ==========================================================================================
group         waits for
============  ==========================================================================================
epochs        (KIP-848, KIP-1071) the coordinator's target; members that have to give up partitions; members
              that have not taken their free partitions; members behind the epoch; members whose partitions
              others still own
cooperative   members that give up partitions and rejoin for the round that reassigns them
Connect       workers that give up tasks and rejoin; the round has Connect's scheduled delay
============  ==========================================================================================

Members that can act come before members that can't. A polled snapshot has neither pending revocations nor epochs, so
only members that lack partitions are named.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import structs

from assignors.assignment import as_lists, collect_lists, common, subtract
from assignors.model import TopicPartitions
from streaming.episodes.evidence import AWAY_EPOCH
from streaming.episodes.notes import WaitNote
from streaming.episodes.state import EpisodeState
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Waiting
from streaming.records.events import MAX_INT32, GroupObserved, ObservedMember

#: The most members that are listed one by one; one more entry represents all other members.
MAX_WAITS: Final = 16
#: The number of the group's last waits whose durations are kept.
MAX_DURATIONS: Final = 32
#: The fewest waits from which the usual duration is computed.
MIN_DURATION_COUNT: Final = 10
#: Assignors under which a member gives up everything before it joins, so that one round is enough.
_EAGER_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "default"})
#: States in which a group with epochs waits for nothing.
_STATES_WITHOUT_WAIT: Final = frozenset({None, "Stable", "Empty", "Dead"})
#: States in which the target of the epoch is still to come.
_STATES_BEFORE_ASSIGNMENT: Final = {
    "Assigning": "the coordinator has not computed the assignment yet",
    "NotReady": "topics that the application reads are missing",
}


def wait_note(note_id: str, data: GroupObserved) -> WaitNote:
    """Return the note of the waits that a snapshot shows; its list is empty if the group waits for nothing."""
    waits = _waits_of_generation(data) if data.group_protocol == "classic" else _waits_of_epoch(data)
    listed = list(islice(waits, MAX_WAITS + 1))
    if len(listed) > MAX_WAITS:
        listed[-1] = Waiting(since=data.timestamp, reason="other members are waited for as well")
    awaited_ids = {wait.member_id for wait in listed}
    members = [member for member in (data.members if listed else ()) if member.member_id in awaited_ids]
    names = {m.member_id: MemberNames(m.client_id, m.client_host, m.group_instance_id) for m in members}
    return WaitNote(note_id, data.timestamp, tuple(listed), names)


def apply_wait_note(state: EpisodeState, note: WaitNote) -> bool:
    """Set the members that the open episode waits for, in place; return False if these waits have not changed.

    A wait that continues keeps the time at which it was first seen.
    """
    since = {(wait.member_id, wait.reason): wait.since for wait in state.awaited}
    waits = tuple(structs.replace(w, since=since.get((w.member_id, w.reason), w.since)) for w in note.waits)
    ended = not note.waits and end_rebalance(state, note.timestamp)
    if not state.open or (waits == state.awaited and not ended):
        return False
    state.awaited, state.stuck = waits, False
    state.awaited_names = dict(note.names) if state.rebalancing is None else {**state.awaited_names, **note.names}
    state.last_at = max(state.last_at, note.timestamp)
    state.last_note_id = note.id
    record_wait(state, note.timestamp)
    return True


def end_rebalance(state: EpisodeState, at: int) -> bool:
    """End the rebalance in progress, in place; return False if no rebalance is in progress or it began after ``at``."""
    if state.rebalancing is None or at < state.rebalancing.since:
        return False
    duration_ms = min(at - state.rebalancing.since, MAX_INT32)
    state.rebalance_durations_ms = (*state.rebalance_durations_ms[1 - MAX_DURATIONS :], duration_ms)
    state.rebalancing = None
    named = {wait.member_id for wait in state.awaited}
    state.awaited_names = {member_id: who for member_id, who in state.awaited_names.items() if member_id in named}
    return True


def record_wait(state: EpisodeState, timestamp: int) -> None:
    """Record when the group began to wait and, once the wait has ended, how long the wait took.

    A wait with Connect's scheduled delay is not recorded: the delay is configured.
    """
    if state.waiting or state.awaited:
        if any(wait.until is not None for wait in state.waiting):
            state.waiting_since = -1
        elif not state.waiting_since:
            state.waiting_since = timestamp
        return
    if 0 < state.waiting_since < timestamp:
        waited_ms = min(timestamp - state.waiting_since, MAX_INT32)
        state.wait_durations_ms = (*state.wait_durations_ms[1 - MAX_DURATIONS :], waited_ms)
    state.waiting_since = 0


def current_waits(state: EpisodeState) -> list[Waiting]:
    """Return all waits of an episode, each with the usual duration of the group's waits.

    Partitions without an owner that some member has to give up or take are not listed twice.
    """
    if not state.waiting and not state.awaited:
        return []
    named_partitions = collect_lists([wait.partitions for wait in state.awaited])
    others = [structs.replace(wait, partitions=subtract(wait.partitions, named_partitions)) for wait in state.waiting]
    waits = [*state.awaited, *(wait for wait in others if wait.partitions)]
    if len(state.wait_durations_ms) < MIN_DURATION_COUNT:
        return waits
    usual = usual_ms(state.wait_durations_ms)
    return [
        wait if wait.until is not None else structs.replace(wait, usual_ms=usual, usual_of=len(state.wait_durations_ms))
        for wait in waits
    ]


def usual_ms(waits_ms: Sequence[int]) -> int:
    """Return the 90th percentile of the durations (nearest rank): nine of ten waits were not longer."""
    return sorted(waits_ms)[-(-9 * len(waits_ms) // 10) - 1]


def _waits_of_epoch(data: GroupObserved) -> Iterator[Waiting]:
    if data.state in _STATES_WITHOUT_WAIT:
        return
    for member in data.members:
        if member.pending_revocation:
            yield _member_wait(member, "to give up {what}", member.pending_revocation, data)
    if data.state in _STATES_BEFORE_ASSIGNMENT:
        yield Waiting(since=data.timestamp, reason=_STATES_BEFORE_ASSIGNMENT[data.state])
    else:  # targets are those of this epoch
        yield from _waits_for_targets(data)


def _waits_for_targets(data: GroupObserved) -> Iterator[Waiting]:
    missing_by_member = [(member, subtract(member.target or {}, member.assigned)) for member in data.members]
    kept: TopicPartitions = {}
    if any(missing for _, missing in missing_by_member):
        kept = collect_lists(share for member in data.members for share in (member.assigned, member.pending_revocation))
    for member, missing in missing_by_member:
        free = subtract(missing, kept)
        if any(free.values()):
            yield _member_wait(member, "to get {what}" if data.polled else "to take {what}", free, data)
    for member, missing in missing_by_member:
        is_behind = not data.polled and (member.member_epoch or 0) < (data.group_epoch or 0)
        if is_behind and not missing and not member.pending_revocation:
            is_away = member.member_epoch == AWAY_EPOCH
            yield _member_wait(member, "to come back" if is_away else "to reach the group's epoch", {}, data)
    for member, missing in missing_by_member:
        others = common(missing, kept)
        if any(others.values()):
            yield _member_wait(member, "to get {what} that others have not given up", others, data)


def _waits_of_generation(data: GroupObserved) -> Iterator[Waiting]:
    """Yield the waits of a stable classic group for members that must revoke partitions and rejoin."""
    if data.protocol in _EAGER_ASSIGNORS:
        return
    tasks = data.holds_tasks
    for member in data.members:
        if lost := member.pending_revocation if tasks else member.owned and subtract(member.owned, member.assigned):
            yield _member_wait(member, "to give up {what} and join again", lost, data)


def _member_wait(member: ObservedMember, reason: str, share: TopicPartitions, data: GroupObserved) -> Waiting:
    return Waiting(
        since=data.timestamp,
        reason=reason.format(what="tasks" if data.holds_tasks else "partitions"),
        member_id=member.member_id,
        partitions=as_lists(share),
    )
