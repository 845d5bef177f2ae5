"""Words that stories of episodes and incidents share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from streaming.records.codec import rfc3339
from streaming.records.episodes import Bounds
from streaming.records.events import Holding
from streaming.records.names import shortened

#: So many members are named one by one.
_NAMED: Final = 3
#: So many partitions are.
_PARTITIONS: Final = 3
_MINUTE_MS: Final = 60_000
#: Shorter times are said with tenths of a second.
_TENTHS_MS: Final = 10_000


def count(number: int, what: str) -> str:
    """``1 member``, ``2 members``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def lasting(ms: int) -> str:
    """How long something takes: ``1.5 s``, ``40 s``, ``12 min``."""
    if ms >= 2 * _MINUTE_MS:
        return f"{ms / _MINUTE_MS:.0f} min"
    return f"{ms / 1000:.1f} s" if ms < _TENTHS_MS else f"{ms / 1000:.0f} s"


def between(bounds: Bounds) -> str:
    """Bounds of a time: ``between 1.5 s and 40 s``, ``at least 1.5 s``."""
    least, most = bounds
    if most is None:
        return f"at least {lasting(least)}"
    return f"between {lasting(least)} and {lasting(most)}"


def clock(timestamp: int) -> str:
    """``09:14:07``, in UTC."""
    return rfc3339(timestamp)[11:19]


def moment(timestamp: int) -> str:
    """``2023-11-14 22:13``, in UTC."""
    stamp = rfc3339(timestamp)
    return f"{stamp[:10]} {stamp[11:16]}"


def partitions(holding: Holding) -> str:
    """The first of some partitions: ``orders 1, orders 2, orders 3 and 5 more``."""
    places = [f"{topic} {number}" for topic, numbers in holding.items() for number in numbers]
    more = len(places) - _PARTITIONS
    return ", ".join(places[:_PARTITIONS]) + (f" and {more} more" if more > 0 else "")


class Names(Protocol):
    """What members are called, by member id, as a ``dict`` has it."""

    def get(self, member_id: str, /) -> str | None:
        """The name of a member; None where it is known by its id alone."""


def name(member_id: str, names: Names) -> str:
    """What a member is called, or its id."""
    return names.get(member_id) or shortened(member_id)


def people(member_ids: Sequence[str], names: Names) -> str:
    """Members by their names, or how many they are: ``pay, ship and mail``, ``12 members``."""
    if len(member_ids) > _NAMED or not member_ids:
        return count(len(member_ids), "member")
    said = [name(one, names) for one in member_ids]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
