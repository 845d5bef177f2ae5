"""Rounds are played here, once, whoever decided them: what a group is after one, and its diff."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from msgspec import structs

from streaming.monitor import expected
from streaming.monitor.observed import Seen
from streaming.monitor.rendering import AssignmentOutput, DiffOutput, Output, output_id
from streaming.monitor.rounds import Round, changes
from streaming.monitor.state import GroupState
from streaming.wire.diffs import Cause, MemberNames
from streaming.wire.events import Event, GroupObserved

#: Departed members whose names are kept.
_DEPARTED: Final = 32
#: Causes that refer to more members are told by their number.
_MOST_NAMED: Final = 16


def play(state: GroupState, event: Event, decided: Round) -> tuple[GroupState, DiffOutput]:
    """Apply a decided round to the group; return the group after it, and its diff."""
    past = state.members
    after = {
        "protocol": decided.protocol,
        "assignor": decided.assignor,
        "generation": decided.generation,
        "members": decided.members,
        "round": decided.number,
        "cause": decided.cause,
        "timestamp": event.data.timestamp,
    }
    changed = changes(structs.replace(state, **after), decided.before, past, decided.tasks)
    # A derived group is at rest between events: what follows from its last round has been played.
    revoked = changed.revoked and state.observed
    departed = _departed(state, decided)
    decided = decided._replace(cause=_named(decided, departed))
    state = structs.replace(
        state, **after, last_owners=changed.last_owners, revoked=revoked, departed=departed
    )
    return state, DiffOutput(output_id(event, decided.number), event, decided, changed, past)


def _departed(state: GroupState, decided: Round) -> dict[str, MemberNames]:
    """Return the names of the members that departed last, those of this round included."""
    known = state.departed
    if not known.keys().isdisjoint(decided.before):  # some are back
        known = {one: names for one, names in known.items() if one not in decided.before}
    if len(decided.before) == len(decided.members):
        return known
    here = {member.member_id for member in decided.members}
    gone = {
        member.member_id: MemberNames(
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
        )
        for member in state.members
        if member.member_id not in here and (member.client_id or member.instance_id)
    }
    return dict([*known.items(), *gone.items()][-_DEPARTED:]) if gone else known


def _named(decided: Round, departed: Mapping[str, MemberNames]) -> Cause:
    """Return the cause with the names of those that it refers to and that its diff does not have."""
    cause = decided.cause
    if not departed:
        return cause
    ids = [*chain(cause.member_ids, *(item.member_ids for item in cause.evidence))]
    if len(ids) > _MOST_NAMED:
        return cause
    names = {one: departed[one] for one in ids if one in departed and one not in decided.before}
    return structs.replace(cause, names=names) if names else cause


def show(event: Event, data: GroupObserved, seen: Seen, most: int) -> tuple[GroupState, tuple[Output, ...]]:
    """The group after a view of it, and what to write. ``most``: see :func:`streaming.monitor.group.apply`."""
    if seen.round is None:
        return seen.state, ((AssignmentOutput(event, seen.state),) if seen.latest else ())
    state = structs.replace(seen.state, assigning=most > 0 and expected.assigning(data))
    state, diff = play(state, event, seen.round)
    return state, (diff, AssignmentOutput(event, state))
