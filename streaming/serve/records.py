"""Decoding of records of the topics, and the summaries and changes of ownership computed from these records.

The module is pure, so a history rebuilt from the topics equals the history that was written live.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field, structs

from assignors.assignment import size
from assignors.errors import BadInput
from streaming.episodes.status import StatusName
from streaming.records.codec import DECODE_ERRORS, decode
from streaming.records.diffs import Cause, Diff, LatestAssignment, assignment_decoder, diff_decoder
from streaming.records.events import Holding, Kind
from streaming.records.names import display_names, names_text

_T = TypeVar("_T")


class UnusableRecord(BadInput):
    """A record of a topic has no valid value, key or id."""


class TopicRecord(Struct, frozen=True):
    """One record of the topics; ``id`` is its ``ce_id``, ``type`` its ``ce_type``.

    ``timestamp``: when the record was written (ms). ``event_ms``: time of its event (``ce_time``, ms); 0 if unknown.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    id: str | None
    timestamp: int = 0
    type: str = ""
    event_ms: int = 0


def parse_round(record: TopicRecord) -> "RoundSummary":
    """Return the summary of a record of the diff topic; raise UnusableRecord if it has no diff or no ``ce_id``."""
    if not record.id:
        raise UnusableRecord("header ce_id: missing")
    return summarise(record.id, decode_value(diff_decoder, record.value))


def parse_assignment(record: TopicRecord) -> tuple[str, LatestAssignment | None]:
    """Return group and latest assignment (None: deleted) of a record; raise UnusableRecord if the key is wrong."""
    if record.key is None:
        raise UnusableRecord("key: missing")
    try:
        name = record.key.decode()
    except UnicodeDecodeError as error:
        raise UnusableRecord(f"key: {error}") from error
    if record.value is None:
        return name, None
    latest = decode_value(assignment_decoder, record.value)
    if latest.group_id != name:
        raise UnusableRecord(f"key: {name!r} is not the groupId {latest.group_id!r} of the value")
    return name, latest


def decode_value(decoder: msgspec.json.Decoder[_T], value: bytes | None) -> _T:
    """Return the decoded value of a record; raise UnusableRecord if it is missing or malformed."""
    if value is None:
        raise UnusableRecord("value: missing (null)")
    try:
        value.decode()  # decoders skip the text of unknown fields, but the API returns the whole value
        return decode(decoder, value)
    except DECODE_ERRORS as error:
        raise UnusableRecord(f"value: {error}") from error


#: Kafka's states of classic groups (`GroupState`) and of consumer groups (`ConsumerGroup.ConsumerGroupState`).
StateName = Literal["PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead", "Assigning", "Reconciling"]
#: ``[owner or null, topic, partitions]``: these partitions belong to that owner from this round on.
OwnerChange = tuple[str | None, str, list[int]]


