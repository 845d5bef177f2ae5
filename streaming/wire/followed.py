"""Changes put together with the views that they follow from. Pure.

The stream keeps the last view in a group's state (:mod:`streaming.monitor.views`), readers of the membership topic
keep it in :class:`Followed`; what follows from what, and until when, is decided here for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from streaming.wire.events import Event, GroupChanged, GroupDeleted, GroupObserved, ObservedMember


class ViewBefore(Protocol):
    """A full view of a group that changes may follow from: of which event it is, and the members."""

    @property
    def source(self) -> str:
        """Of the event."""

    @property
    def id(self) -> str:
        """Of the event."""

    @property
    def members(self) -> Sequence[ObservedMember]:
        """In the order of their ids."""


def put_together(view: ViewBefore | None, event: Event) -> Event | None:
    """The event, a change as the full view that it gives; None: it does not follow from this view."""
    data = event.data
    if not isinstance(data, GroupChanged):
        return event
    if view is None or not follows(view, event):
        return None
    return Event(event.source, event.id, data.view(view.members))


def follows(view: ViewBefore, event: Event) -> bool:
    """Whether a change follows from this view."""
    data = event.data
    return isinstance(data, GroupChanged) and (view.source, view.id) == (event.source, data.since)


def is_followed(event: Event) -> bool:
    """Whether changes may follow from this view."""
    return isinstance(event.data, GroupObserved) and event.data.followed is True


def ends(view: ViewBefore, event: Event) -> bool:
    """Whether nothing follows from the view any more, as its collector tells the group in full from now on."""
    return isinstance(event.data, GroupObserved) and not is_followed(event) and view.source == event.source


class _LastView(NamedTuple):
    source: str
    id: str
    members: Sequence[ObservedMember]


class Followed:
    """The last view of each group that a change may follow from: only of groups that are told by changes."""

    def __init__(self) -> None:
        self._views: dict[str, _LastView] = {}

    def whole(self, event: Event) -> Event | None:
        """The event; a change as the full view that it gives.

        Args:
            event: the next one; those of a group in their order.

        Returns:
            None: a change that follows from a view which is not known. The group's next full view is.
        """
        group_id = event.data.group_id
        view = self._views.get(group_id)
        whole = put_together(view, event)
        if whole is None:
            return None
        if isinstance(whole.data, GroupObserved) and is_followed(whole):
            self._views[group_id] = _LastView(whole.source, whole.id, whole.data.members)
        elif isinstance(whole.data, GroupDeleted) or (view is not None and ends(view, whole)):
            self._views.pop(group_id, None)
        return whole
