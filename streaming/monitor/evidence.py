"""Evidence of downtime from the rounds and events of observed consumer groups.

Groups whose rounds are computed from member events have none: what their coordinator did is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from streaming.episodes.evidence import (
    AssignmentChange,
    Callback,
    Evidence,
    View,
    WitnessRecord,
    away_of,
    together,
)
from streaming.monitor.rendering import DiffOutput
from streaming.monitor.reported import SOURCE as REPORTED
from streaming.monitor.state import GroupState, MemberState
from streaming.wire.diffs import MemberDiff
from streaming.wire.events import (
    COMPARISON,
    AssignmentAcknowledged,
    Event,
    GroupObserved,
    Holding,
    PartitionsStopped,
)

#: The one classic assignor under which members keep consuming what they keep.
_COOPERATIVE = "cooperative-sticky"
_NOTHING: Holding = {}
#: In place of the count of a collector by polling, which no other evidence has.
_NO_NUMBER = -1


def assignment_change(output: DiffOutput, past: Sequence[MemberState]) -> AssignmentChange | None:
    """The partitions that a round takes away and gives out; None if unknown. ``past``: the members before it."""
    decided, members, data = output.decided, output.changes.members, output.event.data
    if decided.kind != "consumer" or not isinstance(data, GroupObserved):
        return None
    if decided.protocol not in ("classic", "consumer"):
        return None
    modern = decided.protocol == "consumer"
    eager = not modern and decided.assignor != _COOPERATIVE
    before = {member.member_id for member in past}
    after = {member.member_id for member in decided.members}
    renamed = _renamed(past, decided.members)
    taken: list[Holding] = []
    orphaned: list[Holding] = []
    assigned: list[Holding] = []
    for member_id, change in members.items():
        if member_id in before and member_id in after:
            taken.append(change.owned if eager else change.revoked)
        elif member_id in before or member_id in renamed:
            orphaned.append(change.owned)
        assigned += _assigned(change, whole=eager or member_id in renamed or member_id not in before)
    stopped = together(taken)
    return AssignmentChange(
        number=_NO_NUMBER if data.polled else decided.generation,
        at=_at(data),
        taken=stopped,
        orphaned=together(orphaned),
        assigned=together(assigned),
        pending=_pending(data) if modern else _NOTHING if eager else stopped,
        away=away_of(data.members) if modern else _NOTHING,
        starts=not past and not any(item.source == COMPARISON for item in decided.cause.evidence),
    )


def return_of(event: Event, state: GroupState, renamed: Mapping[str, str]) -> AssignmentChange | None:
    """The partitions of static members that came back without a round. ``state``: the group after it."""
    data = event.data
    if state.kind != "consumer" or not isinstance(data, GroupObserved):
        return None
    owned = together(one.owned for one in state.members if one.member_id in renamed.values())
    return AssignmentChange(
        number=_NO_NUMBER if data.polled else state.generation,
        at=_at(data),
        taken=_NOTHING,
        orphaned=owned,
        assigned=owned,
        pending=_pending(data) if data.counts_epochs else _NOTHING,
        away=_NOTHING,
    )


def evidence_of(event: Event, state: GroupState | None, *, played: bool) -> Evidence | None:
    """The evidence of an event beside rounds; None if it has none. ``played``: it has made a round."""
    data = event.data
    if state is None or (not state.observed and state.reports is None) or state.kind != "consumer":
        return None
    if state.counted:
        return None  # members and records name Kafka's numbers, not those of polling
    match data:
        case PartitionsStopped():
            number = data.generation if state.protocol == "classic" else data.group_epoch
            return None if number is None else WitnessRecord(data.source, number, data.stops)
        case AssignmentAcknowledged():
            revoked = _NOTHING if data.revoked is UNSET else data.revoked
            assigned = _NOTHING if data.assigned is UNSET else data.assigned
            return Callback(data.timestamp, data.generation, revoked, assigned)
        case GroupObserved() if not played and data.group_protocol == "consumer":
            at, number = _at(data), data.group_epoch or 0
            return View(number, at, data.members) if at is not None and number >= state.generation else None
        case _:
            return None


def _at(data: GroupObserved) -> int | None:
    """When the coordinator wrote a view; None if the coordinator did not write it."""
    known = data.polled or any(item.source == REPORTED for item in data.evidence)
    return None if known else data.timestamp


def _assigned(change: MemberDiff, *, whole: bool) -> list[Holding]:
    return [change.kept, change.assigned] if whole else [change.assigned]


def _renamed(past: Sequence[MemberState], members: Sequence[MemberState]) -> set[str]:
    """Static members under new ids; diffs use the new ids for the past as well."""
    known = {member.instance_id: member.member_id for member in past if member.instance_id is not None}
    return {
        member.member_id
        for member in members
        if member.instance_id in known and known[member.instance_id] != member.member_id
    }


def _pending(data: GroupObserved) -> Holding:
    return together(one.pending_revocation for one in data.members if one.pending_revocation)
