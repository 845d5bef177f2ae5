"""Bounds of downtime, and the sum of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from streaming.records.episodes import Bounds, Downtime, PartitionDowntime

_DAY_MS: Final = 86_400_000


class Stops(Struct, frozen=True, array_like=True, gc=False):
    """Times without a consumer: how many, how long all together, and how long the longest, in ms, as bounds."""

    count: Bounds
    total: Bounds
    longest: Bounds

    def __add__(self, other: Stops) -> Stops:
        return Stops(
            add_bounds(self.count, other.count),
            add_bounds(self.total, other.total),
            max_bounds(self.longest, other.longest),
        )


NO_STOPS: Final = Stops((0, 0), (0, 0), (0, 0))


def midnight(now_ms: int) -> int:
    """When the day (UTC) of a moment began, ms."""
    return now_ms - now_ms % _DAY_MS


def together(found: Iterable[Downtime | None]) -> Downtime | None:
    """The downtime of several episodes; None if nothing is known to have been down.

    ``partitions`` counts one that was down in two episodes twice; ``worst`` is the one that was down the longest in
    one of them.
    """
    known = [one for one in found if one is not None]
    if not known:
        return None
    unbounded = sum(one.unbounded for one in known)
    stops = sum((Stops(one.stops, (one.lower_ms, one.upper_ms), one.longest_ms) for one in known), NO_STOPS)
    return Downtime(
        lower_ms=stops.total[0],
        upper_ms=stops.total[1],
        longest_ms=stops.longest,
        total_ms=stops.total,
        stops=stops.count,
        worst=worst_of([one.worst for one in known if one.worst is not None], bounded=not unbounded),
        evidence=list(dict.fromkeys(source for one in known for source in one.evidence)),
        partitions=sum(one.partitions for one in known),
        unbounded=unbounded,
        bounded_ms=sum(one.bounded_ms for one in known),
    )


def worst_of(found: Sequence[PartitionDowntime], *, bounded: bool) -> PartitionDowntime | None:
    """The partition that was down the longest: at most where all are ``bounded``, else at least."""
    at_most = max(found, key=lambda one: (one.upper_ms or 0, one.lower_ms), default=None)
    return at_most if bounded else max(found, key=lambda one: (one.lower_ms, one.upper_ms or 0), default=None)


def add_bounds(one: Bounds, other: Bounds) -> Bounds:
    """Return the sum of two bounds; an unknown upper one stays unknown."""
    return one[0] + other[0], None if one[1] is None or other[1] is None else one[1] + other[1]


def max_bounds(one: Bounds, other: Bounds) -> Bounds:
    """Return the bounds of the larger of two figures."""
    return max(one[0], other[0]), None if one[1] is None or other[1] is None else max(one[1], other[1])
