"""Records of the topics: their decoding, and the summaries and changes of ownership in them.

Pure: a history rebuilt from the topics equals the one that grew live.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, field

from assignors.errors import BadInput
from streaming.episodes.status import StatusName
from streaming.records.codec import UNREADABLE, decode
from streaming.records.diffs import Cause, Diff, LatestAssignment
from streaming.records.events import Kind, Partitions
from streaming.records.names import called, who

_T = TypeVar("_T")

_diffs = msgspec.json.Decoder(Diff)
_assignments = msgspec.json.Decoder(LatestAssignment)


class UnusableRecord(BadInput):
    """The record is not what its topic holds."""


class TopicRecord(Struct, frozen=True):
    """One record of the topics; ``id`` is its ``ce_id``, ``type`` its ``ce_type``.

    ``timestamp``: when it was written (ms). ``happened``: the time of its event (``ce_time``, ms); 0 if not known.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    id: str | None
    timestamp: int = 0
    type: str = ""
    happened: int = 0


def round_of(record: TopicRecord) -> RoundSummary:
    """Return the summary of a record of the diff topic.

    Raises:
        UnusableRecord: it is none, or its header ``ce_id`` is missing.
    """
    if not record.id:
        raise UnusableRecord("header ce_id: missing")
    return summarise(record.id, decoded(_diffs, record.value))


def assignment_of(record: TopicRecord) -> tuple[str, LatestAssignment | None]:
    """Return the group of a record of the compacted topic, and its assignment; None if the group is gone.

    Raises:
        UnusableRecord: it is none, or is not of the group that the key names.
    """
    if record.key is None:
        raise UnusableRecord("key: missing")
    try:
        name = record.key.decode()
    except UnicodeDecodeError as error:
        raise UnusableRecord(f"key: {error}") from error
    if record.value is None:
        return name, None
    latest = decoded(_assignments, record.value)
    if latest.group_id != name:
        raise UnusableRecord(f"key: {name!r} is not the groupId {latest.group_id!r} of the value")
    return name, latest


def decoded(decoder: msgspec.json.Decoder[_T], value: bytes | None) -> _T:
    """Return the decoded value of a record.

    Raises:
        UnusableRecord: it is missing, or not what its topic holds.
    """
    if value is None:
        raise UnusableRecord("value: missing (null)")
    try:
        value.decode()  # decoders skip the text of unknown fields, which is served with the rest
        return decode(decoder, value)
    except UNREADABLE as error:
        raise UnusableRecord(f"value: {error}") from error


#: Kafka's group states, classic (`GroupState`) and consumer (`ConsumerGroup.ConsumerGroupState`).
StateName = Literal["PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead", "Assigning", "Reconciling"]

#: ``[owner or null, topic, partitions]``: these partitions belong to that owner from this round on.
OwnerChange = tuple[str | None, str, list[int]]


class RoundSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """One round without its partitions: a line in a list, a mark in a timeline. ``id`` is the diff's ``ce_id``.

    ``members`` counts who is in the group after the round, ``partitions`` what the group reads, ``unassigned``
    those of them that no member owns. ``names``: display names of the members that the cause names, or that gained
    or lost partitions, by member id; members without one are left out. Times are milliseconds since the epoch.
    """

    id: str
    group_id: str
    protocol: str
    assignor: str | None
    generation: int | None
    group_epoch: int | None
    round: int
    cause: Cause
    timestamp: int
    state: StateName
    members: int
    partitions: int
    unassigned: int
    moved: int
    violations: list[str]
    kind: Kind = "consumer"
    names: dict[str, str] = field(default_factory=dict)


class GroupSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a group after its latest round, and its totals since the history began.

    ``unavailableMs`` sums, over partitions, the time between the round that left a partition without an owner
    and the round that gave it one; a gap that is still open counts once it closes. ``rebalanceMs`` sums, over
    rebalances of more than one round (``timedRebalances``), the time from first to last round. ``cause`` is null
    while only the group's assignment is known. ``causes`` counts rounds by cause, ``rebalanceCauses`` rebalances by the
    cause of their first round. ``names`` has display names of the members that it names, and of
    awaited ones. ``causeMembers``: by cause, the display names of the members that its newest round names.
    ``status``: the worst that applies, ``since`` when (ms), with its ``reason`` and the ids of ``awaited`` members;
    ``state`` is the one by Kafka.
    """

    group_id: str
    state: StateName
    protocol: str
    assignor: str | None
    generation: int | None
    group_epoch: int | None
    round: int
    members: int
    partitions: int
    unassigned: int
    cause: Cause | None
    moved: int
    violations: list[str]
    timestamp: int
    kind: Kind = "consumer"
    seq: int = 0
    rounds: int = 0
    rebalances: int = 0
    moved_total: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    rebalance_causes: dict[str, int] = field(default_factory=dict)
    unavailable_ms: int = 0
    rebalance_started: int = 0
    rebalance_ms: int = 0
    timed_rebalances: int = 0
    names: dict[str, str] = field(default_factory=dict)
    cause_members: dict[str, str] = field(default_factory=dict)
    status: StatusName = "stable"
    since: int = 0
    reason: str | None = None
    awaited: list[str] = field(default_factory=list)


#: Fields that a group takes from its latest round.
_SHARED_FIELDS = [name for name in GroupSummary.__struct_fields__ if name in RoundSummary.__struct_fields__]
#: Fields that a round takes from its diff as they are.
_DIFF_FIELDS = {*RoundSummary.__struct_fields__}.intersection(Diff.__struct_fields__) - {
    "kind",
    "members",
    "unassigned",
}
#: The same of a group and its latest assignment.
_ASSIGNMENT_FIELDS = _DIFF_FIELDS.intersection(LatestAssignment.__struct_fields__)


def count(partitions: Partitions) -> int:
    """Return the number of partitions in ``{topic: partitions}``."""
    return sum(len(numbers) for numbers in partitions.values())


def _present(diff: Diff) -> int:
    if diff.cause.kind == "group.deleted":
        return 0
    others = 0 if diff.unchanged is UNSET else diff.unchanged
    return others + sum(member.present is not False for member in diff.members.values())


def _state(diff: Diff, members: int) -> StateName:
    """Return the state that Kafka would report: a round that left revoked partitions unassigned is not the last."""
    if diff.cause.kind == "group.deleted":
        return "Dead"
    if members == 0:
        return "Empty"
    revoked: set[tuple[str, int]] = set()
    for member in diff.members.values():
        revoked.update((topic, number) for topic, numbers in member.revoked.items() for number in numbers)
    pending = any((topic, number) in revoked for topic, numbers in diff.unassigned.items() for number in numbers)
    if not pending:
        return "Stable"
    return "PreparingRebalance" if diff.group_epoch is None else "Reconciling"


def _held(diff: Diff) -> int:
    shares = [share for member in diff.members.values() for share in (member.kept, member.assigned)]
    if diff.kind == "share":
        return len({(topic, number) for share in shares for topic in share for number in share[topic]})
    return sum(map(count, shares))


def summarise(ce_id: str, diff: Diff) -> RoundSummary:
    """Return the summary of a round."""
    members = _present(diff)
    unassigned = count(diff.unassigned)
    held = _held(diff) + (0 if diff.unchanged_partitions is UNSET else diff.unchanged_partitions)
    return RoundSummary(
        **{name: getattr(diff, name) for name in _DIFF_FIELDS},
        id=ce_id,
        state=_state(diff, members),
        members=members,
        partitions=held + unassigned,
        unassigned=unassigned,
        kind=diff.kind or "consumer",
        names=_names(diff),
    )


def _names(diff: Diff) -> dict[str, str]:
    return {
        member_id: name
        for member_id, name in called(diff.named).items()
        if member_id in diff.cause.member_ids
        or ((member := diff.members.get(member_id)) is not None and (member.assigned or member.revoked))
    }


def changes(diff: Diff) -> list[OwnerChange]:
    """The changes of ownership in a round: partitions given to members, then those left without an owner.

    Of several members that share a partition the one that was assigned it last is the owner; when that one gives
    it up, another that still has it is.
    """
    changed: list[OwnerChange] = _still_shared(diff) if diff.kind == "share" else []
    taken: set[tuple[str, int]] = {(topic, number) for _, topic, numbers in changed for number in numbers}
    for member_id, member in diff.members.items():
        for topic, numbers in member.assigned.items():
            changed.append((member_id, topic, numbers))
            taken.update((topic, number) for number in numbers)
    freed: dict[str, set[int]] = {}
    for member in diff.members.values():
        for topic, numbers in member.revoked.items():
            freed.setdefault(topic, set()).update(number for number in numbers if (topic, number) not in taken)
    for topic, numbers in diff.unassigned.items():
        freed.setdefault(topic, set()).update(numbers)
    changed.extend((None, topic, sorted(numbers)) for topic, numbers in sorted(freed.items()) if numbers)
    return changed


def _still_shared(diff: Diff) -> list[OwnerChange]:
    """Members that keep what another one gives up."""
    given_up: dict[str, set[int]] = {}
    for member in diff.members.values():
        for topic, numbers in member.revoked.items():
            given_up.setdefault(topic, set()).update(numbers)
    return [
        (member_id, topic, shared)
        for member_id, member in diff.members.items()
        for topic, numbers in member.kept.items()
        if (shared := [number for number in numbers if number in given_up.get(topic, ())])
    ]


def advance(group: GroupSummary | None, seq: int, round_: RoundSummary) -> GroupSummary:
    """Return the group after one more round."""
    elapsed = max(0, round_.timestamp - group.timestamp) if group and group.rounds else 0
    follow_up = group is not None and group.rounds > 0 and round_.round > 1
    current = {name: getattr(round_, name) for name in _SHARED_FIELDS}
    current["names"] = {
        member_id: name for member_id, name in round_.names.items() if member_id in round_.cause.member_ids
    }
    newest = {round_.cause.kind: who(round_.cause.member_ids, round_.names)}
    named = (group.cause_members if group else {}) | newest
    return GroupSummary(
        **current,
        seq=seq,
        rounds=(group.rounds if group else 0) + 1,
        rebalances=(group.rebalances if group else 0) + (not follow_up),
        moved_total=(group.moved_total if group else 0) + round_.moved,
        causes=_counted(group.causes if group else {}, round_),
        rebalance_causes=_counted(group.rebalance_causes if group else {}, round_, 0 if follow_up else 1),
        unavailable_ms=(group.unavailable_ms + group.unassigned * elapsed) if group else 0,
        rebalance_started=group.rebalance_started if group and follow_up else round_.timestamp,
        rebalance_ms=(group.rebalance_ms if group else 0) + (elapsed if follow_up else 0),
        # A rebalance of a single round has no known beginning.
        timed_rebalances=(group.timed_rebalances + (follow_up and group.round == 1)) if group else 0,
        cause_members={cause: text for cause, text in named.items() if text},
    )


def after_round(group: GroupSummary, seq: int, round_: RoundSummary) -> GroupSummary:
    """Return the group as it was after one of its rounds; its totals stay."""
    shared = {name: getattr(round_, name) for name in _SHARED_FIELDS}
    shared["names"] = {one: name for one, name in round_.names.items() if one in round_.cause.member_ids}
    return msgspec.structs.replace(group, **shared, seq=seq)


def count_older(group: GroupSummary, round_: RoundSummary) -> GroupSummary:
    """Return the group with an older round added to its totals."""
    return msgspec.structs.replace(
        group,
        rounds=group.rounds + 1,
        rebalances=group.rebalances + (round_.round == 1),
        moved_total=group.moved_total + round_.moved,
        causes=_counted(group.causes, round_),
        rebalance_causes=_counted(group.rebalance_causes, round_, int(round_.round == 1)),
    )


def _counted(causes: dict[str, int], round_: RoundSummary, number: int = 1) -> dict[str, int]:
    return causes | {round_.cause.kind: causes.get(round_.cause.kind, 0) + number} if number else causes


def with_assignment(group: GroupSummary | None, latest: LatestAssignment) -> GroupSummary:
    """Return the group with its latest assignment, the only source when its rounds are gone."""
    held = sum(count(partitions) for partitions in latest.members.values())
    if group is not None and group.rounds:
        if latest.timestamp < group.timestamp or group.state == "Dead":
            return group
        return msgspec.structs.replace(group, members=len(latest.members))
    return GroupSummary(
        **{name: getattr(latest, name) for name in _ASSIGNMENT_FIELDS},
        state="Stable" if latest.members else "Empty",
        round=0,
        members=len(latest.members),
        partitions=held,
        unassigned=0,
        cause=None,
        moved=0,
        violations=[],
        kind=latest.kind or "consumer",
    )
