"""``rebalance-monitor simulate``: the same membership changes under one or several protocols."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import Verbose

if TYPE_CHECKING:
    from streaming.simulate.scenario import Scenario

app = typer.Typer(invoke_without_command=True, subcommand_metavar="")


@app.callback(
    # A command with an argument: options may stand before and after it.
    context_settings={"allow_interspersed_args": True},
    epilog="Example: rebalance-monitor simulate deploy-static --protocol eager --protocol cooperative --svg a.svg",
)
def simulate(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO", help="A YAML or JSON file, - for standard input, or a ready scenario."
        ),
    ] = None,
    *,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol",
            metavar="NAME",
            help="zookeeper, eager-v1, eager, cooperative, connect, consumer, or all. Repeatable.",
            show_default="all",
        ),
    ] = None,
    assignor: Annotated[
        list[str] | None,
        typer.Option(
            "--assignor", metavar="[PROTOCOL=]NAME", help="In place of a protocol's default. Repeatable."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document for programs.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the timelines as a picture.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the ready scenarios.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the scenario as YAML, to edit.")] = False,
    members: Annotated[int | None, typer.Option("--members", help="Members of a ready scenario.")] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="Partitions of a ready scenario.")
    ] = None,
    view_lag_ms: Annotated[
        int, typer.Option("--view-lag-ms", min=0, help="How far ZooKeeper views lag at most.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Of that lag.")] = 0,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Partitions drawn at most in a timeline.")] = 24,
    verbose: Verbose = False,
) -> None:
    """Play a scenario under each protocol: rounds, requests, what moves, and how long partitions stand still."""
    del verbose  # main looks at it for tracebacks
    if list_:
        _list(as_json=as_json)
        return
    from streaming.simulate.choose import pairs
    from streaming.simulate.run import forecast

    name = scenario or ""
    chosen = pairs(protocol or [], assignor or [])
    if show:
        _show(name, members, partitions)
        return
    plan = _load(name, members, partitions)
    forecasts = [
        forecast(plan, one, with_, stretches=bool(svg) or not as_json, view_lag_ms=view_lag_ms, seed=seed)
        for one, with_ in chosen
    ]
    if svg is not None:
        from streaming.simulate.svg import picture

        _write(svg, picture(forecasts, Path(name).stem if name != "-" else "scenario"))
    if as_json:
        import msgspec

        from streaming.simulate.results import document

        typer.echo(msgspec.json.encode(document(forecasts)))
        return
    from streaming.cli.simulate_view import show_forecasts

    show_forecasts(plan, forecasts, rows)


def _text(name: str) -> str | None:
    """What a file or standard input holds; None when there is no such file."""
    import os
    import sys

    from streaming.simulate.scenario import InvalidScenario

    if not name:
        raise InvalidScenario("SCENARIO: missing; a file, - or a ready scenario (--list shows them)")
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidScenario(f"SCENARIO {name}: {os.strerror(error.errno or 0)}") from error
    except UnicodeDecodeError as error:
        raise InvalidScenario(f"SCENARIO {name}: not UTF-8 text") from error


def _load(name: str, members: int | None, partitions: int | None) -> Scenario:
    from streaming.simulate import ready
    from streaming.simulate.parse import loads
    from streaming.simulate.scenario import InvalidScenario

    if name in ready.READY and not Path(name).exists():
        return ready.load(name, members, partitions)
    text = _text(name)
    if text is None:
        return ready.load(name, members, partitions)  # says which there are
    if members is not None or partitions is not None:
        raise InvalidScenario("--members, --partitions: for ready scenarios only; a file says its own")
    return loads(text)


def _show(name: str, members: int | None, partitions: int | None) -> None:
    import yaml

    from streaming.simulate.ready import ready

    document = ready(name, members, partitions)
    typer.echo(
        yaml.safe_dump({"topics": document["topics"]}, sort_keys=False, default_flow_style=None), nl=False
    )
    typer.echo("events:")
    for event in document["events"]:
        typer.echo(
            f"  - {yaml.safe_dump(event, sort_keys=False, default_flow_style=True, width=1000).strip()}"
        )


def _list(*, as_json: bool) -> None:
    from streaming.simulate.ready import READY

    if as_json:
        import msgspec

        for name, one in READY.items():
            line = {"name": name, "says": one.says, "members": one.members, "partitions": one.partitions}
            typer.echo(msgspec.json.encode(line))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("scenario", "what happens", "members", "partitions", box=None, pad_edge=False)
    for name, one in READY.items():
        table.add_row(name, one.says, str(one.members), str(one.partitions))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 110)  # a pipe has no width of its own
    console.print(table)


def _write(path: Path, text: str) -> None:
    import os

    from streaming.simulate.scenario import InvalidScenario

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidScenario(f"--svg {path}: {os.strerror(error.errno or 0)}") from error
