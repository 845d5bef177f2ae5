"""Comparison of two episodes: figures that certainly improved, and figures whose bounds overlap."""

import pytest
from msgspec.structs import replace

from streaming.cli.episodes import change_table, figure_changes
from streaming.process.terminal import console
from streaming.records.episodes import Bounds, Cost, Downtime, Episode
from tests.support.compacted import checkout_group, episode_updates
from tests.unit.streaming.cli.conftest import table_cells

EPISODE_BEFORE = episode_updates(checkout_group())[-1]


def episode(total: Bounds | None, delayed: Bounds | None = None, **fields: int) -> Episode:
    downtime = total and Downtime(lower_ms=total[0], upper_ms=total[1], total_ms=total)
    return replace(EPISODE_BEFORE, downtime=downtime, cost=delayed and Cost(delayed_messages=delayed), **fields)


@pytest.mark.parametrize(
    ("before", "after", "better"),
    [
        ((500, 900), (100, 499), True),
        ((500, 900), (100, 500), None),
        ((500, 900), (901, None), False),
        ((500, None), (100, 400), True),
        ((500, 900), None, None),
        ((0, 0), (0, 0), None),
    ],
)
def test_overlapping_bounds_are_neither_better_nor_worse(
    before: Bounds, after: Bounds | None, better: bool | None
) -> None:
    lines = {change.figure: change for change in figure_changes(episode(before), episode(after))}
    line = lines["totalDowntimeMs"]
    assert (line.before, line.after, line.better) == (before, after, better)


def test_each_figure_of_two_episodes_is_compared() -> None:
    lines = figure_changes(episode(None, (5, 9), moved=7, rebalances=4), episode(None, (1, 2), moved=8, rebalances=2))
    changes = {line.figure: (line.before, line.after, line.better) for line in lines}
    assert changes["moved"] == ((7, 7), (8, 8), False)
    assert changes["rebalances"] == ((4, 4), (2, 2), True)
    assert changes["delayedMessages"] == ((5, 9), (1, 2), True)
    assert changes["longestDowntimeMs"] == (None, None, None)
    assert changes["durationMs"][2] is None


def test_comparison_table_has_words_and_durations() -> None:
    screen = console(is_wide=True)
    with screen.capture() as shown:
        lines = figure_changes(episode((5000, 9000)), episode((0, 1000)))
        screen.print(change_table("shop", ["1: restart", "2: restart"], lines))
    assert ["downtime in all", "5.0 s to 9.0 s", "0 ms to 1.0 s", "better"] in table_cells(shown.get())
