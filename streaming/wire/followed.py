"""Changes put together with the views that they follow from, for readers of the membership topic. Pure."""

from __future__ import annotations

from streaming.wire.events import Event, GroupChanged, GroupDeleted, GroupObserved


class Followed:
    """The last view of each group that a change may follow from: only of groups that are told by changes."""

    def __init__(self) -> None:
        self._views: dict[str, tuple[str, str, GroupObserved]] = {}

    def whole(self, event: Event) -> Event | None:
        """The event; a change as the full view that it gives.

        Args:
            event: the next one; those of a group in their order.

        Returns:
            None: a change that follows from a view which is not known. The group's next full view is.
        """
        data = event.data
        group_id = data.group_id
        if isinstance(data, GroupChanged):
            source, event_id, before = self._views.get(group_id, ("", "", None))
            if before is None or (source, event_id) != (event.source, data.since):
                return None
            data = data.view(before.members)
            event = Event(event.source, event.id, data)
        if isinstance(data, GroupObserved) and data.followed is True:
            self._views[group_id] = (event.source, event.id, data)
        elif isinstance(data, GroupObserved | GroupDeleted):
            self._views.pop(group_id, None)
        return event
