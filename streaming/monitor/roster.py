"""The members of one large group in pages, and what they add up to, as far as a step of one member needs it.

All of it follows from the group's state, which it gives back whole: :meth:`Roster.of` and :meth:`Roster.whole`. It
is what :mod:`streaming.monitor.steps` plays on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Self

import msgspec
from msgspec import Raw, Struct, structs

from assignors.shares import held, unassigned
from streaming.monitor import violations
from streaming.monitor.packing import unpacked
from streaming.monitor.pages import NO_EPOCH, Entry, PackedPage, Page, pages, plain
from streaming.monitor.state import GroupState, subscribed
from streaming.wire.events import Holding


class _Whole(Struct, array_like=True):
    pages: list[PackedPage]
    subscriptions: list[tuple[list[str], int]]
    free: Holding
    unsettled: list[str]
    ahead: list[str]


_whole = msgspec.msgpack.Decoder(_Whole)
_encoder = msgspec.msgpack.Encoder()


class Roster:
    """The members of one group, and what they add up to.

    Attributes:
        count: how many there are.
        subscriptions: topics, as a member lists them → how many members do.
        free: partitions of subscribed topics that nobody owns.
        unsettled: members that are to get or to give up something.
        ahead: members whose view shows what no round has taken note of.
    """

    __slots__ = ("_pages", "ahead", "count", "free", "subscriptions", "unsettled")

    def __init__(
        self,
        pages: list[Page],
        subscriptions: dict[tuple[str, ...], int],
        free: Holding,
        unsettled: set[str],
        ahead: set[str],
    ) -> None:
        self._pages = pages
        self.count = sum(map(len, pages))
        self.subscriptions = subscriptions
        self.free = free
        self.unsettled = unsettled
        self.ahead = ahead

    @property
    def topics(self) -> set[str]:
        """All that some member subscribes to."""
        return {topic for topics in self.subscriptions for topic in topics}

    @classmethod
    def unpack(cls, packed: bytes | Raw) -> Self:
        """The roster of these bytes.

        Raises:
            CorruptState: they are none.
        """
        whole = unpacked(_whole, packed, "members of a group")
        subscriptions = {tuple(topics): count for topics, count in whole.subscriptions}
        made = [Page(one) for one in whole.pages]
        return cls(made, subscriptions, whole.free, {*whole.unsettled}, {*whole.ahead})

    @classmethod
    def of(cls, state: GroupState) -> Self | None:
        """The members of a group; None where pages can't hold all that its state and its last view say of them."""
        view = state.view
        if view is None or not state.members or not _fits(state):
            return None
        if [one.member_id for one in view.members] != [one.member_id for one in state.members]:
            return None
        if not all(map(plain, view.members)) or any(
            left.member_id >= right.member_id for left, right in pairwise(view.members)
        ):
            return None
        owned = held(member.owned for member in state.members)
        if violations.violations_of(state, owned):
            return None
        entries = [Entry.of(seen, known) for seen, known in zip(view.members, state.members, strict=True)]
        subscriptions = Counter(tuple(known.topics) for known in state.members)
        counts = {name: topic.partitions for name, topic in state.topics.items()}
        free = unassigned(subscribed(state.members), counts, owned)
        unsettled = {entry.member_id for entry in entries if not entry.settled}
        ahead = {entry.member_id for entry in entries if entry.known is not None}
        return cls(pages(entries), subscriptions, free, unsettled, ahead)

    def whole(self, head: GroupState) -> GroupState:
        """The state of the group; ``head``: all of it but its members."""
        entries = [entry for page in self._pages for entry in page.entries.values()]
        view = (
            structs.replace(head.view, members=tuple([entry.view for entry in entries]))
            if head.view
            else None
        )
        return structs.replace(head, members=tuple([entry.member for entry in entries]), view=view)

    def get(self, member_id: str) -> Entry | None:
        """The member of this id."""
        return self._pages[self._place(member_id)].entries.get(member_id) if self._pages else None

    def behind(self, epoch: int) -> Iterator[Entry]:
        """Members that have not reached this epoch, in the order of their ids."""
        for page in self._pages:
            if page.epoch < epoch:
                yield from (
                    entry for entry in page.entries.values() if (entry.member_epoch or NO_EPOCH) < epoch
                )

    def after(self, entries: Mapping[str, Entry | None], free: Holding) -> Roster:
        """The roster with these members as they are now, None: one is gone; and with what nobody owns."""
        pages, subscriptions = [*self._pages], dict(self.subscriptions)
        touched: dict[int, dict[str, Entry | None]] = {}
        for member_id, entry in entries.items():
            place = self._place(member_id)
            touched.setdefault(place, {})[member_id] = entry
            before = pages[place].entries.get(member_id)
            for one, by in ((before, -1), (entry, 1)):
                if one is not None:
                    subscriptions[one.reads] = subscriptions.get(one.reads, 0) + by
        for place in sorted(touched, reverse=True):
            pages[place : place + 1] = pages[place].take(touched[place])
        here = {name: one for name, one in entries.items() if one is not None}
        unsettled = self.unsettled.difference(entries) | {
            name for name, one in here.items() if not one.settled
        }
        ahead = self.ahead.difference(entries) | {name for name, one in here.items() if one.known is not None}
        left = {topics: count for topics, count in subscriptions.items() if count}
        return Roster(pages, left, free, unsettled, ahead)

    def _place(self, member_id: str) -> int:
        return max(0, bisect_right(self._pages, member_id, key=_first) - 1)

    def packed(self) -> Raw:
        """Its bytes; pages that nobody has touched are not packed again."""
        subscriptions = sorted((list(topics), count) for topics, count in self.subscriptions.items())
        pages = [page.packed() for page in self._pages]
        whole = _Whole(pages, subscriptions, self.free, sorted(self.unsettled), sorted(self.ahead))
        return Raw(_encoder.encode(whole))


def _first(page: Page) -> str:
    return page.first


def _fits(state: GroupState) -> bool:
    kind = state.kind == "consumer" and state.protocol == "consumer"
    return kind and state.observed and not state.counted and state.reports is None
