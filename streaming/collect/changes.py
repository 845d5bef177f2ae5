"""What is published of a large group with epochs: a full view now and then, and between two of them what changed.

A full view is told again once the changes since the last one have more bytes than it had. So all full views but
the first have together no more bytes than all changes: what a group costs follows what happens in it. And whoever
begins to read finds a full view within the bytes of two.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from streaming.collect.coordinator.standing import Change, Standing
from streaming.wire import codec
from streaming.wire.events import Evidence, GroupChanged, GroupObserved


class Changes:
    """What one group was told of by this process, and with it what its next event has to say.

    Args:
        least: groups of so many members are told what changed; 0: none is.
    """

    __slots__ = ("_changed", "_full", "_least", "_since", "_whole")

    def __init__(self, least: int) -> None:
        self._least = least
        #: The view that a change may follow from.
        self._since: str | None = None
        #: Whether the last view that was told was a full one.
        self._full = False
        #: The bytes of the last full view, and of all changes since.
        self._whole = self._changed = 0

    @property
    def lacking(self) -> bool:
        """Whether somebody who has read everything may still lack the group as it is."""
        return not self._full

    def forget(self) -> None:
        """The next event is a full view: that before was not told, or is of another kind of group."""
        self._since, self._full = None, False

    def next(
        self, event_id: str, standing: Standing, changes: Iterable[Change], evidence: list[Evidence]
    ) -> GroupObserved | GroupChanged | None:
        """What is told of a step, by an event with this id; None: there is nothing to see of the group yet.

        Args:
            event_id: of the event.
            standing: the group after the step.
            changes: what the step changed.
            evidence: why.
        """
        if self._since is not None and standing.head is not None and self.is_large(standing):
            change = _change(self._since, standing.head, changes, evidence)
            size = len(codec.encode(change))
            if self._changed + size <= self._whole:
                self._since, self._full = event_id, False
                self._changed += size
                return change
        return self.whole(event_id, standing, evidence)

    def whole(self, event_id: str, standing: Standing, evidence: list[Evidence]) -> GroupObserved | None:
        """The full view, told by an event with this id; None: there is nothing to see of the group yet."""
        view = standing.view
        if view is None:
            return None
        self._full = True
        if not self.is_large(standing):
            self._since = None
            return structs.replace(view, evidence=evidence)
        view = structs.replace(view, evidence=evidence, followed=True)
        self._since, self._whole, self._changed = event_id, len(codec.encode(view)), 0
        return view

    def is_large(self, standing: Standing) -> bool:
        """Whether a group has as many members."""
        return 0 < self._least <= len(standing.members)


def _change(
    since: str, head: GroupObserved, changes: Iterable[Change], evidence: list[Evidence]
) -> GroupChanged:
    protocol = head.group_protocol
    if protocol == "classic" or head.group_epoch is None:
        raise ValueError(f"group {head.group_id}: only groups with epochs are told by what changed")
    came = [change.now for change in changes if change.now is not None]
    gone = [change.before.member_id for change in changes if change.now is None and change.before is not None]
    return GroupChanged(
        group_id=head.group_id,
        timestamp=head.timestamp,
        since=since,
        group_epoch=head.group_epoch,
        members=came,
        gone=gone,
        group_protocol=protocol,
        protocol_type=head.protocol_type,
        protocol=head.protocol,
        state=head.state,
        evidence=evidence,
        kind=head.kind,
    )