class _RoundState(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a group after a round.

    ``members`` counts the members, ``partitions`` the partitions that the group consumes, and ``unassigned`` those that
    no member owns. ``timestamp`` is milliseconds since the epoch.
    """

    group_id: str
    protocol: str
    assignor: str | None
    generation: int | None
    group_epoch: int | None
    round: int
    timestamp: int
    state: StateName
    members: int
    partitions: int
    unassigned: int
    moved: int
    violations: list[str]
    kind: Kind = "consumer"
    names: dict[str, str] = field(default_factory=dict)


class RoundSummary(_RoundState, frozen=True, kw_only=True):
    """One round without its partitions, for lists and timelines. ``id`` is the diff's ``ce_id``.

    ``names``: display names, by member id, of the members that the cause names or that gained or lost partitions.
    """

    id: str
    cause: Cause


class GroupSummary(_RoundState, frozen=True, kw_only=True):
    """The state of a group after its latest round, and its totals since the history began. Times are milliseconds.

    ``unavailableMs`` sums, over partitions, the time between the round that left a partition without an owner and the
    round that gave it one; a gap that is still open counts once it closes. ``rebalanceMs`` sums, over rebalances of
    more than one round (``timedRebalances``), the time from first to last round. ``cause`` is null while only the
    group's assignment is known. ``causes`` counts rounds by cause, ``rebalanceCauses`` rebalances by the cause of their
    first round. ``names`` has display names of the members that ``cause`` names, and of awaited ones. ``causeMembers``:
    by cause, the display names of the members that its newest round names. ``status``: the worst that applies, with its
    begin (``since``), its ``reason`` and the ids of ``awaited`` members; ``state`` is Kafka's.
    """

    cause: Cause | None
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
    cause_members: dict[str, str] = field(default_factory=dict)
    status: StatusName = "stable"
    since: int = 0
    reason: str | None = None
    awaited: list[str] = field(default_factory=list)


#: Fields that a round takes unchanged from its diff.
_DIFF_FIELDS = {*RoundSummary.__struct_fields__} & {*Diff.__struct_fields__} - {"kind", "members", "unassigned"}
#: Fields that a group takes unchanged from its latest assignment.
_ASSIGNMENT_FIELDS = _DIFF_FIELDS.intersection(LatestAssignment.__struct_fields__)


def places(holding: Holding) -> Iterator[tuple[str, int]]:
    """Yield each partition as ``(topic, number)``."""
    return ((topic, number) for topic, numbers in holding.items() for number in numbers)


def _revoked_partitions(diff: Diff) -> set[tuple[str, int]]:
    return {place for member in diff.members.values() for place in places(member.revoked)}


def _state(diff: Diff, members: int) -> StateName:
    """Return Kafka's name for the group's state; while a revoked partition is unassigned, the rebalance continues."""
    if diff.cause.kind == "group.deleted":
        return "Dead"
    if members == 0:
        return "Empty"
    if _revoked_partitions(diff).isdisjoint(places(diff.unassigned)):
        return "Stable"
    return "PreparingRebalance" if diff.group_epoch is None else "Reconciling"


def summarise(ce_id: str, diff: Diff) -> RoundSummary:
    """Return the summary of the round in a diff."""
    members = 0
    if diff.cause.kind != "group.deleted":
        members = (diff.unchanged or 0) + sum(member.present is not False for member in diff.members.values())
    shares = [share for member in diff.members.values() for share in (member.kept, member.assigned)]
    if diff.kind == "share":  # several members may own a partition
        owned = len({place for share in shares for place in places(share)})
    else:
        owned = sum(map(size, shares))
    unassigned = size(diff.unassigned)
    concerned = {member_id for member_id, member in diff.members.items() if member.assigned or member.revoked}
    concerned |= {*diff.cause.member_ids}
    return RoundSummary(
        **{name: getattr(diff, name) for name in _DIFF_FIELDS},
        id=ce_id,
        state=_state(diff, members),
        members=members,
        partitions=owned + unassigned + (diff.unchanged_partitions or 0),
        unassigned=unassigned,
        kind=diff.kind or "consumer",
        names={member_id: name for member_id, name in display_names(diff.named).items() if member_id in concerned},
    )


def changes(diff: Diff) -> list[OwnerChange]:
    """Return a round's new owners of partitions, then its partitions without an owner.

    The owner of a shared partition is the member to which it was assigned last. When that member gives the partition
    up, another member that still owns the partition becomes its owner.
    """
    revoked = _revoked_partitions(diff)
    changed: list[OwnerChange] = []
    if diff.kind == "share":
        changed += [
            (member_id, topic, shared)
            for member_id, member in diff.members.items()
            for topic, numbers in member.kept.items()
            if (shared := [number for number in numbers if (topic, number) in revoked])
        ]
    changed += [
        (member_id, topic, numbers)
        for member_id, member in diff.members.items()
        for topic, numbers in member.assigned.items()
    ]
    taken = {(topic, number) for _, topic, numbers in changed for number in numbers}
    unowned = sorted((revoked - taken).union(places(diff.unassigned)))
    changed += [(None, topic, [number for _, number in group]) for topic, group in groupby(unowned, itemgetter(0))]
    return changed


def _group_fields(round_: RoundSummary) -> dict[str, Any]:
    """Return the fields of a group after a round. ``names`` has only names of members in the cause."""
    fields = structs.asdict(round_)
    del fields["id"]
    named = {member_id: name for member_id, name in round_.names.items() if member_id in round_.cause.member_ids}
    return fields | {"names": named}


def advance(group: GroupSummary | None, seq: int, round_: RoundSummary) -> GroupSummary:
    """Return the state of a group after its next round."""
    fields = _group_fields(round_)
    if group is None or not group.rounds:
        group = GroupSummary(**fields)
    elapsed = max(0, round_.timestamp - group.timestamp)
    is_follow_up = group.rounds > 0 and round_.round > 1
    newest = {round_.cause.kind: names_text(round_.cause.member_ids, round_.names)}
    return structs.replace(
        count_round(group, round_, is_first=not is_follow_up),
        **fields,
        seq=seq,
        unavailable_ms=group.unavailable_ms + group.unassigned * elapsed,
        rebalance_started=group.rebalance_started if is_follow_up else round_.timestamp,
        rebalance_ms=group.rebalance_ms + (elapsed if is_follow_up else 0),
        # If a rebalance has a single round, its beginning is unknown.
        timed_rebalances=group.timed_rebalances + (is_follow_up and group.round == 1),
        cause_members={cause: text for cause, text in (group.cause_members | newest).items() if text},
    )


def apply_round(group: GroupSummary, seq: int, round_: RoundSummary) -> GroupSummary:
    """Return the group's state after an older round, but with its current totals."""
    return structs.replace(group, **_group_fields(round_), seq=seq)


def count_round(group: GroupSummary, round_: RoundSummary, *, is_first: bool) -> GroupSummary:
    """Return the group with a round added to its totals, and with a rebalance added if the round is its first."""
    kind = round_.cause.kind
    causes, starts = (counts | {kind: counts.get(kind, 0) + 1} for counts in (group.causes, group.rebalance_causes))
    return structs.replace(
        group,
        rounds=group.rounds + 1,
        rebalances=group.rebalances + is_first,
        moved_total=group.moved_total + round_.moved,
        causes=causes,
        rebalance_causes=starts if is_first else group.rebalance_causes,
    )


def apply_assignment(group: GroupSummary | None, latest: LatestAssignment) -> GroupSummary:
    """Return a group's summary updated by its latest assignment, or built from it if the group has no rounds."""
    if group is not None and group.rounds:
        if latest.timestamp < group.timestamp or group.state == "Dead":
            return group
        return structs.replace(group, members=len(latest.members))
    return GroupSummary(
        **{name: getattr(latest, name) for name in _ASSIGNMENT_FIELDS},
        state="Stable" if latest.members else "Empty",
        round=0,
        members=len(latest.members),
        partitions=sum(map(size, latest.members.values())),
        unassigned=0,
        cause=None,
        moved=0,
        violations=[],
        kind=latest.kind or "consumer",
    )
