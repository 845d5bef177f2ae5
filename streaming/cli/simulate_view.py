"""Simulations for people: a table of figures, and a timeline of ownership for each protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.table import Table

from streaming.process.plain import printable
from streaming.process.terminal import SafeText, console
from streaming.protocols.families import FAMILIES
from streaming.simulation.ready_scenarios import READY_SCENARIOS
from streaming.simulation.results import OwnershipInterval, Simulation, summarize
from streaming.simulation.scenario import Scenario, ScenarioEvent

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
            for line in _timeline_lines(timeline, plan.events, width):
                screen.print(line, no_wrap=True, overflow="crop")
    if names and rows:
        screen.print()
        screen.print(_member_legend(names))
        screen.print(_sign_legend({happening.kind for happening in plan.events}))


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


def _timeline_lines(timeline: Timeline, events: Sequence[ScenarioEvent], width: int) -> list[SafeText]:
    names = [printable(row.label) for row in timeline.rows]
    label = max(map(len, [*names, "events"]))
    lines = []
    for name, row in zip(names, timeline.rows, strict=True):
        line = SafeText().append(f"{name:>{label}} ", "dim")
        for (glyph, style), run in groupby(map(_glyph, row.cells)):
            line.append(glyph * sum(1 for _ in run), style)
        lines.append(line)
    lines.append(_marked("events", label, _event_marks(events, timeline.end, width)))
    marks = "".join("┆" if column in timeline.marks else " " for column in range(width))
    lines.append(_marked("rounds", label, marks))
    lines.append(SafeText(f"{'':>{label}} {_axis(timeline.end, width)}", "dim"))
    if timeline.hidden:
        lines.append(SafeText(f"{'':>{label}} {timeline.hidden} more partitions (--rows)", "dim"))
    return lines


def _marked(name: str, label: int, marks: str) -> SafeText:
    return SafeText().append(f"{name:>{label}} ", "dim").append(marks.rstrip(), "bold")


def _event_marks(events: Sequence[ScenarioEvent], end: int, width: int) -> str:
    """One character an event; several in one column show the last but joins, which are many."""
    marks = [" "] * width
    for event in events:
        column = min(event.at * width // end, width - 1)
        if event.kind != "join" or marks[column] == " ":
            marks[column] = _EVENTS[event.kind]
    return "".join(marks)


def _axis(end: int, width: int) -> str:
    """Return the labels of the time axis, in whole seconds."""
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


def _member_legend(names: Sequence[str]) -> SafeText:
    line = SafeText()
    for number, name in enumerate(names[:_LEGEND]):
        line.append(_LETTERS[number % len(_LETTERS)], f"black on {_COLOURS[number % len(_COLOURS)]}")
        line.append(f" {name}  ")
    if len(names) > _LEGEND:
        line.append(f"and {len(names) - _LEGEND} more  ", "dim")
    return line


def _sign_legend(kinds: set[str]) -> SafeText:
    happened = "  ".join(f"{mark} {kind}" for kind, mark in _EVENTS.items() if kind in kinds)
    return SafeText(f"· unassigned  ░ unassigned for a part of it  ┆ round known  {happened}", "dim")


def ready_scenarios() -> Table:
    """A row a ready scenario."""
    table = Table("scenario", "what happens", "members", "partitions", box=None, pad_edge=False)
    for name, one in READY_SCENARIOS.items():
        table.add_row(name, one.says, str(one.members), str(one.partitions))
    return table


#: From here on a cell counts as covered: what is missing is rounding.
_WHOLE = 0.999


class Cell(NamedTuple):
    """A piece of one partition's time: who had it longest (an index), and whether nobody had it for a while."""

    member: int | None
    gap: bool


class PartitionRow(NamedTuple):
    """One partition."""

    label: str
    cells: tuple[Cell, ...]


class Timeline(NamedTuple):
    """A picture in cells. ``marks`` are the columns in which a round became known."""

    members: tuple[str, ...]
    rows: tuple[PartitionRow, ...]
    marks: tuple[int, ...]
    end: int
    hidden: int


def member_names(simulations: Sequence[Simulation]) -> tuple[str, ...]:
    """Every member of these simulations in order of joining, so that one colour means one member everywhere."""
    found: dict[str, None] = {}
    for simulation in simulations:
        for record in simulation.result.rounds:
            found |= dict.fromkeys(record.after)
    return tuple(found)


def subscribed_partitions(simulation: Simulation) -> list[tuple[str, int]]:
    """Every partition that the group subscribed to."""
    return [
        (topic, p) for topic, known in sorted(simulation.result.gaps.total.items()) for p in range(len(known))
    ]


def by_partition(simulation: Simulation, end: int) -> dict[tuple[str, int], list[OwnershipInterval]]:
    """The stretches of each partition, in order of time; those of the group at rest last until ``end``."""
    found: dict[tuple[str, int], list[OwnershipInterval]] = {}
    for stretch in simulation.result.gaps.stretches or ():
        lasts = stretch.end == simulation.shown_until
        found.setdefault((stretch.topic, stretch.partition), []).append(
            stretch._replace(end=end) if lasts else stretch
        )
    for stretches in found.values():
        stretches.sort(key=lambda stretch: stretch.start)
    return found


def tick_ms(end: int) -> int:
    """About eight ticks up to ``end``, at round numbers of seconds."""
    for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200):
        if end <= seconds * 9000:
            return seconds * 1000
    return (end // 8000 + 1) * 1000


def draw_timeline(simulation: Simulation, names: Sequence[str], width: int, most: int, end: int) -> Timeline:
    """The forecast up to ``end`` (ms) in ``width`` columns and at most ``most`` rows."""
    index = {name: number for number, name in enumerate(names)}
    stretches = by_partition(simulation, end)
    shown = subscribed_partitions(simulation)[:most]
    rows = tuple(
        PartitionRow(f"{topic}-{p}", tuple(_cells(stretches.get((topic, p), []), index, end, width)))
        for topic, p in shown
    )
    marks = tuple(sorted({min(record.at * width // end, width - 1) for record in simulation.result.rounds}))
    return Timeline(tuple(names), rows, marks, end, len(subscribed_partitions(simulation)) - len(shown))


def _cells(stretches: Sequence[OwnershipInterval], index: dict[str, int], end: int, width: int) -> list[Cell]:
    covered: list[dict[int, float]] = [{} for _ in range(width)]
    for stretch in stretches:
        begin, until = stretch.start * width / end, stretch.end * width / end
        for column in range(int(begin), min(int(until) + 1, width)):
            part = min(until, column + 1) - max(begin, column)
            if part > 0:
                owner = index.get(stretch.member, 0)
                covered[column][owner] = covered[column].get(owner, 0) + part
    return [
        Cell(max(parts, key=lambda owner: parts[owner]) if parts else None, sum(parts.values()) < _WHOLE)
        for parts in covered
    ]
