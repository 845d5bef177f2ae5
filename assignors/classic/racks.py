"""Racks as the sticky assignors see them, once for the whole group (``AbstractStickyAssignor.RackInfo``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from assignors.classic.group import ClientGroup
from assignors.classic.range_racks import uses_racks
from assignors.model import Member


class Racks:
    """Which member is in the racks of which partition.

    Attributes:
        of_member: rack by place, None when it has none.
    """

    def __init__(self, group: ClientGroup, members: Sequence[Member]) -> None:
        self.of_member = [member.rack_id or None for member in members]
        self._members_in = Counter(rack for rack in self.of_member if rack is not None)
        self._of_topic = {
            name: group.topics[name].racks or ((),) * count for name, count in group.counts.items()
        }

    def of_topic(self, name: str) -> Sequence[tuple[str, ...]]:
        """The racks of each partition's replicas, () when unknown; a rack may stand there twice."""
        return self._of_topic[name]

    def mismatch(self, place: int, name: str, partition: int) -> bool:
        """Whether the member has a rack and the partition, if there is one, is not in it."""
        rack = self.of_member[place]
        racks = self._of_topic[name]
        return rack is not None and (partition >= len(racks) or rack not in racks[partition])

    def members_near(self, racks: Sequence[str]) -> int:
        """How many members there are in these racks."""
        return sum(self._members_in[rack] for rack in set(racks))


def racks_matter(group: ClientGroup) -> bool:
    """Whether some member is in a rack of some partition, and not every partition in all racks."""
    if not group.rack_aware:
        return False
    unknown = ((),)
    everywhere = chain.from_iterable(group.topics[name].racks or unknown for name in group.counts)
    return uses_racks({member.rack_id for member in group.members if member.rack_id}, everywhere)
