"""Views of large groups that say only what changed, and the views that they follow from.

Of a large group with epochs a collector tells in full what it sees now and then; between two full views stand
``group.changed`` events, each of which names the view before. A group keeps the last view that may be followed, so
that each change gives the view that the collector had, and is applied as that. What does not follow from the view
that is known changes nothing: the job asks for a full one.
"""

from __future__ import annotations

from msgspec import structs

from streaming.monitor.state import GroupState, LastView
from streaming.wire.events import Event, GroupObserved
from streaming.wire.followed import ends, is_followed, put_together


def whole(state: GroupState | None, event: Event) -> Event | None:
    """The event, a change as the full view that it gives; None: the view that it follows from is not known."""
    return put_together(state.view if state is not None else None, event)


def keep(state: GroupState, event: Event) -> GroupState:
    """The group with what later changes follow from, after a full view of it."""
    data = event.data
    if isinstance(data, GroupObserved) and is_followed(event):
        return structs.replace(state, view=LastView(event.source, event.id, tuple(data.members)))
    if state.view is not None and ends(state.view, event):
        return structs.replace(state, view=None)
    return state


def bare(view: LastView | None) -> LastView | None:
    """The view without its members, which are elsewhere."""
    return None if view is None else structs.replace(view, members=())
