"""The command ``simulate``: the same membership changes under one or several protocols."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.cli.options import AsOneDocument, command, offline
from streaming.simulation import ready_scenarios
from streaming.simulation.document import MAX_JSON, parse_document
from streaming.simulation.parse import load_scenario
from streaming.simulation.scenario import InvalidScenario

if TYPE_CHECKING:
    from streaming.simulation.scenario import Scenario


_Scenario = Annotated[
    str | None,
    typer.Argument(
        metavar="SCENARIO", help="YAML or JSON file, - for standard input, or the name of a ready scenario."
    ),
]
_Protocol = Annotated[
    list[str] | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="zookeeper, eager-v1, eager, cooperative, connect, consumer or all. Repeatable.",
        show_default="all",
    ),
]
_Assignor = Annotated[
    list[str] | None,
    typer.Option(
        "--assignor",
        metavar="[PROTOCOL=]NAME",
        help="Assignor, instead of the protocol's default. Repeatable.",
    ),
]
_List = Annotated[bool, typer.Option("--list", help="List the ready scenarios.")]
_Show = Annotated[bool, typer.Option("--show", help="Print the scenario as YAML.")]
_Members = Annotated[int | None, typer.Option("--members", metavar="N", help="Members of a ready scenario.")]
_Partitions = Annotated[
    int | None, typer.Option("--partitions", metavar="N", help="Partitions of a ready scenario.")
]
_ViewLag = Annotated[
    int, typer.Option("--view-lag-ms", metavar="MS", min=0, help="Longest delay of ZooKeeper watches.")
]
_Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of that delay.")]
_Rows = Annotated[int, typer.Option("--rows", metavar="N", min=0, help="Most partitions in a timeline.")]


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
    from streaming.cli.output import json_lines
    from streaming.cli.simulate_view import ready_scenarios, show_simulations
    from streaming.process.plain import say
    from streaming.process.terminal import console
    from streaming.simulation.event_loop import protocol_assignor_pairs, run_scenario
    from streaming.simulation.ready_scenarios import list_ready_scenarios
    from streaming.simulation.results import simulations_document

    if list_:
        if not as_json:
            console(wide=True).print(ready_scenarios())
            return
        write = json_lines()
        for line in list_ready_scenarios():
            write(line)
        return
    name = scenario or ""
    chosen = protocol_assignor_pairs(protocol or [], assignor or [])
    if show:
        for text in ready_scenario_yaml(name, members, partitions):
            say(text)
        return
    plan = load_scenario_file(name, members, partitions)
    simulations = [
        run_scenario(plan, one, with_, stretches=not as_json, view_lag_ms=view_lag_ms, seed=seed)
        for one, with_ in chosen
    ]
    if as_json:
        json_lines()(simulations_document(simulations))
    else:
        show_simulations(plan, simulations, rows)


#: Standard input, in place of a file's name.
STANDARD_INPUT = "-"


def load_scenario_file(name: str, members: int | None, partitions: int | None) -> Scenario:
    """The scenario of a file, of standard input, or the ready one of this name and size.

    Raises:
        InvalidScenario: it can't be read or played; the message names the event and the field.
        UnknownScenario: there is no such file, and no ready scenario of this name.
    """
    if name in ready_scenarios.READY_SCENARIOS and not Path(name).exists():
        return ready_scenarios.load_ready_scenario(name, members, partitions)
    text = _read_text(name, "SCENARIO")
    if text is None:
        return ready_scenarios.load_ready_scenario(name, members, partitions)  # says which there are
    if members is not None or partitions is not None:
        raise InvalidScenario("--members, --partitions: for ready scenarios only; a file says its own")
    return load_scenario(text)


def load_deploy_file(name: str) -> Any:
    """Return the deploy that the file of ``forecast --deploy``, or standard input, describes.

    Raises:
        InvalidScenario: it can't be read.
    """
    text = _read_text(name, "--deploy") if name else None
    if text is None:
        raise InvalidScenario(f"--deploy {name}: there is no such file; it is a scenario as `simulate` takes")
    return parse_document(text)


def _read_text(name: str, what: str) -> str | None:
    """The text of a file or of standard input, cut just past the limit; None when there is no such file.

    ``what`` names it in a refusal.
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
    """The lines of a ready scenario as a file, one event a line."""
    import yaml

    plain = ready_scenarios.ready_document(name, members, partitions)
    yield from yaml.safe_dump(
        {"topics": plain["topics"]}, sort_keys=False, default_flow_style=None
    ).splitlines()
    yield "events:"
    for event in plain["events"]:
        flow = yaml.safe_dump(event, sort_keys=False, default_flow_style=True, width=1000)
        yield f"  - {flow.strip()}"
