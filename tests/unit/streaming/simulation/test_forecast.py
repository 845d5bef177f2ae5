from typing import Any

from streaming.simulation import forecast
from streaming.simulation.changes import rolling_restart
from streaming.simulation.parse import parse_scenario
from streaming.simulation.scenario import Scenario

_NAMES = ("a", "b", "c")


def _scenario(**more: Any) -> Scenario:
    return parse_scenario(
        {
            "topics": {"t": 6},
            "members": {name: {"owned": {"t": [2 * n, 2 * n + 1]}} for n, name in enumerate(_NAMES)},
            "processing_ms": 0,
            "events": rolling_restart(_NAMES, parallel=1, down_ms=5000, between_ms=25_000),
            **more,
        }
    )


def _costs(plan: Scenario, own: str = "eager", assignor: str | None = None) -> dict[str, forecast.ChangeCost]:
    return {way.name: forecast.simulate_cost(plan, way) for way in forecast.ways(own, assignor)}


def test_static_members_have_downtime_while_they_are_away() -> None:
    costs = _costs(_scenario())
    cost = costs.pop("static")
    assert [cost.simulation.result.rebalances for cost in costs.values()] == [6, 6, 6]
    assert (cost.simulation.result.rebalances, cost.simulation.result.moved) == (0, 0)
    assert 5000 <= cost.worst_ms <= 5010
    assert cost.total_ms == 6 * cost.worst_ms


def test_static_members_down_past_their_session_are_fenced() -> None:
    cost = _costs(_scenario(session_timeout_ms=3000, heartbeat_ms=1000))["static"]
    assert cost.simulation.result.rebalances == 6


def test_group_keeps_its_assignor_if_the_protocol_supports_it() -> None:
    sticky, range_, cooperative = (
        forecast.ways(*own)
        for own in (("eager", "sticky"), ("consumer", "range"), ("cooperative", "cooperative-sticky"))
    )
    assert [way.assignor for way in sticky] == ["sticky", "cooperative-sticky", "sticky", "uniform"]
    assert [way.assignor for way in range_] == ["range", "cooperative-sticky", "range", "range"]
    assert [way.protocol for way in cooperative] == ["eager", "cooperative", "cooperative", "consumer"]


def test_round_count_is_the_same_without_stored_rounds() -> None:
    way = forecast.ways("eager", None)[1]
    kept, counted = (forecast.simulate_cost(_scenario(), way, rounds=rounds) for rounds in (True, False))
    assert counted.simulation.result.rounds == []
    assert counted.simulation.result.round_count == len(kept.simulation.result.rounds) > 6
    assert counted[2:] == kept[2:]


def test_forecast_lists_each_protocol_by_name() -> None:
    costs = list(_costs(_scenario()).values())
    protocols = forecast.forecast_document("g", forecast.Forecast("", "eager", _scenario(), costs, "", ()))["protocols"]
    assert list(protocols) == ["eager", "cooperative", "static", "consumer"]
    assert protocols["static"]["downtime"]["totalMs"] == sum(protocols["static"]["unavailableMs"]["t"].values())
    assert protocols["static"]["downtime"]["worst"] == {"topic": "t", "partition": 0, "ms": costs[2].worst_ms}


def test_new_member_ids_keep_the_order_of_client_ids() -> None:
    """Kafka's member ids begin with the client id, so range's assignments do not depend on the random UUIDs."""
    ids = {name: f"{name}-00000000-0000-0000-0000-00000000000{n}" for n, name in enumerate(_NAMES)}
    members = {name: {"owned": {"t": [2 * n, 2 * n + 1]}, "member_id": ids[name]} for n, name in enumerate(_NAMES)}
    last_round = _costs(_scenario(members=members))["eager"].simulation.result.rounds[-1].after
    assert {name: list(last_round[name]["t"]) for name in _NAMES} == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}


def test_forecast_sentence_names_cost_and_cheapest_protocol() -> None:
    costs = list(_costs(_scenario()).values())
    least = min(costs, key=lambda cost: cost.total_ms)
    assert forecast.cost_sentence(costs, "static", "This deploy") == (
        f"This deploy costs 30 s of downtime, all partitions together; "
        f"{forecast.format_seconds(least.total_ms)} {forecast.PROTOCOL_PHRASES[least.way.name]}."
    )
    assert forecast.cost_sentence(costs, least.way.name, "It").endswith("; no other way costs less.")


def test_kip_848_sessions_use_the_broker_setting() -> None:
    """The broker sets KIP-848 sessions; a client's setting of 3 s must not fence a member that is away for 5 s."""
    short_session_cost, usual = (_costs(_scenario(session_timeout_ms=ms))["consumer"] for ms in (3000, 45_000))
    assert short_session_cost.total_ms == usual.total_ms
