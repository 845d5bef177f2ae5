"""The remaining error budget of a service level objective, with bounds."""

import pytest
from msgspec.structs import replace

from streaming.episodes.budget import error_budget
from streaming.records.episodes import Bounds, Cost, Downtime, Episode
from tests.support.compacted import checkout_group, episode_updates

EPISODE_WITHOUT_COST = episode_updates(checkout_group())[-1]


def episode(total: Bounds | None, delay: Bounds | None = (0, 0)) -> Episode:
    downtime = total and Downtime(lower_ms=total[0], upper_ms=total[1], total_ms=total)
    return replace(EPISODE_WITHOUT_COST, downtime=downtime, cost=delay and Cost(worst_delay_ms=delay))


@pytest.mark.parametrize(
    ("totals", "used", "left", "met"),
    [
        ([], (0, 0), (1.0, 1.0), True),
        ([(100, 300), (200, 200)], (300, 500), (0.5, 0.7), True),
        ([(100, 1001)], (100, 1001), (-0.001, 0.9), None),
        ([(100, None)], (100, None), (None, 0.9), None),
        ([None], (0, None), (None, 1.0), None),
        ([(1500, 3000)], (1500, 3000), (-2.0, -0.5), False),
    ],
)
def test_downtimes_are_subtracted_from_the_error_budget(
    totals: list[Bounds | None], used: Bounds, left: tuple[float | None, float], met: bool | None
) -> None:
    budget = error_budget([episode(total) for total in totals], 1000, None)
    assert (budget.downtime_ms, budget.budget_left, budget.met) == (used, left, met)


@pytest.mark.parametrize(
    ("delays", "delay", "met"),
    [
        ([(10, 20), (5, 900)], (10, 900), True),
        ([(10, 20), (5, None)], (10, None), None),
        ([(10, 20), None], (10, None), None),
        ([(1001, None)], (1001, None), False),
    ],
)
def test_longest_delay_is_compared_with_the_limit(delays: list[Bounds | None], delay: Bounds, met: bool | None) -> None:
    budget = error_budget([episode((0, 0), bounds) for bounds in delays], None, 1000)
    assert (budget.delay_ms, budget.budget_left, budget.met) == (delay, None, met)
