"""What is published of a large group with epochs: a full view now and then, and between two of them what changed.

A full view is told again once the changes since the last one have more bytes than it had. So all full views but
the first have together no more bytes than all changes: what a group costs follows what happens in it. And whoever
begins to read finds a full view within the bytes of two.

Each epoch of a group is one that all its members reach, each by a record of its own: a restart of one in a group of
N is 2N such steps, and a rolling restart 2N². Nobody asks when each did; who is late matters, and that there are no
more than a few. So such a step is told only where the members that are behind can be named (:data:`FEW`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from streaming.collect.coordinator.standing import Change, StandingGroup
from streaming.wire import codec
from streaming.wire.events import Evidence, GroupChanged, GroupObserved, ObservedMember

#: Members that have not reached the epoch are named where there are no more.
FEW: Final = 8


class ToldGroup:
    """What one group was told of by this process, and with it what its next event has to say.

    Args:
        least: groups of so many members are told what changed; 0: none is.
    """

    __slots__ = ("_changed", "_full", "_head", "_least", "_since", "_whole")

    def __init__(self, least: int) -> None:
        self._least = least
        #: The view that a change may follow from.
        self._since: str | None = None
        #: The group without its members as it was told last.
        self._head: GroupObserved | None = None
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
        self, event_id: str, standing: StandingGroup, changes: Iterable[Change], evidence: list[Evidence]
    ) -> GroupObserved | GroupChanged | None:
        """What is told of a step, by an event with this id; None: nothing.

        There is nothing to tell of a group without an epoch, and of steps of a large group by which some of many
        members reach its epoch.

        Args:
            event_id: of the event.
            standing: the group after the step.
            changes: what the step changed.
            evidence: why.
        """
        if self._since is not None and standing.head is not None and self.is_large(standing):
            behind = sorted(standing.behind) if len(standing.behind) <= FEW else None
            told = [change for change in changes if not _reaches(*change)]
            if not (told or evidence or behind is not None) and _same(standing.head, self._head):
                return None
            change = _change(self._since, standing.head, told, evidence, behind)
            self._head = standing.head
            size = len(codec.encode(change))
            if self._changed + size <= self._whole:
                self._since, self._full = event_id, False
                self._changed += size
                return change
        return self.whole(event_id, standing, evidence)

    def whole(self, event_id: str, standing: StandingGroup, evidence: list[Evidence]) -> GroupObserved | None:
        """The full view, told by an event with this id; None: there is nothing to see of the group yet."""
        view = standing.view
        if view is None:
            return None
        self._full = True
        if not self.is_large(standing):
            self._since = None
            return structs.replace(view, evidence=evidence)
        view = structs.replace(view, evidence=evidence, followed=True)
        self._head, self._since = standing.head, event_id
        self._whole, self._changed = len(codec.encode(view)), 0
        return view

    def is_large(self, standing: StandingGroup) -> bool:
        """Whether a group has as many members."""
        return 0 < self._least <= len(standing.members)


def _reaches(before: ObservedMember | None, now: ObservedMember | None) -> bool:
    """Whether a member does no more than reach an epoch."""
    if before is None or now is None:
        return False
    epochs = {"member_epoch": now.member_epoch, "previous_member_epoch": now.previous_member_epoch}
    return structs.replace(before, **epochs) == now


def _same(head: GroupObserved, before: GroupObserved | None) -> bool:
    """Whether all that is told of a group beside its members is as before."""
    return before is not None and structs.replace(before, timestamp=head.timestamp) == head


def _change(
    since: str,
    head: GroupObserved,
    changes: Iterable[Change],
    evidence: list[Evidence],
    behind: list[str] | None,
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
        behind=behind,
    )
