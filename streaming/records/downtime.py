"""Sums and maxima of downtimes that are known as lower and upper bounds."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

from msgspec import Struct

from streaming.records.episodes import Bounds, Downtime, PartitionDowntime

_DAY_MS: Final = 86_400_000


class Stops(Struct, frozen=True, array_like=True, gc=False):
    """Outages of partitions: bounds of their number, of their total duration and of the longest one (ms)."""

    count: Bounds
    total: Bounds
    longest: Bounds


NO_STOPS: Final = Stops((0, 0), (0, 0), (0, 0))


def sum_stops(stops: Sequence[Stops]) -> Stops:
    """Return all stops together: the sums of their numbers and durations, and the longest one."""
    return Stops(
        reduce(add_bounds, [item.count for item in stops], NO_STOPS.count),
        reduce(add_bounds, [item.total for item in stops], NO_STOPS.total),
        reduce(max_bounds, [item.longest for item in stops], NO_STOPS.longest),
    )


def start_of_day(now_ms: int) -> int:
    """Return the start of the day (UTC) of a moment, ms."""
    return now_ms - now_ms % _DAY_MS


def total_downtime(downtimes: Iterable[Downtime | None]) -> Downtime | None:
    """Return the total downtime of several episodes; None if no partition is known to have been down.

    ``partitions`` counts a partition twice that was down in two episodes. ``worst`` is the partition with the longest
    downtime in one episode.
    """
    present = [downtime for downtime in downtimes if downtime is not None]
    if not present:
        return None
    unbounded = sum(downtime.unbounded for downtime in present)
    stops = sum_stops(
        [Stops(downtime.stops, (downtime.lower_ms, downtime.upper_ms), downtime.longest_ms) for downtime in present]
    )
    return Downtime(
        lower_ms=stops.total[0],
        upper_ms=stops.total[1],
        longest_ms=stops.longest,
        total_ms=stops.total,
        stops=stops.count,
        worst=pick_worst([downtime.worst for downtime in present if downtime.worst is not None], bounded=not unbounded),
        evidence=list(dict.fromkeys(source for downtime in present for source in downtime.evidence)),
        partitions=sum(downtime.partitions for downtime in present),
        unbounded=unbounded,
        bounded_ms=sum(downtime.bounded_ms for downtime in present),
    )


def pick_worst(partitions: Iterable[PartitionDowntime], *, bounded: bool) -> PartitionDowntime | None:
    """Return the partition with the longest downtime, by its upper bound if ``bounded``, else by its lower bound."""
    return max(partitions, key=lambda partition: downtime_sort_key(partition.total_ms, bounded=bounded), default=None)


def downtime_sort_key(total: Bounds, *, bounded: bool) -> tuple[int, int]:
    """Return the sort key of a downtime: by its upper bound if ``bounded``, else by its lower bound."""
    lower, upper = total[0], total[1] or 0
    return (upper, lower) if bounded else (lower, upper)


def add_bounds(first: Bounds, second: Bounds) -> Bounds:
    """Return the sum of two pairs of bounds; an unknown upper bound stays unknown."""
    return first[0] + second[0], None if first[1] is None or second[1] is None else first[1] + second[1]


def max_bounds(first: Bounds, second: Bounds) -> Bounds:
    """Return the bounds of the maximum of two figures, each given by its bounds."""
    return max(first[0], second[0]), None if first[1] is None or second[1] is None else max(first[1], second[1])
