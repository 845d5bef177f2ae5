"""Conversion of an event into notes for its group's episode: rounds, rejoined static members, waits, evidence.

Derived groups (groups known only from member events) have no evidence of downtime, as no record of their coordinator
is read.
"""

from collections.abc import Collection, Mapping, Sequence

from assignors.assignment import LastOwners, collect_lists
from streaming.episodes import waiting
from streaming.episodes.downtime import AssignmentChange
from streaming.episodes.evidence import DowntimeEvidence, away_partitions, pending_partitions
from streaming.episodes.members import requesting_members
from streaming.episodes.notes import BounceNote, RoundNote, WaitNote, changes_tasks, existed_before
from streaming.monitor.derived import COOPERATIVE
from streaming.monitor.outputs import DiffOutput, Output, output_id
from streaming.monitor.reported import SOURCE as REPORTED
from streaming.monitor.state import NOTHING, GroupState, MemberState, ownership
from streaming.records import events
from streaming.records.diffs import MemberNames
from streaming.records.events import Event, GroupObserved, Holding


def make_notes(
    before: GroupState | None, after: GroupState | None, event: Event, outputs: Sequence[Output], *, first: bool
) -> list[RoundNote | BounceNote | WaitNote]:
    """Return the notes about an event, for the episodes of its group; ``first``: the group has no episode yet."""
    result: list[RoundNote | BounceNote | WaitNote] = []
    past: Sequence[MemberState] = () if before is None else before.members
    renamed: dict[str, str] = {}
    if before is not None and after is not None:
        data = event.data
        is_static_join = isinstance(data, events.MemberJoined) and data.group_instance_id is not None
        follows_snapshots = before.observed and not isinstance(data, events.MemberJoined)
        if before.reports is not None or is_static_join or follows_snapshots:
            renamed = _renamed_members(past, after.members)
    if after is not None and renamed:
        names = _names(past, {*renamed}) | _names(after.members, {*renamed.values()})
        bounce_note = BounceNote(
            output_id(event, "bounce"),
            event.data.timestamp,
            renamed,
            names,
            len(past),
            protocol=after.protocol,
            assignor=after.assignor,
            kind=after.kind,
            change=_change_of_rejoin(event, after, renamed),
        )
        result.append(bounce_note)
    for output in outputs:
        if isinstance(output, DiffOutput):
            derived = after is not None and not after.observed
            free = {} if before is None else before.last_owners
            result.append(_round_note(output, past, free, first=first, derived=derived))
            past, first = output.decided.members, False
    view = event.data
    if not first and isinstance(view, GroupObserved) and after is not None:
        number = view.generation if view.group_protocol == "classic" else view.group_epoch
        if (after.protocol, after.generation) == (view.group_protocol, number) and (after.counted or not view.polled):
            result.append(waiting.wait_note(output_id(event, "awaited"), view))
    return result


def _renamed_members(past: Sequence[MemberState], members: Sequence[MemberState]) -> dict[str, str]:
    old: dict[str | None, str] = {m.instance_id: m.member_id for m in past if m.instance_id is not None}
    before = {member.member_id: old.get(member.instance_id) for member in (members if old else ())}
    return {old_id: now for now, old_id in before.items() if old_id is not None and old_id != now}


def _round_note(
    output: DiffOutput, past: Sequence[MemberState], free: LastOwners, *, first: bool, derived: bool
) -> RoundNote:
    members, before, diff = output.decided.members, output.decided.before, output.diff
    # `before` lists the past members in order, then new ones: if the lengths are equal, no member joined or departed.
    joined = [] if len(before) == len(past) else list(before)[len(past) :]
    gone: Sequence[str] = ()
    if len(before) != len(members):
        now = {member.member_id for member in members}
        gone = [member_id for member_id in before if member_id not in now]
    named = {*joined, *(requesting_members(diff.cause) if diff.round == 1 else ())}
    rack, is_rack_empty = _find_lost_rack(past, gone) if gone else ("", False)
    return RoundNote(
        id=output.id,
        timestamp=diff.timestamp,
        diff=diff,
        joined=joined,
        gone=gone,
        before=len(past),
        after=len(members),
        names=_names(members, named) | _names(past, {*gone}),
        moved=output.moves,
        changes_tasks=diff.kind == "connect" and changes_tasks(before, free, ownership(members), diff.unassigned),
        existed_before=first and existed_before(diff.cause, before),
        derived=derived,
        change=_assignment_change(output, past),
        rack=rack,
        is_rack_empty=is_rack_empty,
    )


