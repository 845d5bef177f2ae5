"""Views of a group whose members mostly stand as in its view before: those are not read again.

Who tells a group in full repeats every member each time, and mostly the same bytes. Where the package
``rebalance-kernel`` is installed it compares them; only members that it does not find in the view before are
decoded. The event is the one that :func:`streaming.wire.codec.read` gives, which reads everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET, structs

from assignors.errors import BadInput
from streaming.wire.codec import Record, read
from streaming.wire.events import Event, GroupObserved, ObservedMember

try:
    from rebalance_kernel import repeated_members as native
except ImportError:  # it is not installed, or not of this release
    native = None  # type: ignore[assignment] # a function where it is installed

_OBSERVED = b"group.observed"


class ToldView(NamedTuple):
    """A view of a group of consumers as it was told.

    Attributes:
        value: its bytes.
        members: what they say of the members.
        spans: where each of them begins and ends, one after the other; empty: not known yet.
    """

    value: bytes
    members: Sequence[ObservedMember]
    spans: list[int]


class RepeatedView(NamedTuple):
    """A view read with the one before at hand.

    Attributes:
        event, data: the same as without it.
        places: for each of its members the place in the view before; -1: it did not stand there so.
        told: what the next view may be compared with.
    """

    event: Event
    data: GroupObserved
    places: list[int]
    told: ToldView


def told(value: bytes | None, data: GroupObserved) -> ToldView | None:
    """What the next view may be compared with; None where none is."""
    if native is None or value is None or data.kind not in (UNSET, "consumer"):
        return None
    return ToldView(value, data.members, [])


def read_repeated(record: Record, before: ToldView) -> RepeatedView | None:
    """A view of the group whose view before is known; None: :func:`streaming.wire.codec.read` is to read it."""
    if native is None or record.value is None or record.type != _OBSERVED:
        return None
    spans = before.spans or _spans(before)
    found = native(before.value, spans, record.value) if spans else None
    if found is None:
        return None
    left, places, spans = found
    try:
        event = read(record._replace(value=left))
    except BadInput:
        return None  # the message is to name its place in the whole
    data = event.data
    # Null may count as left out, and which it does is decided for a value as a whole.
    if (
        not isinstance(data, GroupObserved)
        or data.kind not in (UNSET, "consumer")
        or data.behind is not UNSET
    ):
        return None
    new = iter(data.members)
    known = before.members
    members = [known[place] if place >= 0 else next(new) for place in places]
    data = structs.replace(data, members=members)
    return RepeatedView(
        Event(event.source, event.id, data), data, places, ToldView(record.value, members, spans)
    )


def _spans(told: ToldView) -> list[int]:
    found = native(b"", [], told.value)
    return [] if found is None or len(found[1]) != len(told.members) else found[2]
