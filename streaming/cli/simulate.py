"""The command ``simulate``: the same membership changes under one or several protocols."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from assignors.assignment import diff
from streaming.cli.diff_lines import cause_text, share_text
from streaming.cli.options import JsonDocument, flag, offline, option
from streaming.cli.output import answer
from streaming.episodes.story import listed
from streaming.process import print_line
from streaming.process.terminal import SafeText, fold, nowrap, right, table, wide_column
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.simulation import builtin_scenarios
from streaming.simulation.builtin_scenarios import BUILTIN_SCENARIOS
from streaming.simulation.event_loop import protocol_assignor_pairs, run_scenario
from streaming.simulation.parse import MAX_JSON_BYTES, load_scenario, parse_document
from streaming.simulation.results import SimulatedRound, Simulation, simulations_document
from streaming.simulation.scenario import InvalidScenario, Scenario

_SCENARIO_HELP = "YAML or JSON file, - for standard input, or the name of a built-in scenario."
#: The most protocols whose rounds are listed by default.
_MAX_WITH_ROUNDS = 2
_PROTOCOL_HELP = "zookeeper, eager-v1, eager, cooperative, connect, consumer or all. Repeatable."


@offline(
    "rebalance-monitor simulate --list",
    "rebalance-monitor simulate deploy-static --protocol eager --protocol cooperative",
)
def simulate(
    scenario: Annotated[str | None, typer.Argument(metavar="SCENARIO", help=_SCENARIO_HELP)] = None,
    *,
    protocol: list[str] | None = option("NAME", _PROTOCOL_HELP, None, show_default="all"),
    assignor: list[str] | None = option(
        "[PROTOCOL=]NAME", "Assignor, instead of the protocol's default. Repeatable.", None
    ),
    as_json: JsonDocument = False,
    list_: bool = flag("--list", "List the built-in scenarios."),
    show: bool = flag("--show", "Print the scenario as YAML."),
    members: int | None = option("N", "Members of a built-in scenario.", None),
    partitions: int | None = option("N", "Partitions of a built-in scenario.", None),
    view_lag_ms: int = option("MS", "Longest delay of ZooKeeper watches.", 0, min=0),
    seed: int = option("N", "Seed of that delay.", 0),
    rows: int | None = option(
        "N", "Most rounds listed of each protocol.", None, min=0, show_default="24 of one or two protocols, else 0"
    ),
) -> None:
    """Simulate a scenario under each protocol: rounds, requests, moved partitions and downtime."""
    if list_:
        entries = [(name, e.description, e.members, e.partitions) for name, e in BUILTIN_SCENARIOS.items()]
        shown = table(("scenario", "what happens", "members", "partitions"), entries, box=None, pad_edge=False)
        fields = ("name", "says", "members", "partitions")
        answer([dict(zip(fields, entry, strict=True)) for entry in entries], [shown], as_json=as_json)
        return
    name = scenario or ""
    if show:
        for line in builtin_scenario_yaml(name, members, partitions):
            print_line(line)
        return
    plan = load_scenario_file(name, members, partitions)
    simulations = [
        run_scenario(plan, name, assignor_name, view_lag_ms=view_lag_ms, seed=seed)
        for name, assignor_name in protocol_assignor_pairs(protocol or [], assignor or [])
    ]
    document = simulations_document(simulations) if as_json else None
    default_row_count = 24 if len(simulations) <= _MAX_WITH_ROUNDS else 0
    answer([document], simulation_lines(simulations, default_row_count if rows is None else rows), as_json=as_json)


def load_scenario_file(name: str, members: int | None, partitions: int | None) -> Scenario:
    """Return the scenario in a file or standard input, or the built-in scenario with this name and size."""
    text = None if name in BUILTIN_SCENARIOS and not Path(name).exists() else _read_text(name, "SCENARIO")
    if text is None:  # the error about an unknown name lists the built-in scenarios
        return builtin_scenarios.load_builtin_scenario(name, members, partitions)
    if members is not None or partitions is not None:
        raise InvalidScenario("--members, --partitions: only for built-in scenarios; a scenario file sets its own")
    return load_scenario(text)


def load_deploy_file(name: str) -> Any:
    """Return the deployment that the file of ``forecast --deploy``, or standard input, describes."""
    text = _read_text(name, "--deploy") if name else None
    if text is None:
        raise InvalidScenario(f"--deploy {name}: there is no such file; give a scenario file as for `simulate`")
    return parse_document(text)


def _read_text(name: str, what: str) -> str | None:
    """Return the text of a file or of standard input, cut just past the limit; None if the file does not exist.

    ``what``: name of the file's content in error messages.
    """
    if not name:
        raise InvalidScenario(f"{what}: missing; give a file, - (standard input) or a built-in scenario (see --list)")
    try:
        if name == "-":
            return sys.stdin.read(MAX_JSON_BYTES + 1)
        with Path(name).open(encoding="utf-8") as file:
            return file.read(MAX_JSON_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidScenario(f"{what} {name}: {os.strerror(error.errno or 0)}") from error
    except UnicodeDecodeError as error:
        raise InvalidScenario(f"{what} {name}: not UTF-8 text") from error


def builtin_scenario_yaml(name: str, members: int | None, partitions: int | None) -> Iterator[str]:
    """Yield the lines of a built-in scenario as YAML, one event per line."""
    plain = builtin_scenarios.builtin_document(name, members, partitions)
    yield from yaml.safe_dump({"topics": plain["topics"]}, sort_keys=False, default_flow_style=None).splitlines()
    yield "events:"
    for event in plain["events"]:
        yield f"  - {yaml.safe_dump(event, sort_keys=False, default_flow_style=True, width=1000).strip()}"


#: The most members that are listed per round.
_MAX_LISTED_MEMBERS = 20
_COLUMNS = "p·s down: partition-seconds without a consumer · gap: the longest of one partition · rest: settled after"


def simulation_lines(simulations: Sequence[Simulation], max_rows: int) -> Iterator[Table | SafeText]:
    """Yield the comparison of the protocols, then the first ``max_rows`` rounds of each."""
    yield _comparison_table(simulations)
    yield SafeText(_COLUMNS if max_rows else f"{_COLUMNS} · rounds: --protocol NAME, or --rows N", "dim")
    for simulation in simulations:
        if max_rows and simulation.result.rounds:
            yield SafeText()
            yield SafeText(f"{simulation.protocol} ({simulation.assignor})", "bold")
            yield _round_table(simulation, max_rows)


def _comparison_table(simulations: Sequence[Simulation]) -> Table:
    # The rounds' headings name the assignors. The table does so only for non-default assignors, to fit into 80 columns.
    has_assignors = any(run.assignor != PROTOCOL_FAMILIES[run.protocol].default for run in simulations)
    rows = []
    for run in simulations:
        result = run.result
        counts = (result.rebalances, result.round_count, sum(result.requests.values()), result.moved)
        seconds = (f"{ms / 1000:.1f}" for ms in (run.unavailable_ms, result.longest_gap_ms, run.end))
        rows.append((run.protocol, *([run.assignor] if has_assignors else []), *counts, *seconds))
    names = map(nowrap, ("protocol", "assignor")[: 1 + has_assignors])
    numbers = map(right, ("rebalances", "rounds", "requests", "moved", "p·s down", "gap s", "rest s"))
    return table((*names, *numbers), rows, box=None, pad_edge=False)


def _round_table(simulation: Simulation, max_rows: int) -> Table:
    rounds = simulation.result.rounds
    number = "epoch" if simulation.protocol == "consumer" else "generation"
    rows: list[tuple[object, ...]] = []
    for record in rounds[:max_rows]:
        cause = cause_text(record.reason.kind, listed(record.reason.members, _MAX_LISTED_MEMBERS))
        changes = listed(_change_texts(record), _MAX_LISTED_MEMBERS)
        rows.append((f"{record.at / 1000:.1f}", record.number, record.round, cause, changes))
    if len(rounds) > max_rows:
        rows.append(("", "", "", f"{len(rounds) - max_rows} more rounds (--rows)", ""))
    numbers = map(right, ("s", number, "round"))
    return table((*numbers, fold("cause"), wide_column("changes")), rows, box=None, pad_edge=False)


def _change_texts(record: SimulatedRound) -> Iterator[str]:
    """Yield each member's revoked and assigned partitions in a round as ``c1 −t0:2 +t0:4``."""
    for name in dict.fromkeys([*record.before, *record.after]):
        change = diff(record.before.get(name, {}), record.after.get(name, {}))
        shares = ((mark, share_text(share)) for mark, share in (("−", change.revoked), ("+", change.assigned)))
        if moves := [f"{mark}{share}" for mark, share in shares if share]:
            yield " ".join((name, *moves))
