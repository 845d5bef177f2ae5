"""Error budget of a group: the downtime that its service level allows, minus the downtime of its episodes."""

from collections.abc import Sequence

from msgspec import Struct

from streaming.records.downtime import total_downtime
from streaming.records.episodes import Bounds, Episode


class ErrorBudget(Struct, frozen=True, kw_only=True, rename="camel"):
    """A group's service level and its remaining budget; bounds are ``[at least, at most]``, null: unknown.

    ``downtimeDayMs`` and ``worstDelayMs``: the objectives, null: none. ``downtimeMs`` and ``delayMs``: cost of the
    episodes. ``budgetLeft``: remaining part of the downtime, from 1 to 0, negative if exceeded. ``met``: false if a
    lower bound is above its objective, true if no upper bound is, else null.
    """

    downtime_day_ms: int | None
    worst_delay_ms: int | None
    downtime_ms: Bounds
    delay_ms: Bounds
    budget_left: tuple[float | None, float] | None
    met: bool | None


def error_budget(episodes: Sequence[Episode], downtime_day_ms: int | None, worst_delay_ms: int | None) -> ErrorBudget:
    """Return the remaining budget of a day in which the group had these episodes.

    ``downtime_day_ms``, ``worst_delay_ms``: objectives for the downtime of a day and for the delay of a message.
    """
    downtime = total_downtime(episode.downtime for episode in episodes)
    used_ms: Bounds = (0, 0) if downtime is None else (downtime.lower_ms, downtime.upper_ms)
    if any(episode.downtime is None and episode.rebalances for episode in episodes):
        used_ms = used_ms[0], None
    delays = [(0, None) if episode.cost is None else episode.cost.worst_delay_ms for episode in episodes]
    upper_delays = [upper for _, upper in delays if upper is not None]
    most = max(upper_delays, default=0) if len(upper_delays) == len(delays) else None
    delay: Bounds = (max((lower for lower, _ in delays), default=0), most)
    objectives = (used_ms, downtime_day_ms), (delay, worst_delay_ms)
    verdicts = [_is_within(cost, objective) for cost, objective in objectives if objective is not None]
    is_objective_met, budget_left = False not in verdicts, None
    if downtime_day_ms is not None:
        least = None if used_ms[1] is None else round(1 - used_ms[1] / downtime_day_ms, 4)
        budget_left = least, round(1 - used_ms[0] / downtime_day_ms, 4)
    return ErrorBudget(
        downtime_day_ms=downtime_day_ms,
        worst_delay_ms=worst_delay_ms,
        downtime_ms=used_ms,
        delay_ms=delay,
        budget_left=budget_left,
        met=None if is_objective_met and None in verdicts else is_objective_met,
    )


def _is_within(cost: Bounds, objective: int) -> bool | None:
    """Return whether a cost meets its objective; None if the bounds of the cost are on both sides of the objective."""
    if cost[0] > objective:
        return False
    return True if cost[1] is not None and cost[1] <= objective else None
