"""``rebalance-monitor simulate``: the same membership changes under one or several protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.options import command, offline

_Scenario = Annotated[
    str | None,
    typer.Argument(
        metavar="SCENARIO", help="A YAML or JSON file, - for standard input, or a ready scenario."
    ),
]
_Protocol = Annotated[
    list[str] | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="zookeeper, eager-v1, eager, cooperative, connect, consumer, or all. Repeatable.",
        show_default="all",
    ),
]
_Assignor = Annotated[
    list[str] | None,
    typer.Option(
        "--assignor", metavar="[PROTOCOL=]NAME", help="In place of a protocol's default. Repeatable."
    ),
]
_OneDocument = Annotated[bool, typer.Option("--json", help="One JSON document for programs.")]
_Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Write the timelines as a picture.")]
_List = Annotated[bool, typer.Option("--list", help="List the ready scenarios.")]
_Show = Annotated[bool, typer.Option("--show", help="Print the scenario as YAML, to edit.")]
_Members = Annotated[int | None, typer.Option("--members", help="Members of a ready scenario.")]
_Partitions = Annotated[int | None, typer.Option("--partitions", help="Partitions of a ready scenario.")]
_ViewLag = Annotated[int, typer.Option("--view-lag-ms", min=0, help="How far ZooKeeper views lag at most.")]
_Seed = Annotated[int, typer.Option("--seed", help="Of that lag.")]
_Rows = Annotated[int, typer.Option("--rows", min=0, help="Partitions drawn at most in a timeline.")]


@command(
    "Example: rebalance-monitor simulate deploy-static --protocol eager --protocol cooperative --svg a.svg",
    subcommand_metavar="",
    interspersed=True,
)
@offline
def simulate(
    scenario: _Scenario = None,
    *,
    protocol: _Protocol = None,
    assignor: _Assignor = None,
    as_json: _OneDocument = False,
    svg: _Svg = None,
    list_: _List = False,
    show: _Show = False,
    members: _Members = None,
    partitions: _Partitions = None,
    view_lag_ms: _ViewLag = 0,
    seed: _Seed = 0,
    rows: _Rows = 24,
) -> None:
    """Play a scenario under each protocol: rounds, requests, what moves, and how long partitions stand still."""
    from streaming.answers import forecast as ask
    from streaming.answers.output import json_lines
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
        for text in ask.as_yaml(name, members, partitions):
            say(text)
        return
    plan = ask.load(name, members, partitions)
    simulations = [
        run_scenario(plan, one, with_, stretches=bool(svg) or not as_json, view_lag_ms=view_lag_ms, seed=seed)
        for one, with_ in chosen
    ]
    if svg is not None:
        from streaming.simulation.timeline import render_svg

        title = "scenario" if name == ask.STANDARD_INPUT else Path(name).stem
        ask.write_picture(svg, render_svg(simulations, title))
    if as_json:
        json_lines()(simulations_document(simulations))
    else:
        show_simulations(plan, simulations, rows)
