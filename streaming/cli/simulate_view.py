"""Forecasts for people: a table of figures, and a timeline a protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.table import Table

from streaming.process.plain import printable
from streaming.process.terminal import SafeText, console
from streaming.protocols.families import FAMILIES
from streaming.simulation.ready_scenarios import READY_SCENARIOS
from streaming.simulation.results import Simulation, summarize
from streaming.simulation.scenario import Scenario, ScenarioEvent
from streaming.simulation.timeline import Cell, Timeline, draw_timeline, member_names, tick_ms

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


#: What happens, as one character on the line of events.
_EVENTS: Mapping[str, str] = {
    "join": "+",
    "leave": "-",
    "crash": "x",
    "bounce": "o",
    "pause": "z",
    "subscribe": "s",
    "partitions": "#",
    "coordinator_fails": "!",
}


def show_simulations(plan: Scenario, simulations: Sequence[Simulation], rows: int) -> None:
    """Prints the comparison, then the timelines, all on one scale."""
    screen = console()
    screen.print(_comparison(simulations))
    screen.print(SafeText(_FIGURES, "dim"))
    names = member_names(simulations)
    width = max(min(screen.width - 24, 120), 20)
    end = max((simulation.shown_until for simulation in simulations), default=1)
    for simulation in simulations:
        timeline = draw_timeline(simulation, names, width, rows, end)
        if timeline.rows:
            screen.print()
            screen.print(SafeText(f"{simulation.protocol} ({simulation.assignor})", "bold"))
            for line in _lines(timeline, plan.events, width):
                screen.print(line, no_wrap=True, overflow="crop")
    if names and rows:
        screen.print()
        screen.print(_members(names))
        screen.print(_signs({happening.kind for happening in plan.events}))


def _comparison(simulations: Sequence[Simulation]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("protocol", no_wrap=True)
    # The timelines name the assignors; here only one that was asked for, so that 80 columns are enough.
    named = any(one.assignor != FAMILIES[one.protocol].default for one in simulations)
    if named:
        table.add_column("assignor", no_wrap=True)
    for heading in ("rebalances", "rounds", "requests", "moved", "p·s down", "gap s", "rest s"):
        table.add_column(heading, justify="right")
    for simulation in simulations:
        one = summarize(simulation)
        table.add_row(
            one.protocol,
            *([one.assignor] if named else []),
            f"{one.rebalances}",
            f"{one.rounds}",
            f"{one.requests}",
            f"{one.moved}",
            f"{one.unavailable_s:.1f}",
            f"{one.longest_gap_s:.1f}",
            f"{one.end_s:.1f}",
        )
    return table


def _lines(timeline: Timeline, events: Sequence[ScenarioEvent], width: int) -> list[SafeText]:
    names = [printable(row.label) for row in timeline.rows]
    label = max(map(len, [*names, "events"]))
    lines = []
    for name, row in zip(names, timeline.rows, strict=True):
        line = SafeText().append(f"{name:>{label}} ", "dim")
        for (glyph, style), run in groupby(map(_glyph, row.cells)):
            line.append(glyph * sum(1 for _ in run), style)
        lines.append(line)
    lines.append(_marked("events", label, _happenings(events, timeline.end, width)))
    marks = "".join("┆" if column in timeline.marks else " " for column in range(width))
    lines.append(_marked("rounds", label, marks))
    lines.append(SafeText(f"{'':>{label}} {_axis(timeline.end, width)}", "dim"))
    if timeline.hidden:
        lines.append(SafeText(f"{'':>{label}} {timeline.hidden} more partitions (--rows)", "dim"))
    return lines


def _marked(name: str, label: int, marks: str) -> SafeText:
    return SafeText().append(f"{name:>{label}} ", "dim").append(marks.rstrip(), "bold")


def _happenings(events: Sequence[ScenarioEvent], end: int, width: int) -> str:
    """One character an event; several in one column show the last but joins, which are many."""
    marks = [" "] * width
    for event in events:
        column = min(event.at * width // end, width - 1)
        if event.kind != "join" or marks[column] == " ":
            marks[column] = _EVENTS[event.kind]
    return "".join(marks)


def _axis(end: int, width: int) -> str:
    """Seconds at round numbers."""
    line = [" "] * (width + 8)
    for at in range(0, end, tick_ms(end)):
        text = f"{at // 1000} s"
        column = at * width // end
        if column + len(text) <= width:
            line[column : column + len(text)] = text
    return "".join(line).rstrip()


def _glyph(cell: Cell) -> tuple[str, str]:
    if cell.member is None:
        return "·", "dim"
    colour = _COLOURS[cell.member % len(_COLOURS)]
    letter = _LETTERS[cell.member % len(_LETTERS)]
    return ("░", colour) if cell.gap else (letter, f"black on {colour}")


def _members(names: Sequence[str]) -> SafeText:
    line = SafeText()
    for number, name in enumerate(names[:_LEGEND]):
        line.append(_LETTERS[number % len(_LETTERS)], f"black on {_COLOURS[number % len(_COLOURS)]}")
        line.append(f" {name}  ")
    if len(names) > _LEGEND:
        line.append(f"and {len(names) - _LEGEND} more  ", "dim")
    return line


def _signs(kinds: set[str]) -> SafeText:
    happened = "  ".join(f"{mark} {kind}" for kind, mark in _EVENTS.items() if kind in kinds)
    return SafeText(f"· nobody  ░ nobody for a part of it  ┆ round known  {happened}", "dim")


def ready_scenarios() -> Table:
    """A row a ready scenario."""
    table = Table("scenario", "what happens", "members", "partitions", box=None, pad_edge=False)
    for name, one in READY_SCENARIOS.items():
        table.add_row(name, one.says, str(one.members), str(one.partitions))
    return table
