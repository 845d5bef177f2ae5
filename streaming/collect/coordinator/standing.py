"""A group whose state is many records as it stands: each look at it costs what its records have changed since.

The members of a group are thousands, the records of a step a few: a member is made again only when a record of it
came. What this gives is the view of :func:`streaming.collect.coordinator.groups.view`, step by step.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import NamedTuple

from msgspec import structs

from streaming.collect.coordinator.consumer import ConsumerGroup
from streaming.collect.coordinator.groups import head, member
from streaming.collect.coordinator.parts import TopicNames
from streaming.collect.coordinator.share import ShareGroup
from streaming.collect.coordinator.streams import StreamsGroup
from streaming.collect.counts import read_by
from streaming.wire.events import GroupObserved, ObservedMember


class Change(NamedTuple):
    """A member as it was, and as it is now; None: it was not there, or is not any more."""

    before: ObservedMember | None
    now: ObservedMember | None


class StandingGroup:
    """One group as it was when it was looked at last.

    Args:
        group_id: its id.
        group: its records, which are folded into it.
        names: topic id → topic name.
    """

    __slots__ = (
        "_group_id",
        "_instances",
        "_names",
        "_order",
        "_topics",
        "_unnamed",
        "behind",
        "group",
        "head",
        "members",
    )

    def __init__(
        self, group_id: str, group: ConsumerGroup | ShareGroup | StreamsGroup, names: TopicNames
    ) -> None:
        self.group = group
        group.all_touched = True
        #: The view without its members; None before the first look.
        self.head: GroupObserved | None = None
        self.members: dict[str, ObservedMember] = {}
        #: Members that have not reached the group's epoch.
        self.behind: set[str] = set()
        self._group_id, self._names = group_id, names
        self._order: list[str] = []
        self._instances: Counter[str] = Counter()
        self._topics: Counter[str] = Counter()
        #: Topic ids without a name → members that have, or had, partitions of it.
        self._unnamed: dict[str, set[str]] = {}

    @property
    def view(self) -> GroupObserved | None:
        """The full view, as of the last look."""
        if self.head is None:
            return None
        return structs.replace(self.head, members=[self.members[member_id] for member_id in self._order])

    @property
    def topics(self) -> frozenset[str]:
        """What members subscribe to, as :func:`streaming.collect.counts.subscribed` says it."""
        return frozenset(self._topics)

    def has_instance(self, instance_id: str | None) -> bool:
        """Whether a member is this static one."""
        return instance_id is not None and instance_id in self._instances

    def look(self, timestamp: int) -> list[Change] | None:
        """The members that have changed since the last look, in the order of their ids; None: nothing has.

        Before the first epoch there is no view: nothing has, either.

        Args:
            timestamp: of this look, ms.
        """
        seen = head(self._group_id, self.group, timestamp)
        if seen is None:
            return None
        group = self.group
        if group.all_touched:
            touched = self.members.keys() | group.subscriptions.keys()
        else:
            # Members of a topic that had no name are made again once it has one.
            named = [one for one in self._unnamed if self._names(one) != one]
            touched = group.touched.union(*(self._unnamed.pop(one) for one in named))
        changes = [change for one in sorted(touched) if (change := self._remade(one)) is not None]
        for change in changes:
            self._take(*change)
        group.touched, group.all_touched = set(), False
        before, self.head = self.head, seen
        epoch = seen.group_epoch or 0
        if before is None or before.group_epoch != seen.group_epoch:
            late = {name for name, one in self.members.items() if (one.member_epoch or 0) < epoch}
        else:
            there = [one for change in changes for one in change if one is not None]
            late = self.behind.difference(one.member_id for one in there)
            late.update(
                now.member_id for _, now in changes if now is not None and (now.member_epoch or 0) < epoch
            )
        self.behind = late
        if not changes and before is not None and structs.replace(before, timestamp=timestamp) == seen:
            return None
        return changes

    def _remade(self, member_id: str) -> Change | None:
        def name(topic_id: str) -> str:
            found = self._names(topic_id)
            if found == topic_id:
                self._unnamed.setdefault(topic_id, set()).add(member_id)
            return found

        now = member(self.group, name, member_id) if member_id in self.group.subscriptions else None
        before = self.members.get(member_id)
        return None if before == now else Change(before, now)

    def _take(self, before: ObservedMember | None, now: ObservedMember | None) -> None:
        for one, by in ((before, -1), (now, 1)):
            if one is not None:
                for topic in read_by(one, holds_tasks=isinstance(self.group, StreamsGroup)):
                    _count(self._topics, topic, by)
                if one.group_instance_id is not None:
                    _count(self._instances, one.group_instance_id, by)
        if now is not None:
            if before is None:
                insort(self._order, now.member_id)
            self.members[now.member_id] = now
        elif before is not None:
            del self._order[bisect_left(self._order, before.member_id)]
            del self.members[before.member_id]
            for those in self._unnamed.values():
                those.discard(before.member_id)


def _count(counts: Counter[str], what: str, by: int) -> None:
    counts[what] += by
    if not counts[what]:
        del counts[what]
