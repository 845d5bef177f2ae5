"""Forecasts for people: a table of figures, and a timeline a protocol."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streaming.simulate.results import summary
from streaming.simulate.run import Forecast
from streaming.simulate.timeline import Cell, Timeline, draw, members

_COLOURS = (
    "blue",
    "dark_orange",
    "green",
    "magenta",
    "cyan",
    "red",
    "yellow",
    "purple",
    "bright_blue",
    "orchid",
)
#: Members by letter, so that a timeline also reads without colour.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LEGEND = 24
_FIGURES = (
    "p·s down: partition-seconds without a consumer · gap: the longest of one partition · rest: settled after"
)


def show_forecasts(forecasts: Sequence[Forecast], rows: int) -> None:
    """Prints the comparison, then the timelines."""
    console = Console(highlight=False)
    console.print(_comparison(forecasts))
    console.print(Text(_FIGURES, "dim"))
    names = members(forecasts)
    width = max(min(console.width - 24, 120), 20)
    for forecast in forecasts:
        timeline = draw(forecast, names, width, rows)
        if timeline.rows:
            console.print()
            console.print(Text(f"{forecast.protocol} ({forecast.assignor})", "bold"))
            for line in _lines(timeline, width):
                console.print(line, no_wrap=True, overflow="crop")
    if names and rows:
        console.print(_legend(names))


def _comparison(forecasts: Sequence[Forecast]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("protocol")
    table.add_column("assignor")
    for heading in ("rebalances", "rounds", "requests", "moved", "p·s down", "gap s", "rest s"):
        table.add_column(heading, justify="right")
    for forecast in forecasts:
        one = summary(forecast)
        table.add_row(
            one.protocol,
            one.assignor,
            f"{one.rebalances}",
            f"{one.rounds}",
            f"{one.requests}",
            f"{one.moved}",
            f"{one.unavailable_s:.1f}",
            f"{one.longest_gap_s:.1f}",
            f"{one.end_s:.1f}",
        )
    return table


def _lines(timeline: Timeline, width: int) -> list[Text]:
    label = max((len(row.label) for row in timeline.rows), default=0)
    lines = []
    for row in timeline.rows:
        line = Text(f"{row.label:>{label}} ", "dim")
        for cell in row.cells:
            line.append(*_glyph(cell))
        lines.append(line)
    marks = "".join("┆" if column in timeline.marks else " " for column in range(width))
    lines.append(Text(f"{'rounds':>{label}} ", "dim").append(marks, "bold"))
    axis = f"0 s{f'{timeline.end / 1000:.1f} s':>{width - 3}}"
    lines.append(Text(f"{'':>{label}} {axis}", "dim"))
    if timeline.hidden:
        lines.append(Text(f"{'':>{label}} {timeline.hidden} more partitions (--rows)", "dim"))
    return lines


def _glyph(cell: Cell) -> tuple[str, str]:
    if cell.member is None:
        return "·", "dim"
    colour = _COLOURS[cell.member % len(_COLOURS)]
    letter = _LETTERS[cell.member % len(_LETTERS)]
    return ("░", colour) if cell.gap else (letter, f"black on {colour}")


def _legend(names: Sequence[str]) -> Text:
    line = Text("\n")
    for number, name in enumerate(names[:_LEGEND]):
        line.append(_LETTERS[number % len(_LETTERS)], f"black on {_COLOURS[number % len(_COLOURS)]}")
        line.append(f" {name}  ")
    if len(names) > _LEGEND:
        line.append(f"and {len(names) - _LEGEND} more  ", "dim")
    return line.append("░ partly nobody  · nobody  ┆ round", "dim")
