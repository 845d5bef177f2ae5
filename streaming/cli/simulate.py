"""The command ``simulate``: the same membership changes under one or several protocols.

People see a table of figures, and for each protocol a timeline of who owned each partition.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from streaming.cli.options import AsOneDocument, command, flag, offline, option
from streaming.cli.output import answer
from streaming.process.plain import printable, say_lines
from streaming.process.terminal import SafeText, console, right, table, whole
from streaming.protocols.families import FAMILIES
from streaming.simulation import ready_scenarios
from streaming.simulation.document import MAX_JSON, parse_document
from streaming.simulation.event_loop import protocol_assignor_pairs, run_scenario
from streaming.simulation.parse import load_scenario
from streaming.simulation.ready_scenarios import READY_SCENARIOS
from streaming.simulation.results import Simulation, simulations_document
from streaming.simulation.scenario import InvalidScenario, Scenario, ScenarioEvent

_SCENARIO = "YAML or JSON file, - for standard input, or the name of a ready scenario."
_Scenario = Annotated[str | None, typer.Argument(metavar="SCENARIO", help=_SCENARIO)]
_PROTOCOL = "zookeeper, eager-v1, eager, cooperative, connect, consumer or all. Repeatable."
_Protocol = Annotated[list[str] | None, option("--protocol", "NAME", _PROTOCOL, show_default="all")]
_Assignor = Annotated[
    list[str] | None,
    option("--assignor", "[PROTOCOL=]NAME", "Assignor, instead of the protocol's default. Repeatable."),
]
_List = Annotated[bool, flag("--list", "List the ready scenarios.")]
_Show = Annotated[bool, flag("--show", "Print the scenario as YAML.")]
_Members = Annotated[int | None, option("--members", "N", "Members of a ready scenario.")]
_Partitions = Annotated[int | None, option("--partitions", "N", "Partitions of a ready scenario.")]
_ViewLag = Annotated[int, option("--view-lag-ms", "MS", "Longest delay of ZooKeeper watches.", min=0)]
_Seed = Annotated[int, option("--seed", "N", "Seed of that delay.")]
_Rows = Annotated[int, option("--rows", "N", "Most partitions in a timeline.", min=0)]


@command(
    "rebalance-monitor simulate --list",
    "rebalance-monitor simulate deploy-static --protocol eager --protocol cooperative",
)
@offline
def simulate(
    scenario: _Scenario = None,
    *,
    protocol: _Protocol = None,
    assignor: _Assignor = None,
    as_json: AsOneDocument = False,
    list_: _List = False,
    show: _Show = False,
    members: _Members = None,
    partitions: _Partitions = None,
    view_lag_ms: _ViewLag = 0,
    seed: _Seed = 0,
    rows: _Rows = 24,
) -> None:
    """Simulate a scenario under each protocol: rounds, requests, moved partitions and downtime."""
    if list_:
        ready = ready_scenarios.list_ready_scenarios()
        lines = ((name, one.description, one.members, one.partitions) for name, one in READY_SCENARIOS.items())
        heads = ("scenario", "what happens", "members", "partitions")
        shown = table(heads, lines, box=None, pad_edge=False)
        answer(ready, lambda: console(wide=True).print(shown), as_json=as_json)
        return
    name = scenario or ""
    if show:
        say_lines(ready_scenario_yaml(name, members, partitions))
        return
    plan = load_scenario_file(name, members, partitions)
    simulations = [
        run_scenario(plan, name, with_, stretches=not as_json, view_lag_ms=view_lag_ms, seed=seed)
        for name, with_ in protocol_assignor_pairs(protocol or [], assignor or [])
    ]
    document = simulations_document(simulations) if as_json else None
    answer([document], lambda: show_simulations(plan, simulations, rows), as_json=as_json)


#: Standard input, in place of a file's name.
STANDARD_INPUT = "-"


def load_scenario_file(name: str, members: int | None, partitions: int | None) -> Scenario:
    """Return the scenario of a file, of standard input, or the ready one of this name and size."""
    if name in READY_SCENARIOS and not Path(name).exists():
        return ready_scenarios.load_ready_scenario(name, members, partitions)
    text = _read_text(name, "SCENARIO")
    if text is None:
        return ready_scenarios.load_ready_scenario(name, members, partitions)  # lists them in its error
    if members is not None or partitions is not None:
        raise InvalidScenario("--members, --partitions: for ready scenarios only; a file has its own")
    return load_scenario(text)


def load_deploy_file(name: str) -> Any:
    """Return the deploy that the file of ``forecast --deploy``, or standard input, describes."""
    text = _read_text(name, "--deploy") if name else None
    if text is None:
        raise InvalidScenario(f"--deploy {name}: there is no such file; it is a scenario as `simulate` takes")
    return parse_document(text)


def _read_text(name: str, what: str) -> str | None:
    """Return the text of a file or of standard input, cut just past the limit; None if there is no such file.

    ``what`` names it in an error.
    """
    if not name:
        raise InvalidScenario(f"{what}: missing; a file, - or a ready scenario (--list shows them)")
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.read(MAX_JSON + 1)
        with Path(name).open(encoding="utf-8") as file:
            return file.read(MAX_JSON + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidScenario(f"{what} {name}: {os.strerror(error.errno or 0)}") from error
    except UnicodeDecodeError as error:
        raise InvalidScenario(f"{what} {name}: not UTF-8 text") from error


def ready_scenario_yaml(name: str, members: int | None, partitions: int | None) -> Iterator[str]:
    """Yield the lines of a ready scenario as a file, one event a line."""
    plain = ready_scenarios.ready_document(name, members, partitions)
    yield from yaml.safe_dump({"topics": plain["topics"]}, sort_keys=False, default_flow_style=None).splitlines()
    yield "events:"
    for event in plain["events"]:
        flow = yaml.safe_dump(event, sort_keys=False, default_flow_style=True, width=1000)
        yield f"  - {flow.strip()}"


_COLOURS = (*("blue", "dark_orange", "green", "magenta", "cyan"), *("red", "yellow", "purple", "bright_blue", "orchid"))
#: Members by letter, so that a timeline also reads without colour.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: Members that the legend names.
_MAX_NAMED = 24
#: Kind of an event → its character on the line of events.
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
#: From this share on a cell counts as covered: what is missing is rounding.
_COVERED = 0.999

#: A piece of one partition's time: its main owner (an index), and whether a part of it was without an owner.
Cell = tuple[int | None, bool]


def show_simulations(plan: Scenario, simulations: Sequence[Simulation], max_rows: int) -> None:
    """Print the comparison, then the timelines, all on one scale."""
    screen = console()
    screen.print(_comparison(simulations))
    screen.print(
        SafeText(
            "p·s down: partition-seconds without a consumer · gap: the longest of one partition · rest: settled after",
            "dim",
        )
    )
    # Every member in order of joining, so that one colour means one member everywhere.
    rounds = (record for simulation in simulations for record in simulation.result.rounds)
    names = list(dict.fromkeys(member for record in rounds for member in record.after))
    width = max(min(screen.width - 24, 120), 20)
    end = max((simulation.shown_until for simulation in simulations), default=1)
    for simulation in simulations:
        if max_rows and simulation.result.gaps.total:
            screen.print()
            screen.print(SafeText(f"{simulation.protocol} ({simulation.assignor})", "bold"))
            for line in _timeline(simulation, names, plan.events, width=width, max_rows=max_rows, end=end):
                screen.print(line, no_wrap=True, overflow="crop")
    if names and max_rows:
        screen.print()
        screen.print(_member_legend(names))
        kinds = {event.kind for event in plan.events}
        marks = "  ".join(f"{mark} {kind}" for kind, mark in _EVENTS.items() if kind in kinds)
        screen.print(SafeText(f"· unassigned  ░ unassigned for a part of it  ┆ round known  {marks}", "dim"))


def _comparison(simulations: Sequence[Simulation]) -> Table:
    # The timelines name the assignors; here only if one is not the default, so that 80 columns are enough.
    has_assignors = any(run.assignor != FAMILIES[run.protocol].default for run in simulations)
    rows = []
    for run in simulations:
        result = run.result
        counts = (result.rebalances, result.round_count, sum(result.requests.values()), result.moved)
        seconds = (f"{ms / 1000:.1f}" for ms in (run.unavailable_ms, result.gaps.longest, run.end))
        rows.append((run.protocol, *([run.assignor] if has_assignors else []), *counts, *seconds))
    names = map(whole, ("protocol", "assignor")[: 1 + has_assignors])
    numbers = map(right, ("rebalances", "rounds", "requests", "moved", "p·s down", "gap s", "rest s"))
    return table((*names, *numbers), rows, box=None, pad_edge=False)


def _timeline(
    simulation: Simulation,
    names: Sequence[str],
    events: Sequence[ScenarioEvent],
    *,
    width: int,
    max_rows: int,
    end: int,
) -> Iterator[SafeText]:
    rows = partition_cells(simulation, names, width, end)
    shown = {printable(name): cells for name, cells in list(rows.items())[:max_rows]}
    label = max(map(len, [*shown, "events"]))
    for name, cells in shown.items():
        line = SafeText().append(f"{name:>{label}} ", "dim")
        for (glyph, style), run in groupby(map(_glyph, cells)):
            line.append(glyph * sum(1 for _ in run), style)
        yield line
    rounds = {min(record.at * width // end, width - 1) for record in simulation.result.rounds}
    marks = "".join("┆" if column in rounds else " " for column in range(width))
    for name, text in (("events", _event_marks(events, end, width)), ("rounds", marks)):
        yield SafeText().append(f"{name:>{label}} ", "dim").append(text.rstrip(), "bold")
    yield SafeText(f"{'':>{label}} {_axis(end, width)}", "dim")
    if len(rows) > len(shown):
        yield SafeText(f"{'':>{label}} {len(rows) - len(shown)} more partitions (--rows)", "dim")


def partition_cells(simulation: Simulation, names: Sequence[str], width: int, end: int) -> dict[str, list[Cell]]:
    """Return each subscribed partition's time up to ``end`` (ms) in ``width`` cells, by ``topic-partition``."""
    gaps = simulation.result.gaps
    covered: dict[str, list[dict[int, float]]] = {
        f"{topic}-{partition}": [{} for _ in range(width)]
        for topic, partitions in sorted(gaps.total.items())
        for partition in range(len(partitions))
    }
    index = {name: number for number, name in enumerate(names)}
    for interval in sorted(gaps.stretches or (), key=lambda interval: interval.start):
        is_last = interval.end == simulation.shown_until  # the group is at rest until the common end
        begin = interval.start * width / end
        until = (end if is_last else interval.end) * width / end
        columns = covered[f"{interval.topic}-{interval.partition}"]
        owner = index.get(interval.member, 0)
        for column in range(int(begin), min(int(until) + 1, width)):
            part = min(until, column + 1) - max(begin, column)
            if part > 0:
                columns[column][owner] = columns[column].get(owner, 0) + part
    return {
        name: [
            (max(parts, key=lambda owner: parts[owner]) if parts else None, sum(parts.values()) < _COVERED)
            for parts in columns
        ]
        for name, columns in covered.items()
    }


