"""Rounds are played here, once, whoever decided them: what a group is after one, and its diff."""

from __future__ import annotations

from msgspec import structs

from streaming.monitor import expected
from streaming.monitor.observed import Seen
from streaming.monitor.rendering import AssignmentOutput, DiffOutput, Output, diff_output
from streaming.monitor.rounds import Round, Untouched, changes
from streaming.monitor.state import GroupState
from streaming.wire.events import Event, GroupObserved


def play(
    state: GroupState, event: Event, decided: Round, others: Untouched | None = None
) -> tuple[GroupState, DiffOutput]:
    """The group after a round, and its diff. ``others``: members that neither of them has."""
    after = {
        "protocol": decided.protocol,
        "assignor": decided.assignor,
        "generation": decided.generation,
        "members": decided.members,
        "round": decided.number,
        "cause": decided.cause,
        "timestamp": event.data.timestamp,
    }
    changed = decided.changes or changes(
        structs.replace(state, **after), decided.before, state.members, decided.tasks, others
    )
    # A derived group is at rest between events: what follows from its last round has been played.
    revoked = changed.revoked and state.observed
    state = structs.replace(state, **after, last_owners=changed.last_owners, revoked=revoked)
    return state, diff_output(event, decided, changed)


def show(
    event: Event, data: GroupObserved, seen: Seen, most: int, others: Untouched | None = None
) -> tuple[GroupState, tuple[Output, ...]]:
    """The group after a view of it, and what to write. ``most``: see :func:`streaming.monitor.group.apply`."""
    if seen.round is None:
        return seen.state, ((AssignmentOutput(event, seen.state),) if seen.latest else ())
    state = structs.replace(seen.state, assigning=most > 0 and expected.assigning(data))
    state, diff = play(state, event, seen.round, others)
    return state, (diff, AssignmentOutput(event, state))
