"""Downtime of several episodes together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streaming.wire.episodes import Downtime, PartitionDowntime

_DAY_MS: Final = 86_400_000


def midnight(now_ms: int) -> int:
    """When the day (UTC) of a moment began, ms."""
    return now_ms - now_ms % _DAY_MS


def together(found: Iterable[Downtime | None]) -> Downtime | None:
    """All bounds together; None where nothing is known to have stood still.

    ``partitions`` counts one that stood still in two episodes twice; ``worst`` is the longest in one of them.
    """
    known = [one for one in found if one is not None]
    if not known:
        return None
    unbounded = sum(one.unbounded for one in known)
    bounded = sum(one.bounded_ms for one in known)
    worst = [one.worst for one in known if one.worst is not None]
    return Downtime(
        lower_ms=sum(one.lower_ms for one in known),
        upper_ms=None if unbounded else bounded,
        worst=longest(worst, bounded=not unbounded),
        evidence=list(dict.fromkeys(source for one in known for source in one.evidence)),
        partitions=sum(one.partitions for one in known),
        unbounded=unbounded,
        bounded_ms=bounded,
    )


def longest(found: Iterable[PartitionDowntime], *, bounded: bool) -> PartitionDowntime | None:
    """Where all are ``bounded`` by what is possible: none stood still for longer than this one may have; else by
    what is proved.
    """
    return max(found, key=_possibly if bounded else _provably, default=None)


def _possibly(one: PartitionDowntime) -> tuple[int, int]:
    return one.upper_ms or 0, one.lower_ms


def _provably(one: PartitionDowntime) -> tuple[int, int]:
    return one.lower_ms, one.upper_ms or 0
