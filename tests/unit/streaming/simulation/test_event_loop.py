from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from assignors.errors import BadInput
from assignors.model import Topic
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.protocols.vocabulary import (
    CoordinatorFails,
    EventScheduled,
    GroupEvent,
    RequestCount,
    Setup,
    TimingModel,
)
from streaming.simulation import event_loop
from streaming.simulation.event_loop import make_timing, run_scenario, seeded_lag
from streaming.simulation.parse import load_scenario
from tests.support.machines import scenario

DAY_MS = 86_400_000
SCENARIO_TEXT = scenario("t: 2", "at: 0, join: a", "at: 5000, leave: a")


class RequesterWithoutEnd:
    """A fake protocol: its first event schedules another at the time ``at``, which outputs a heartbeat."""

    name = "restless"

    setup = Setup()

    def __init__(self, at: int) -> None:
        self.at = at

    def initial(self, topics: Mapping[str, Topic]) -> int:
        del topics
        return 0

    def apply(self, group: int, event: GroupEvent) -> tuple[int, tuple[Any, ...]]:
        if event.at == self.at:
            return group, (RequestCount("Heartbeat", 1),)
        return group + 1, (EventScheduled(CoordinatorFails(self.at)),) if group == 0 else ()

    def heartbeats(self, group: int, at: int) -> Iterator[Any]:
        del group, at
        return iter(())


def test_simulation_ends_after_a_day_plus_the_longest_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 5000 + DAY_MS + TimingModel().scheduled_rebalance_delay_ms
    monkeypatch.setattr(event_loop, "machine", lambda *_: RequesterWithoutEnd(limit))
    assert run_scenario(load_scenario(SCENARIO_TEXT), "eager").end == limit
    monkeypatch.setattr(event_loop, "machine", lambda *_: RequesterWithoutEnd(limit + 1))
    with pytest.raises(BadInput, match=r"^restless: the group is not stable 86700000 ms after the last"):
        run_scenario(load_scenario(SCENARIO_TEXT), "eager")


@pytest.mark.parametrize("timeout", ["session_timeout_ms", "rebalance_timeout_ms", "scheduled_rebalance_delay_ms"])
@pytest.mark.parametrize("timeout_ms", [DAY_MS, DAY_MS + 1, 30 * DAY_MS // 2, 2**31 - 1])
@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_pending_timer_does_not_prevent_settling(protocol: str, timeout: str, timeout_ms: int) -> None:
    events = ("at: 0, join: a", "at: 0, join: b", "at: 30000, bounce: a, down_ms: 4000", "at: 90000, leave: b")
    text = scenario("t: 2", *events)
    usual, long = (run_scenario(load_scenario(lines + text), protocol) for lines in ("", f"{timeout}: {timeout_ms}\n"))
    assert (long.end, long.result.moved) == (usual.end, usual.result.moved)


def test_crash_is_noticed_when_the_session_ends() -> None:
    text = scenario("t: 2", "at: 0, join: a", "at: 0, join: b", "at: 30000, crash: b")
    simulation_with_timeout = run_scenario(load_scenario(f"session_timeout_ms: {2**31 - 1}\n{text}"), "eager")
    assert simulation_with_timeout.end > 2**31 - 1
    assert simulation_with_timeout.result.longest_gap_ms > 2**31 - 30_000


@pytest.mark.parametrize(
    ("session_ms", "rebalance_ms", "heartbeats_ms"),
    [
        (45_000, 60_000, (3000, 5000)),
        (15_000, 60_000, (3000, 5000)),
        (14_999, 60_000, (3000, 4999)),
        (60_000, 9000, (3000, 3000)),
        (60_000, 8999, (2999, 2999)),
        (2, 60_000, (1, 1)),
    ],
)
def test_timeouts_cover_three_heartbeats(session_ms: int, rebalance_ms: int, heartbeats_ms: tuple[int, int]) -> None:
    timeouts = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms}
    text = scenario("t: 1", "at: 0, join: a", **timeouts, scheduled_rebalance_delay_ms=7, metadata_max_age_ms=9)
    assert make_timing(load_scenario(text)) == TimingModel(
        heartbeat_ms=heartbeats_ms[0],
        consumer_heartbeat_ms=heartbeats_ms[1],
        **timeouts,
        scheduled_rebalance_delay_ms=7,
        metadata_age_ms=9,
    )


def test_omitted_scenario_fields_have_kafkas_defaults() -> None:
    scenario = load_scenario(SCENARIO_TEXT)
    assert (scenario.session_timeout_ms, scenario.rebalance_timeout_ms) == (45_000, 60_000)
    assert (scenario.scheduled_rebalance_delay_ms, scenario.metadata_max_age_ms) == (300_000, 0)


def test_lag_varies_by_consumer_change_and_seed_within_bounds() -> None:
    lags = [seeded_lag(seed, 3)(name, change) for seed in (1, 2) for name in "ab" for change in range(50)]
    assert set(lags) == {0, 1, 2, 3}
    assert lags[:50] != lags[50:100] != lags[100:150]
    assert {seeded_lag(1, 0)("a", change) for change in range(9)} == {0}
