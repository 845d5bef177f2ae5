"""Racks as the sticky assignors see them, once for the whole group (``AbstractStickyAssignor.RackInfo``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from assignors.classic.group import Group
from assignors.classic.range_racks import uses_racks
from assignors.model import Member


class Racks:
    """Which member is in the racks of which partition.

    Attributes:
        of_member: rack by place, None when it has none.
    """

    def __init__(self, group: Group, members: Sequence[Member]) -> None:
        self.of_member = [member.rack_id or None for member in members]
        self._members_in = Counter(rack for rack in self.of_member if rack is not None)
        self._of_topic = {
            name: group.topics[name].racks or ((),) * count for name, count in group.counts.items()
        }

    def of(self, name: str, partition: int) -> tuple[str, ...]:
        """The racks of the partition's replicas, () when unknown; a rack may stand there twice."""
        return self._of_topic[name][partition]

    def mismatch(self, place: int, name: str, partition: int) -> bool:
        """Whether the member has a rack and the partition is not in it."""
        rack = self.of_member[place]
        return rack is not None and rack not in self._of_topic[name][partition]

    def members_near(self, name: str, partition: int) -> int:
        """How many members there are in the partition's racks."""
        return sum(self._members_in[rack] for rack in set(self._of_topic[name][partition]))


def racks_of(group: Group, members: Sequence[Member]) -> Racks | None:
    """The racks, or None when they don't matter: no overlap, or every partition is in all racks."""
    if not group.rack_aware:
        return None
    everywhere = (
        at for name, count in group.counts.items() for at in group.topics[name].racks or ((),) * count
    )
    consumer_racks = {member.rack_id for member in members if member.rack_id}
    return Racks(group, members) if uses_racks(consumer_racks, everywhere) else None
