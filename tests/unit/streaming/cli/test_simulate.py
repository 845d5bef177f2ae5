"""The command ``simulate`` as users start it: the sources of a scenario, and the output formats."""

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from streaming.cli.simulate import simulation_lines
from streaming.process.terminal import show
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from streaming.simulation.results import simulations_document
from tests.support.machines import scenario

SCENARIO_TEXT = scenario("t: 2", "at: 0, join: a", "at: 60000, crash: a", "at: 61000, join: b")
ONLY_BUILT_IN = "--members, --partitions: only for built-in scenarios; a scenario file sets its own"
SimulateCommand = Callable[..., tuple[int, str, str]]


@pytest.fixture
def simulate(command: Callable[..., tuple[int, str, str]]) -> SimulateCommand:
    return partial(command, "simulate")


def answer(*protocols: str) -> dict[str, object]:
    plan = load_scenario(SCENARIO_TEXT)
    return json.loads(json.dumps(simulations_document([run_scenario(plan, protocol) for protocol in protocols])))


def test_scenario_is_read_from_file_or_standard_input(simulate: SimulateCommand, tmp_path: Path) -> None:
    file = tmp_path / "crash.yaml"
    file.write_text(SCENARIO_TEXT)
    options = ("--protocol", "eager", "--protocol", "consumer", "--json")
    for name, stdin in ((str(file), ""), ("-", SCENARIO_TEXT)):
        status, out, errors = simulate(name, *options, stdin=stdin)
        assert (status, json.loads(out), errors) == (0, answer("eager", "consumer"), "")


@pytest.mark.parametrize(
    ("options", "tables"),
    [((), 0), (("--protocol", "eager", "--protocol", "cooperative"), 2), (("--rows", "1"), 6), (("--rows", "0"), 0)],
)
def test_rounds_of_many_protocols_are_listed_on_request(
    simulate: SimulateCommand, options: tuple[str, ...], tables: int
) -> None:
    _, out, _ = simulate("crash", *options)
    assert len(re.findall(r"(?m)^ *s +(generation|epoch) +round", out)) == tables
    assert ("rounds: --protocol NAME, or --rows N" in out) == (tables == 0)
    assert len(out.splitlines()) < 25 or tables


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        ([], "", "SCENARIO: missing; give a file, - (standard input) or a built-in scenario (see --list)"),
        (["-"], "", "scenario: Expected `object`, got `null`"),
        (["-", "--members", "3"], SCENARIO_TEXT, ONLY_BUILT_IN),
        (["-", "--partitions", "3"], SCENARIO_TEXT, ONLY_BUILT_IN),
        (["{folder}"], "", "SCENARIO {folder}: Is a directory"),
        (["{folder}/latin-1"], "", "SCENARIO {folder}/latin-1: not UTF-8 text"),
    ],
)
def test_invalid_scenario_is_reported_in_one_line(
    simulate: SimulateCommand, tmp_path: Path, arguments: list[str], stdin: str, message: str
) -> None:
    (tmp_path / "latin-1").write_bytes("é: 1".encode("latin-1"))
    words = [argument.format(folder=tmp_path) for argument in arguments]
    assert simulate(*words, stdin=stdin) == (2, "", f"error: {message.format(folder=tmp_path)}\n")


def test_unknown_scenario_lists_the_available_ones(simulate: SimulateCommand) -> None:
    status, out, errors = simulate("no-such-thing")
    assert (status, out) == (2, "")
    assert "no-such-thing" in errors
    assert "deploy-static" in errors


def test_printed_built_in_scenario_gives_the_same_result(simulate: SimulateCommand) -> None:
    status, shown, _ = simulate("crash", "--members", "3", "--partitions", "5", "--show")
    assert status == 0
    _, edited_output, _ = simulate("-", "--json", stdin=shown)
    _, ready, _ = simulate("crash", "--members", "3", "--partitions", "5", "--json")
    assert json.loads(edited_output) == json.loads(ready)


def test_list_names_every_built_in_scenario(simulate: SimulateCommand) -> None:
    _, lines, _ = simulate("--list", "--json")
    names = [json.loads(line)["name"] for line in lines.splitlines()]
    _, table, _ = simulate("--list")
    assert names
    header, *rows = table.splitlines()
    assert header.split() == ["scenario", "what", "happens", "members", "partitions"]
    assert [row.split("  ")[0] for row in rows] == names


def test_zookeeper_view_lag_depends_on_the_seed(simulate: SimulateCommand) -> None:
    arguments_with_lag = ("crash", "--protocol", "zookeeper", "--view-lag-ms", "900", "--json", "--seed")
    first, again, other_seed_result = (simulate(*arguments_with_lag, seed)[1] for seed in ("1", "1", "2"))
    assert first == again
    assert first != other_seed_result


@pytest.mark.parametrize(("members", "rest"), [(20, ""), (21, " and 1 more"), (40, " and 20 more")])
def test_first_members_are_named_and_the_rest_counted(
    members: int, rest: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    text = scenario("t: 40", *(f"at: 0, join: m{number:02}" for number in range(members)))
    show(simulation_lines([run_scenario(load_scenario(text), "eager")], 1))
    row = capsys.readouterr().out.splitlines()[-1].rstrip()
    assert f"m18, m19{rest} joined" in row
    assert row.endswith(rest or "m19 +t:38-39")


GOLDEN_FOLDER = Path(__file__).parents[3] / "golden/streaming/cli"

#: Text output is compared with reviewed files; ``WRITE_RECORDED=1`` updates them.
OPTIONS_BY_FILE: dict[str, tuple[str, ...]] = {
    "simulate-all": ("two-bounces", "--rows", "24"),
    "simulate-assignor": ("scale-out", "--protocol", "eager", "--assignor", "sticky", "--rows", "3"),
    "simulate-flapping": ("flapping", "--members", "12", "--protocol", "cooperative"),
    "simulate-growth": ("partition-growth", "--partitions", "30", "--protocol", "consumer"),
    "simulate-pause": ("long-gc", "--members", "1", "--protocol", "connect"),
    "simulate-list": ("--list",),
    "simulate-show": ("classic-to-consumer", "--members", "2", "--partitions", "3", "--show"),
}


@pytest.mark.parametrize("name", OPTIONS_BY_FILE)
def test_text_output_equals_the_stored_output(
    name: str, simulate: SimulateCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, shown, errors = simulate(*OPTIONS_BY_FILE[name])
    assert (status, errors) == (0, "")
    file = GOLDEN_FOLDER / f"{name}.txt"
    if os.environ.get("WRITE_RECORDED"):
        file.write_text(shown)
    assert shown == file.read_text()
