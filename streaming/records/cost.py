"""Total cost of several episodes: downtime, delayed messages and lag, as bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

from msgspec import Struct

from streaming.records.downtime import add_bounds, max_bounds, together
from streaming.records.episodes import Bounds, Downtime, Episode


class TotalCost(Struct, frozen=True, kw_only=True, rename="camel"):
    """Total cost of several episodes. ``measured``: how many episodes have a cost in messages.

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
        downtime=together(episode.downtime for episode in episodes),
        measured=len(costs),
        delayed_messages=total(add_bounds, (cost.delayed_messages for cost in costs)),
        worst_delay_ms=total(max_bounds, (cost.worst_delay_ms for cost in costs)),
        peak_lag=total(max_bounds, (cost.peak_lag for cost in costs)),
        catch_up_ms=total(add_bounds, (cost.catch_up_ms for cost in costs)),
    )