def _event_marks(events: Sequence[ScenarioEvent], end: int, width: int) -> str:
    """Return one character an event; several in one column show the last but joins, which are many."""
    marks = [" "] * width
    for event in sorted(events, key=lambda event: event.kind != "join"):
        marks[min(event.at * width // end, width - 1)] = _EVENTS[event.kind]
    return "".join(marks)


def _axis(end: int, width: int) -> str:
    line = [" "] * (width + 8)
    for at in range(0, end, tick_ms(end)):
        text = f"{at // 1000} s"
        column = at * width // end
        if column + len(text) <= width:
            line[column : column + len(text)] = text
    return "".join(line).rstrip()


def tick_ms(end: int) -> int:
    """Return the interval of about eight ticks up to ``end``, at round numbers of seconds."""
    steps = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
    return next((seconds * 1000 for seconds in steps if end <= seconds * 9000), (end // 8000 + 1) * 1000)


def _glyph(cell: Cell) -> tuple[str, str]:
    member, has_gap = cell
    if member is None:
        return "·", "dim"
    colour = _COLOURS[member % len(_COLOURS)]
    return ("░", colour) if has_gap else (_LETTERS[member % len(_LETTERS)], f"black on {colour}")


def _member_legend(names: Sequence[str]) -> SafeText:
    line = SafeText()
    for number, name in enumerate(names[:_MAX_NAMED]):
        line.append(_LETTERS[number % len(_LETTERS)], f"black on {_COLOURS[number % len(_COLOURS)]}")
        line.append(f" {name}  ")
    return line.append(f"and {len(names) - _MAX_NAMED} more  " if len(names) > _MAX_NAMED else "", "dim")