def _find_lost_rack(past: Sequence[MemberState], gone: Collection[str]) -> tuple[str, bool]:
    """Return the common rack of departed members (``""``: none), and whether no remaining member is in it."""
    racks = {member.rack_id for member in past if member.member_id in gone}
    rack = racks.pop() if len(racks) == 1 else None
    remaining_racks = {member.rack_id for member in past if member.member_id not in gone}
    return rack or "", bool(rack and remaining_racks) and rack not in remaining_racks and None not in remaining_racks


def _names(members: Sequence[MemberState], member_ids: set[str]) -> dict[str, MemberNames]:
    names: dict[str, MemberNames] = {}
    for member in reversed(members) if member_ids else ():  # new members are last
        if member.member_id in member_ids:
            names[member.member_id] = MemberNames(member.client_id, member.client_host, member.instance_id)
            if len(names) == len(member_ids):
                break
    return names


#: Generation of a polled round: no other evidence refers to the numbers that polling counts.
_UNKNOWN_GENERATION = -1


def _assignment_change(output: DiffOutput, past: Sequence[MemberState]) -> AssignmentChange | None:
    """Return the partitions that a round takes away and assigns; None if unknown."""
    decided, members, data = output.decided, output.diff.members, output.event.data
    if decided.kind != "consumer" or not isinstance(data, GroupObserved):
        return None
    if decided.protocol not in ("classic", "consumer"):
        return None
    modern = decided.protocol == "consumer"
    eager = not modern and decided.assignor != COOPERATIVE
    before = {member.member_id for member in past}
    after = {member.member_id for member in decided.members}
    renamed = set(_renamed_members(past, decided.members).values())
    taken: Holding = {}
    unowned_partitions: Holding = {}
    assigned: Holding = {}
    for member_id, change in members.items():
        if member_id in before and member_id in after:
            _add_partitions(taken, change.owned if eager else change.revoked)
        elif member_id in before or member_id in renamed:
            _add_partitions(unowned_partitions, change.owned)
        if eager or member_id in renamed or member_id not in before:
            _add_partitions(assigned, change.kept)
        _add_partitions(assigned, change.assigned)
    return AssignmentChange(
        number=_UNKNOWN_GENERATION if (at := _coordinator_time(data)) is None and data.polled else decided.generation,
        at=at,
        taken=taken,
        unowned_partitions=unowned_partitions,
        assigned=assigned,
        pending=pending_partitions(data.members) if modern else NOTHING if eager else taken,
        away=away_partitions(data.members) if modern else NOTHING,
        starts=not past and not any(item.source == events.COMPARISON for item in decided.cause.evidence),
    )


def _change_of_rejoin(event: Event, state: GroupState, renamed: Mapping[str, str]) -> AssignmentChange | None:
    """Return the assignment change of static members that rejoined without a round; ``state``: the group afterwards."""
    data = event.data
    if state.kind != "consumer" or not isinstance(data, GroupObserved):
        return None
    owned = collect_lists(member.owned for member in state.members if member.member_id in renamed.values())
    return AssignmentChange(
        number=_UNKNOWN_GENERATION if data.polled else state.generation,
        at=_coordinator_time(data),
        taken=NOTHING,
        unowned_partitions=owned,
        assigned=owned,
        pending=NOTHING if data.group_protocol == "classic" else pending_partitions(data.members),
        away=NOTHING,
    )


def downtime_evidence(event: Event, state: GroupState, *, is_replayed: bool) -> DowntimeEvidence | None:
    """Return an event's data if it is evidence of downtime, else None. ``is_replayed``: it led to a round."""
    data = event.data
    if state.kind != "consumer" or state.counted:
        return None  # members and records have Kafka's generations, which polling does not know
    match data:
        case events.PartitionsStopped() | events.AssignmentAcknowledged():
            return data
        case GroupObserved() if not is_replayed and data.group_protocol == "consumer":
            return data if _coordinator_time(data) is not None and (data.group_epoch or 0) >= state.generation else None
        case _:
            return None


def _coordinator_time(data: GroupObserved) -> int | None:
    """Return the time (ms) at which the coordinator wrote a snapshot; None if it is from polling or reports."""
    return None if any(item.source in (events.POLLING, REPORTED) for item in data.evidence) else data.timestamp


def _add_partitions(lists: Holding, share: Holding) -> None:
    for topic, partitions in share.items():
        lists.setdefault(topic, []).extend(partitions)
