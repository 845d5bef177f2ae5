"""Views of large groups that say only what changed, and the views that they follow from.

Of a large group with epochs a collector tells in full what it sees now and then; between two full views stand
``group.changed`` events, each of which names the view before. A group keeps the last view that may be followed, so
that each change gives the view that the collector had, and is applied as that. What does not follow from the view
that is known changes nothing: the job asks for a full one.
"""

from __future__ import annotations

from msgspec import structs

from streaming.monitor.state import GroupState, LastView
from streaming.wire.events import Event, GroupChanged, GroupObserved


def whole(state: GroupState | None, event: Event) -> Event | None:
    """The event, a change as the full view that it gives; None: the view that it follows from is not known."""
    data = event.data
    if not isinstance(data, GroupChanged):
        return event
    view = state.view if state is not None else None
    if view is None or not follows(view, event):
        return None
    return Event(event.source, event.id, data.view(view.members))


def follows(view: LastView, event: Event) -> bool:
    """Whether a change follows from this view."""
    data = event.data
    return isinstance(data, GroupChanged) and (view.source, view.id) == (event.source, data.since)


def keep(state: GroupState, event: Event) -> GroupState:
    """The group with what later changes follow from, after a full view of it."""
    data = event.data
    if not isinstance(data, GroupObserved):
        return state
    if data.followed is True:
        return structs.replace(state, view=LastView(event.source, event.id, tuple(data.members)))
    if state.view is not None and state.view.source == event.source:
        return structs.replace(state, view=None)
    return state


def bare(view: LastView | None) -> LastView | None:
    """The view without its members, which are elsewhere."""
    return None if view is None else structs.replace(view, members=())
