from __future__ import annotations

import pytest

from streaming.cli.simulate import simulation_lines
from streaming.process.terminal import show
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from tests.support.machines import scenario

TEXT = scenario("t: 2", "at: 0, join: a", "at: 60000, crash: a", "at: 61000, join: b")


def lines(text: str, rows: int, capsys: pytest.CaptureFixture[str], assignor: str | None = None) -> list[str]:
    show(simulation_lines([run_scenario(load_scenario(text), "eager", assignor)], rows))
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_figures_then_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(TEXT, 1, capsys)
    assert shown[0].split() == [
        *("protocol", "rebalances", "rounds", "requests", "moved"),
        *("p·s", "down", "gap", "s", "rest", "s"),
    ]
    begin = shown.index("eager (range)")
    assert shown[begin - 1] == ""
    assert [line.split() for line in shown[begin + 1 :]] == [
        ["s", "generation", "round", "cause", "changes"],
        ["3.0", "1", "1", "a", "joined", "a", "+t:0-1"],
        ["1", "more", "rounds", "(--rows)"],
    ]


@pytest.mark.parametrize(("members", "rest"), [(20, ""), (21, " and 1 more"), (40, " and 20 more")])
def test_first_members_are_named_and_the_rest_counted(
    members: int, rest: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    text = scenario("t: 40", *(f"at: 0, join: m{number:02}" for number in range(members)))
    row = lines(text, 1, capsys)[-1]
    assert f"m18, m19{rest} joined" in row
    assert row.endswith(rest or "m19 +t:38-39")


def test_requested_assignor_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(TEXT, 0, capsys, "sticky")
    assert shown[0].split()[:3] == ["protocol", "assignor", "rebalances"]
    assert shown[1].split()[:2] == ["eager", "sticky"]
    assert len(shown) == 3
