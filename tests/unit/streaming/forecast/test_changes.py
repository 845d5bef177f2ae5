from __future__ import annotations

import pytest

from streaming.forecast.changes import BEGIN_MS, rolling_restart, scaled
from streaming.simulate.scenario import InvalidScenario


def test_a_rolling_restart_takes_members_in_turn_and_some_at_once() -> None:
    events = rolling_restart(["a", "b", "c"], parallel=2, down_ms=20_000, between_ms=30_000)

    assert events == [
        {"at": BEGIN_MS, "bounce": "a", "down_ms": 20_000},
        {"at": BEGIN_MS, "bounce": "b", "down_ms": 20_000},
        {"at": BEGIN_MS + 50_000, "bounce": "c", "down_ms": 20_000},
    ]


def test_new_members_have_names_of_their_own() -> None:
    assert [event["join"] for event in scaled(["a", "new-2"], 4)] == ["new-1", "new-3"]


def test_the_last_members_leave() -> None:
    assert [event["leave"] for event in scaled(["a", "b", "c"], 1)] == ["b", "c"]


@pytest.mark.parametrize("to", [0, 2])
def test_no_change(to: int) -> None:
    with pytest.raises(InvalidScenario, match=f"--scale {to}: the group has 2 members"):
        scaled(["a", "b"], to)
