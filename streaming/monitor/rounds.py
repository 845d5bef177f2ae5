"""Application of a rebalance round to the group's state, and the diff of each member.

Under every protocol a round is a set difference: kept = owned − revoked and after = kept + assigned.
A partition that an eager member gets back counts as kept, though the member stops consuming it in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from msgspec import UNSET, UnsetType, structs

from assignors import assignment, invariants
from assignors.assignment import AssignmentDiff, LastOwners, unassigned
from assignors.model import Member, Topic, TopicPartitions
from streaming.monitor.state import (
    NOTHING,
    GroupState,
    MemberState,
    Ownership,
    PriorState,
    filter_last_owners,
    names_of,
    ownership,
    subscribed,
)
from streaming.records.diffs import Cause, Diff, Expected, MemberDiff, MemberNames, Undelivered
from streaming.records.events import EventData, GroupObserved, Holding, Kind, Partitions

#: The number of departed members whose names are kept.
_MAX_DEPARTED_NAMES: Final = 32
#: A cause with more members than this has no member names.
_MAX_NAMED_MEMBERS: Final = 16
#: Names of a member of which only the id is known.
_UNNAMED_MEMBER = MemberState("", [])


class Round(NamedTuple):
    """One rebalance round of a group, before it is applied.

    Attributes:
        number: number of the round within its rebalance, from 1.
        generation: generation or group epoch.
        members: members after the round.
        before: partitions that each member owned, departed members included.
        tasks: existing tasks, owned or not; None if members own partitions.
        expected: comparison with the assignor's result; UNSET if there is none.
        changed: members with other changes than partitions: a new id, standby tasks, an undelivered assignment.
        undelivered: the previous generation if it was not delivered.
    """

    number: int
    generation: int
    protocol: str
    assignor: str | None
    cause: Cause
    members: tuple[MemberState, ...]
    before: Ownership
    kind: Kind = "consumer"
    tasks: TopicPartitions | None = None
    expected: Expected | UnsetType = UNSET
    changed: frozenset[str] = frozenset()
    undelivered: Undelivered | UnsetType = UNSET


def apply_round(state: GroupState, data: EventData, decided: Round) -> tuple[GroupState, Diff, Partitions]:
    """Apply a rebalance round; return the group after the round, the diff, and the moved partitions.

    ``data``: data of the event that caused the round. Moved partitions have a new owner that is not their last owner.
    """
    departed = _departed_names(state, decided)
    after = structs.replace(
        state,
        protocol=decided.protocol,
        assignor=decided.assignor,
        generation=decided.generation,
        members=decided.members,
        round=decided.number,
        cause=decided.cause,
        timestamp=data.timestamp,
        departed=departed,
    )
    members = _member_diffs(after, decided, state.members)
    changes = {member_id: change for member_id, change in members.items() if change.revoked or change.assigned}
    last_owners, moved = assignment.track_owners(state.last_owners, members) if changes else (state.last_owners, {})
    owned_by_topic = assignment.collect_lists([member.owned for member in after.members])
    free, last_owners = _unassigned_partitions(after, decided.tasks, owned_by_topic, last_owners)
    epochs = decided.protocol != "classic"
    diff = Diff(
        group_id=data.group_id,
        protocol=decided.protocol,
        assignor=decided.assignor,
        generation=None if epochs else decided.generation,
        group_epoch=decided.generation if epochs else None,
        round=decided.number,
        cause=_cause_with_names(decided, departed),
        timestamp=data.timestamp,
        members=members,
        unassigned=free,
        moved=sum(map(len, moved.values())),
        violations=violations_of(after, owned_by_topic),
        kind=UNSET if decided.kind == "consumer" else decided.kind,
        delay_ms=data.delay_ms if isinstance(data, GroupObserved) else UNSET,
        expected=decided.expected,
        undelivered=decided.undelivered,
    )
    prior = None
    if state.observed and not epochs:  # rounds of all other protocols are surely delivered
        prior = PriorState({member_id: change.owned for member_id, change in changes.items()}, state.last_owners)
    # All rounds of a derived group's rebalance are applied at once, so no round follows later.
    revoked = state.observed and any(change.revoked and change.present for change in changes.values())
    return structs.replace(after, last_owners=last_owners, revoked=revoked, prior=prior), diff, moved


def _member_diffs(state: GroupState, decided: Round, past: Iterable[MemberState]) -> dict[str, MemberDiff]:
    """Return the change of each member, departed members last. ``state``: the group after the round.

    ``past``: the members before the round, for the names of departed members.
    """
    before = decided.before
    after = {member.member_id: member.owned for member in state.members}
    states = {member.member_id: member for member in (*past, *state.members)}
    members: dict[str, MemberDiff] = {}
    streams = state.kind == "streams"
    ids = {**after, **before}
    changed_ids = [member_id for member_id in ids if before.get(member_id, NOTHING) != after.get(member_id, NOTHING)]
    shares = ({member_id: side.get(member_id, NOTHING) for member_id in changed_ids} for side in (before, after))
    changes = assignment.diff_members(*shares)
    for member_id in ids:
        owned = before.get(member_id, NOTHING)
        change = changes.get(member_id) or AssignmentDiff(NOTHING, NOTHING, owned)
        member = states.get(member_id, _UNNAMED_MEMBER)
        members[member_id] = MemberDiff(
            owned=owned,
            revoked=change.revoked,
            assigned=change.assigned,
            kept=change.kept,
            present=member_id in after,
            standby=state.standby.get(member_id, UNSET) if streams else UNSET,
            warmup=state.warmup.get(member_id, UNSET) if streams else UNSET,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
        )
    return members


def _unassigned_partitions(
    state: GroupState, tasks: TopicPartitions | None, owned_by_topic: Holding, last_owners: LastOwners
) -> tuple[Holding, LastOwners]:
    """Return partitions of subscribed topics (or, if set, of ``tasks``) that have no owner, and their last owners."""
    if tasks is None:
        counts = {name: topic.partitions for name, topic in state.topics.items()}
        free = unassigned(subscribed(state.members), counts, owned_by_topic)
    else:
        free = assignment.as_lists(assignment.subtract(tasks, owned_by_topic))
        last_owners = {
            name: {number: last_owners[name][number] for number in numbers if number in last_owners[name]}
            for name, numbers in free.items()
            if not last_owners.get(name, {}).keys().isdisjoint(numbers)
        }
    return free, remaining_last_owners(last_owners, owned_by_topic) if state.kind == "share" else last_owners


def remaining_last_owners(last_owners: LastOwners, owned: Holding) -> LastOwners:
    """Return the last owners of the partitions that have no owner now."""
    return filter_last_owners(last_owners, lambda topic, partition: partition not in owned.get(topic, ()))


def _departed_names(state: GroupState, decided: Round) -> dict[str, MemberNames]:
    departed = state.departed
    if not departed.keys().isdisjoint(decided.before):  # some of these partitions have an owner again
        departed = {member_id: names for member_id, names in departed.items() if member_id not in decided.before}
    if len(decided.before) == len(decided.members):
        return departed
    present = {member.member_id for member in decided.members}
    named = (member for member in state.members if member.client_id or member.instance_id)
    gone = names_of(member for member in named if member.member_id not in present)
    return dict([*departed.items(), *gone.items()][-_MAX_DEPARTED_NAMES:]) if gone else departed


def _cause_with_names(decided: Round, departed: Mapping[str, MemberNames]) -> Cause:
    cause = decided.cause
    ids = [*chain(cause.member_ids, *(item.member_ids for item in cause.evidence))] if departed else []
    unknown_members = [member_id for member_id in ids if member_id not in decided.before]
    names = {member_id: departed[member_id] for member_id in unknown_members if member_id in departed}
    return structs.replace(cause, names=names) if names and len(ids) <= _MAX_NAMED_MEMBERS else cause


def violations_of(state: GroupState, owned_by_topic: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the violations as text: partitions with two owners, without a subscription, or beyond the partition count.

    Members of a share group may own the same partitions. Tasks of Connect and of streams groups have neither
    subscriptions nor counts, so only a second owner is a violation.
    """
    if state.kind == "connect" or state.protocol == "streams":
        has_repeat = any(len(set(numbers)) != len(numbers) for numbers in owned_by_topic.values())
        return [violation.message for violation in invariants.check_one(ownership(state.members))] if has_repeat else []
    if _has_no_violation(state, owned_by_topic):
        return []
    topics = {name: Topic(name, topic.partitions) for name, topic in state.topics.items() if topic.partitions}
    for member in state.members:
        for name, partitions in member.owned.items():
            if not _count(state, name):  # the count is unknown: all owned partitions count as existing
                topics[name] = Topic(name, max(partitions[-1] + 1, topics[name].partitions if name in topics else 0))
    # A member whose subscription could not be decoded has no topics.
    members = [Member(member.member_id, tuple(member.topics or member.owned)) for member in state.members]
    owned = ownership(state.members)
    # A check of one member at a time can't find a second owner.
    each = [members] if state.kind != "share" else [[member] for member in members]
    groups = [
        invariants.make_group(
            state.protocol,
            state.assignor or "",
            topics,
            checked_members,
            {member.member_id: owned[member.member_id] for member in checked_members},
        )
        for checked_members in each
    ]
    return [violation.message for group in groups for violation in invariants.check_assigned(group)]


def _count(state: GroupState, topic: str) -> int:
    return state.topics[topic].partitions if topic in state.topics else 0


def _has_no_violation(state: GroupState, owned: Mapping[str, Sequence[int]]) -> bool:
    has_single_owners = state.kind != "share"
    for topic, partitions in owned.items():
        has_duplicates = has_single_owners and len(set(partitions)) != len(partitions)
        if has_duplicates or max(partitions) >= _count(state, topic) > 0:
            return False
    return all(not member.topics or set(member.topics).issuperset(member.owned) for member in state.members)
