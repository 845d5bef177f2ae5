"""What the stream tells a group's episode of partitions that stood still: from rounds, and from events beside them.

Of groups of consumers alone, and of none whose rounds are computed: what its coordinator did is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET

from streaming.episodes.stops import Callback, Pending, Told, Turned, Witness
from streaming.monitor.rendering import DiffOutput
from streaming.monitor.reported import SOURCE as REPORTED
from streaming.monitor.rounds import Untouched
from streaming.monitor.state import GroupState, MemberState
from streaming.wire.diffs import MemberDiff
from streaming.wire.events import AssignmentAcknowledged, Event, GroupObserved, Holding, PartitionsStopped

#: The one classic assignor under which members keep consuming what they keep.
_COOPERATIVE = "cooperative-sticky"
_NOTHING: Holding = {}
#: In place of a count of the collector by polling: no witness has it.
_NO_NUMBER = -1


def turned(output: DiffOutput, past: Sequence[MemberState], others: Untouched | None = None) -> Turned | None:
    """What a round stops and starts; None where nothing is known of that. ``past``: the members before it."""
    decided, members, data = output.decided, output.changes.members, output.event.data
    data = data if others is None else others.shown
    nobody = not past and (others is None or not others.size)
    if nobody or decided.kind != "consumer" or not isinstance(data, GroupObserved):
        return None
    if not isinstance(members, dict) or decided.protocol not in ("classic", "consumer"):
        return None
    modern = decided.protocol == "consumer"
    eager = not modern and decided.assignor != _COOPERATIVE
    there = {member.member_id for member in past}
    here = {member.member_id for member in decided.members}
    live: list[Holding] = []
    gone: list[Holding] = []
    started: list[Holding] = []
    returned = _returned(past, decided.members)
    for member_id, change in members.items():
        if member_id in there and member_id in here:
            live.append(change.owned if eager else change.revoked)
        elif member_id in there or member_id in returned:
            gone.append(change.owned)
        started += _started(change, whole=eager or member_id in returned)
    stopped = _together(live)
    pending = _pending(data) if modern else _NOTHING if eager else stopped
    return Turned(
        number=_NO_NUMBER if data.polled else decided.generation,
        at=_at(data),
        live=stopped,
        gone=_together(gone),
        started=_together(started),
        pending=pending,
    )


def returned(event: Event, state: GroupState, renamed: Mapping[str, str]) -> Turned | None:
    """What static members that came back without a round were away from: ``state`` is the group after it."""
    data = event.data
    if state.kind != "consumer" or not isinstance(data, GroupObserved):
        return None
    owned = _together([one.owned for one in state.members if one.member_id in renamed.values()])
    pending = _pending(data) if data.counts_epochs else _NOTHING
    return Turned(_NO_NUMBER if data.polled else state.generation, _at(data), _NOTHING, owned, owned, pending)


def told(
    event: Event, state: GroupState | None, *, played: bool, others: Untouched | None = None
) -> Told | None:
    """What an event tells beside rounds; ``played``: it has made one."""
    data = event.data if others is None else others.shown
    if state is None or (not state.observed and state.reports is None) or state.kind != "consumer":
        return None
    if state.counted:
        return None  # what members and records say has Kafka's numbers
    match data:
        case PartitionsStopped():
            number = data.generation if state.protocol == "classic" else data.group_epoch
            return None if number is None else Witness(data.source, number, data.stops)
        case AssignmentAcknowledged():
            revoked = _NOTHING if data.revoked is UNSET else data.revoked
            assigned = _NOTHING if data.assigned is UNSET else data.assigned
            return Callback(data.timestamp, data.generation, revoked, assigned)
        case GroupObserved() if not played and data.group_protocol == "consumer":
            at = _at(data)
            current = (data.group_epoch or 0) >= state.generation
            return Pending(at, _pending(data)) if at is not None and current else None
        case _:
            return None


def _at(data: GroupObserved) -> int | None:
    """When the coordinator wrote what a view shows; None of one that somebody else put together."""
    known = data.polled or any(item.source == REPORTED for item in data.evidence)
    return None if known else data.timestamp


def _started(change: MemberDiff, *, whole: bool) -> list[Holding]:
    return [change.kept, change.assigned] if whole else [change.assigned]


def _returned(past: Sequence[MemberState], members: Sequence[MemberState]) -> set[str]:
    """Static members under new ids: diffs know them by these in the past as well."""
    known = {member.instance_id: member.member_id for member in past if member.instance_id is not None}
    return {
        member.member_id
        for member in members
        if member.instance_id in known and known[member.instance_id] != member.member_id
    }


def _pending(data: GroupObserved) -> Holding:
    return _together([one.pending_revocation for one in data.members if one.pending_revocation])


def _together(shares: Iterable[Holding]) -> Holding:
    found: Holding = {}
    for share in shares:
        for topic, partitions in share.items():
            found.setdefault(topic, []).extend(partitions)
    return found
