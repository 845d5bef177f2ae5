"""Total cost of several episodes, and comparison of two: downtime, delayed messages and lag, as bounds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from msgspec import Struct

from streaming.records.downtime import add_bounds, max_bounds, total_downtime
from streaming.records.episodes import Bounds, Downtime, Episode


class TotalCost(Struct, frozen=True, kw_only=True, rename="camel"):
    """Cost of several episodes, added up. ``measured``: how many episodes have a cost in messages.

    ``downtime`` null: no downtime is known. All other bounds are null if no episode is measured, and their upper bound
    is null (unknown) if at least one episode is not measured. Delays and lags are those of the worst episode, all
    other numbers are sums.
    """

    episodes: int
    rebalances: int
    moved: int
    downtime: Downtime | None
    measured: int
    delayed_messages: Bounds | None
    worst_delay_ms: Bounds | None
    peak_lag: Bounds | None
    catch_up_ms: Bounds | None


def total_cost(episodes: Sequence[Episode]) -> TotalCost:
    """Return the total cost of these episodes."""
    costs = [episode.cost for episode in episodes if episode.cost is not None]

    def total(combine: Callable[[Bounds, Bounds], Bounds], bounds: Iterable[Bounds]) -> Bounds | None:
        if not costs:
            return None
        lower, upper = reduce(combine, bounds)
        return lower, upper if len(costs) == len(episodes) else None

    return TotalCost(
        episodes=len(episodes),
        rebalances=sum(episode.rebalances for episode in episodes),
        moved=sum(episode.moved for episode in episodes),
        downtime=total_downtime(episode.downtime for episode in episodes),
        measured=len(costs),
        delayed_messages=total(add_bounds, (cost.delayed_messages for cost in costs)),
        worst_delay_ms=total(max_bounds, (cost.worst_delay_ms for cost in costs)),
        peak_lag=total(max_bounds, (cost.peak_lag for cost in costs)),
        catch_up_ms=total(add_bounds, (cost.catch_up_ms for cost in costs)),
    )


#: Figure (lower is better) → its heading, and how to get its bounds from an episode. Figures in ``Ms`` are times.
COST_FIGURES: Final[Mapping[str, tuple[str, Callable[[Episode], Bounds | None]]]] = {
    "rebalances": ("rebalances", lambda e: (e.rebalances,) * 2),
    "rounds": ("rounds", lambda e: (e.round_count,) * 2),
    "moved": ("partitions moved", lambda e: (e.moved,) * 2),
    "movedAgain": ("moved more than once", lambda e: (e.moved_again,) * 2),
    "durationMs": ("duration", lambda e: ((e.closed_at or e.updated_at) - e.opened_at,) * 2),
    "longestDowntimeMs": ("longest downtime", lambda e: e.downtime.longest_ms if e.downtime else None),
    "totalDowntimeMs": ("downtime in all", lambda e: e.downtime.total_ms if e.downtime else None),
    "delayedMessages": ("delayed messages", lambda e: e.cost.delayed_messages if e.cost else None),
    "worstDelayMs": ("worst delay", lambda e: e.cost.worst_delay_ms if e.cost else None),
    "catchUpMs": ("catch-up", lambda e: e.cost.catch_up_ms if e.cost else None),
}


class FigureChange(Struct, frozen=True, rename="camel"):
    """One figure of two episodes, each ``[at least, at most]``; null: unknown.

    ``better``: true if ``after`` is surely lower than ``before``; false: surely higher; null: equal, or overlapping.
    """

    figure: str
    heading: str
    before: Bounds | None
    after: Bounds | None
    better: bool | None


def figure_changes(before: Episode, after: Episode) -> list[FigureChange]:
    """Return the figures of two episodes, such as downtime, side by side, with the change of each."""
    changes = []
    for name, (heading, bounds_of) in COST_FIGURES.items():
        first, second = bounds_of(before), bounds_of(after)
        changes.append(FigureChange(name, heading, first, second, _is_better(first, second)))
    return changes


def _is_better(before: Bounds | None, after: Bounds | None) -> bool | None:
    """Return True if ``after`` is surely lower than ``before``, False if it is surely higher, else None."""
    if before is None or after is None:
        return None
    if after[1] is not None and after[1] < before[0]:
        return True
    return False if before[1] is not None and before[1] < after[0] else None
