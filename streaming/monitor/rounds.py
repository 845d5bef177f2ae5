"""One round: what was decided, and what that changes for each member.

Whatever the protocol, a round is a set difference: for every member kept = owned − revoked and
after = kept + assigned. An eager member stops everything in between; what it gets back still counts as kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import UNSET, UnsetType, structs

from assignors.diff import ShareDiff, as_lists, diff
from assignors.model import Share
from assignors.shares import held, minus, unassigned
from streaming.episodes.moves import moves
from streaming.monitor import violations
from streaming.monitor.state import (
    NOTHING,
    GroupState,
    LastOwners,
    MemberState,
    Ownership,
    ownership,
    subscribed,
)
from streaming.wire.diffs import Cause, Expected, MemberDiff
from streaming.wire.events import Holding, Kind, Partitions

#: Who is not known by more than its id.
_NOBODY = MemberState("", [])


class Changes(NamedTuple):
    """What a round changes.

    Attributes:
        members: by member id, those that are gone last.
        unassigned: partitions of subscribed topics, or tasks that exist, that nobody owns after the round.
        moves: partitions that another member than their last owner got.
        violations: what the result breaks, as lines for people.
        last_owners: those of the partitions that nobody owns now.
        revoked: whether members that stayed gave something up.
    """

    members: dict[str, MemberDiff]
    unassigned: Holding
    moves: Partitions
    violations: list[str]
    last_owners: LastOwners
    revoked: bool


class Round(NamedTuple):
    """One round as decided.

    Attributes:
        number: within its rebalance, from 1.
        generation: or the group epoch.
        members: after the round, with what they own then.
        before: what each member owned, those that are gone included.
        kind: of the group.
        tasks: those that exist and that no member may own, where members own tasks; None where they own partitions.
        expected: what its assignor should have made of it; UNSET: that is not asked.
        touched: members that changed otherwise than in what they own: a new id, other standby tasks.
    """

    number: int
    generation: int
    protocol: str
    assignor: str | None
    cause: Cause
    members: tuple[MemberState, ...]
    before: Ownership
    kind: Kind = "consumer"
    tasks: Share | None = None
    expected: Expected | UnsetType = UNSET
    touched: frozenset[str] = frozenset()


def changes(
    state: GroupState,
    before: Ownership,
    past: Iterable[MemberState] = (),
    tasks: Share | None = None,
) -> Changes:
    """Return what a round changes. ``state`` is the group after it, with the ``last_owners`` from before it.

    ``past``: the members before it, as those that are gone have names too. ``tasks``: see :class:`Round`.
    """
    after = ownership(state.members)
    known = {member.member_id: member for member in (*past, *state.members)}
    members: dict[str, MemberDiff] = {}
    changed = revoked = False
    for member_id in after if after.keys() >= before.keys() else dict.fromkeys((*after, *before)):
        owned = before.get(member_id, NOTHING)
        now = after.get(member_id, NOTHING)
        change = ShareDiff(NOTHING, NOTHING, owned) if owned is now or owned == now else diff(owned, now)
        present = member_id in after
        member = known.get(member_id, _NOBODY)
        members[member_id] = MemberDiff(
            owned=owned,
            revoked=change.revoked,
            assigned=change.assigned,
            kept=change.kept,
            present=present,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
        )
        if change.revoked or change.assigned:
            changed = True
            revoked = revoked or bool(change.revoked and present)
    last_owners, moved = moves(state.last_owners, members) if changed else (state.last_owners, {})
    owned_by_topic = held(after.values())
    if tasks is None:
        counts = {name: topic.partitions for name, topic in state.topics.items()}
        free = unassigned(subscribed(state.members), counts, owned_by_topic)
    else:
        free = as_lists(minus(tasks, owned_by_topic))
        last_owners = _among(last_owners, free)
    if state.kind == "share":
        last_owners = _without(last_owners, owned_by_topic)
    if state.kind == "streams":
        members = _with_standby(state, members)
    return Changes(
        members,
        free,
        moved,
        violations.violations_of(state, owned_by_topic),
        last_owners,
        revoked,
    )


def _among(last_owners: LastOwners, free: Holding) -> LastOwners:
    """Those of what is free; the last owners of tasks that exist no more are forgotten."""
    return {
        name: {number: last_owners[name][number] for number in numbers if number in last_owners[name]}
        for name, numbers in free.items()
        if not last_owners.get(name, {}).keys().isdisjoint(numbers)
    }


def _without(last_owners: LastOwners, owned: Holding) -> LastOwners:
    """Those of what nobody owns: where several may own a partition, one of them may have given it up."""
    left = {
        name: {number: owner for number, owner in owners.items() if number not in owned.get(name, ())}
        for name, owners in last_owners.items()
    }
    return {name: owners for name, owners in left.items() if owners}


def _with_standby(state: GroupState, members: Mapping[str, MemberDiff]) -> dict[str, MemberDiff]:
    """The changes with the standby and warm-up tasks that members have after the round."""
    return {
        member_id: structs.replace(
            change, standby=state.standby.get(member_id, UNSET), warmup=state.warmup.get(member_id, UNSET)
        )
        for member_id, change in members.items()
    }
