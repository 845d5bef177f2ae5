"""Members of a large group in pages: whoever touches one of them unpacks and packs its page alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self

import msgspec
from msgspec import UNSET, Struct

from streaming.monitor.observed import seen_as
from streaming.monitor.packing import unpacked
from streaming.monitor.state import MemberState
from streaming.wire.events import Holding, ObservedMember

#: Members of a new page, and how many make several of one.
_NEW: Final = 16
_FULL: Final = 32
#: The epoch of a member that is not known to have one.
NO_EPOCH: Final = 0


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """A member of a consumer group as its last view shows it, its fields without their names.

    ``target``: a bool stands for what is assigned. ``known``: the member as rounds know it; None: as the view does.
    """

    member_id: str
    topics: list[str]
    assigned: Holding
    target: Holding | bool | None
    pending_revocation: Holding
    member_epoch: int | None
    previous_member_epoch: int | None
    state: str | None
    group_instance_id: str | None
    client_id: str | None
    client_host: str | None
    rack_id: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    known: MemberState | None = None

    @classmethod
    def of(cls, view: ObservedMember, known: MemberState) -> Self:
        """A member by its view, which is one of :func:`plain`, and as rounds know it."""
        return cls(
            member_id=view.member_id,
            topics=view.topics,
            assigned=view.assigned,
            target=True if view.target == view.assigned else view.target,
            pending_revocation=view.pending_revocation,
            member_epoch=view.member_epoch,
            previous_member_epoch=view.previous_member_epoch,
            state=view.state,
            group_instance_id=view.group_instance_id,
            client_id=view.client_id,
            client_host=view.client_host,
            rack_id=view.rack_id,
            session_timeout_ms=view.session_timeout_ms,
            rebalance_timeout_ms=view.rebalance_timeout_ms,
            known=None if seen_as(view) == known else known,
        )

    @property
    def view(self) -> ObservedMember:
        """The member as the view showed it."""
        return ObservedMember(
            member_id=self.member_id,
            topics=self.topics,
            assigned=self.assigned,
            target=self.assigned if isinstance(self.target, bool) else self.target,
            pending_revocation=self.pending_revocation,
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rack_id=self.rack_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
        )

    @property
    def member(self) -> MemberState:
        """The member as rounds know it."""
        return seen_as(self.view) if self.known is None else self.known

    @property
    def reads(self) -> tuple[str, ...]:
        """The topics that it subscribes to, as rounds know it."""
        return tuple(self.topics if self.known is None else self.known.topics)

    @property
    def settled(self) -> bool:
        """Whether it has what it is to have, and nothing to give up."""
        same = isinstance(self.target, bool) or (self.target or {}) == self.assigned
        return same and not self.pending_revocation


def plain(view: ObservedMember) -> bool:
    """Whether an entry has all that a view says of a member, as in KIP-848 groups of members that speak it."""
    more = (view.standby, view.warmup, view.next_rebalance_ms, view.process_id, view.endpoint)
    return not view.owned and view.owned_generation == -1 and all(one is UNSET for one in more)


class PackedPage(Struct, array_like=True):
    """A page as it stands in the state: ``entries`` are msgpack."""

    first: str
    count: int
    epoch: int
    entries: bytes


_entries = msgspec.msgpack.Decoder(list[Entry])
_encoder = msgspec.msgpack.Encoder()


class Page:
    """Some members that stand next to each other; ``epoch``: the lowest that one of them is at."""

    __slots__ = ("_entries", "_packed", "epoch", "first")

    def __init__(self, packed: PackedPage | None = None, entries: Iterable[Entry] = ()) -> None:
        self._packed = packed
        self._entries = None if packed is not None else {entry.member_id: entry for entry in entries}
        if packed is not None:
            self.first, self.epoch = packed.first, packed.epoch
        else:
            self._measure()

    def __len__(self) -> int:
        return self._packed.count if self._packed is not None else len(self.entries)

    @property
    def entries(self) -> dict[str, Entry]:
        """By id, in the order of the ids."""
        if self._entries is None:
            packed = unpacked(_entries, self._packed.entries if self._packed else b"", "members of a group")
            self._entries = {entry.member_id: entry for entry in packed}
        return self._entries

    def take(self, entries: Mapping[str, Entry | None]) -> list[Page]:
        """The pages that come of this one with these members; None: it is gone."""
        now: dict[str, Entry | None] = {**self.entries, **entries}
        left = [entry for _, entry in sorted(now.items()) if entry is not None]
        if len(left) <= _FULL:
            return [Page(entries=left)] if left else []
        return pages(left)

    def _measure(self) -> None:
        self.first = next(iter(self.entries))
        self.epoch = min(entry.member_epoch or NO_EPOCH for entry in self.entries.values())

    def packed(self) -> PackedPage:
        """Its bytes, kept until it changes: then it is another page."""
        if self._packed is None:
            entries = _encoder.encode([*self.entries.values()])
            self._packed = PackedPage(self.first, len(self.entries), self.epoch, entries)
        return self._packed


def pages(entries: list[Entry]) -> list[Page]:
    """New pages of members in the order of their ids."""
    return [Page(entries=entries[at : at + _NEW]) for at in range(0, len(entries), _NEW)]
