from __future__ import annotations

import pytest

from streaming.cli.simulate import show_simulations
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from tests.support.machines import scenario

TEXT = scenario("t: 2", "at: 0, join: a", "at: 60000, crash: a", "at: 61000, join: b")


def test_figures_then_timelines_with_events_and_rounds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    plan = load_scenario(TEXT)
    show_simulations(plan, [run_scenario(plan, "eager", stretches=True)], 1)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].split() == [
        *("protocol", "rebalances", "rounds", "requests", "moved"),
        *("p·s", "down", "gap", "s", "rest", "s"),
    ]
    begin = lines.index("eager (range)")
    assert lines[begin - 1] == ""
    assert lines[begin + 1 : begin + 7] == [
        "   t-0 ·░AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA░·························░BBB",
        "events +                                   x+",
        "rounds  ┆                                                            ┆",
        "       0 s         20 s        40 s        60 s         80 s        100 s",
        "       1 more partitions (--rows)",
        "",
    ]
    assert lines[begin + 7 :] == [
        "A a  B b",
        "· unassigned  ░ unassigned for a part of it  ┆ round known  + join  x crash",
    ]


@pytest.mark.parametrize(("members", "rest"), [(24, ""), (25, "and 1 more"), (40, "and 16 more")])
def test_first_members_are_named_and_the_rest_counted(
    members: int, rest: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    plan = load_scenario(scenario("t: 40", *(f"at: 0, join: m{number:02}" for number in range(members))))
    show_simulations(plan, [run_scenario(plan, "eager", stretches=True)], 1)
    legend = capsys.readouterr().out.splitlines()[-2]
    assert legend.split("  ")[0] == "A m00"
    assert (" m23" in legend, " m24" in legend) == (True, False)
    assert legend.rstrip().endswith(rest or "m23")


def test_requested_assignor_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    plan = load_scenario(TEXT)
    show_simulations(plan, [run_scenario(plan, "eager", "sticky", stretches=True)], 0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["protocol", "assignor", "rebalances"]
    assert lines[1].split()[:2] == ["eager", "sticky"]


def test_events_after_the_end_are_drawn_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    plan = load_scenario(
        scenario("t: 1", "at: 0, join: a, instance_id: i", "at: 9000, join: b, instance_id: i", "at: 99000, leave: a")
    )
    show_simulations(plan, [run_scenario(plan, "eager", stretches=True)], 1)
    (events,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("events "))
    assert (len(events), events.rstrip()[-1], events.count("-")) == (7 + 66, "-", 1)
