"""Timelines: the content of a row, the common scale, and the drawing."""

from __future__ import annotations

from itertools import pairwise

from streaming.cli.simulate import partition_cells, tick_ms
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from tests.support.machines import scenario

TEXT = scenario("t: 2", "at: 0, join: a", "at: 60000, leave: a", "at: 80000, join: b")


def test_a_row_shows_owners_and_gaps_up_to_the_common_end() -> None:
    simulation = run_scenario(load_scenario(TEXT), "zookeeper", stretches=True)
    first, nobody, second = (0, False), (None, True), (1, False)
    cells = [*[first] * 6, nobody, nobody, second, second]
    assert partition_cells(simulation, ["a", "b"], 10, 100_000) == {"t-0": cells, "t-1": cells}


def test_ticks_are_few_and_round() -> None:
    assert [tick_ms(end) for end in (900, 60_000, 107_400, 3_600_000)] == [1000, 10_000, 20_000, 600_000]


def test_axis_has_about_eight_ticks_at_whole_seconds() -> None:
    ends = (9000, 9001, 64_800_000, 80_000_000)
    assert [tick_ms(end) for end in ends] == [1000, 2000, 7_200_000, 10_001_000]
    assert isinstance(tick_ms(80_000_000), int)


def test_every_tick_up_to_the_last_forecast_that_it_serves() -> None:
    ticks = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
    for seconds, next_one in pairwise(ticks):
        assert [tick_ms(seconds * 9000), tick_ms(seconds * 9000 + 1)] == [seconds * 1000, next_one * 1000]
