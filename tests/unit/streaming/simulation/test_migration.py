from typing import Any, cast

import pytest

from streaming.records.diffs import MemberNames
from streaming.simulation.changes import NoForecast, RollingRestart
from streaming.simulation.forecast import simulate_cost, ways
from streaming.simulation.live_group import LiveMember
from streaming.simulation.migration import parse_targets, plan_migration, recent_steps
from streaming.simulation.parse import parse_scenario
from tests.support.compacted import checkout_group, episode_records
from tests.unit.streaming.simulation.test_baseline import group, member

ROLLING_RESTART = RollingRestart(parallel=1, down_ms=3000, between_ms=27_000)
NAMES = ("a", "b")


def live_members_a_and_b(**more: Any) -> list[LiveMember]:
    return [member(name, 2 * number, 2 * number + 1, **more) for number, name in enumerate(NAMES)]


def path(to: str, *members: LiveMember, **more: Any) -> dict[str, Any]:
    plan = plan_migration(group(*members, **more), [to], restart=ROLLING_RESTART, times={"processing_ms": 0})
    return cast("dict[str, Any]", plan["targets"][to])


def rebalances(migration: dict[str, Any]) -> list[int | None]:
    """Return the number of rebalances that is forecast for each migration step."""
    forecasts = [step["forecast"] for step in migration["steps"]]
    return [forecast and forecast["rebalances"] for forecast in forecasts]


def obstacles(migration: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(obstacle["name"], obstacle["reason"], obstacle["step"]) for obstacle in migration["inTheWay"]]


def test_without_cooperative_assignor_two_restarts_are_needed() -> None:
    migration = path("cooperative", *live_members_a_and_b(assignors=("range",)))
    assert migration["state"] == "ready"
    assert obstacles(migration) == [(name, "lists range, without cooperative-sticky", 1) for name in NAMES]
    assert [step["says"].partition(" partition.")[0] for step in migration["steps"]] == [
        "Rolling restart with cooperative-sticky added to",
        "Rolling restart with cooperative-sticky alone in",
    ]
    assert rebalances(migration) == [4, 4]


def test_default_assignor_lists_need_one_restart() -> None:
    migration = path("cooperative", *live_members_a_and_b(assignors=("range", "cooperative-sticky")))
    reason = "lists range, cooperative-sticky: it gives up all before it joins"
    assert obstacles(migration) == [(name, reason, 1) for name in NAMES]
    assert len(migration["steps"]) == 1


def test_first_restart_is_of_members_without_cooperative() -> None:
    members = member("a", 0, 1, assignors=("range", "cooperative-sticky")), member("b", 2, 3, assignors=("range",))
    migration = path("cooperative", *members)
    assert rebalances(migration) == [2, 4]


def test_unknown_assignor_list_falls_back_to_the_groups_choice() -> None:
    first, _ = path("cooperative", *live_members_a_and_b())["inTheWay"]
    assert first["reason"] == "its list is not known; the group chose range"


def test_later_restarts_with_instance_ids_move_nothing() -> None:
    migration = path("static", *live_members_a_and_b())
    assert obstacles(migration) == [(name, "has no group.instance.id", 1) for name in NAMES]
    assert rebalances(migration) == [4, 0]
    (unknown_part,) = path("static", *live_members_a_and_b(session_timeout_ms=2500))["unsure"]
    assert unknown_part.startswith("members that are away for 3000 ms lose their session, with a timeout of 2500 ms")


def test_migration_to_kip_848_is_one_rolling_restart() -> None:
    migration = path("consumer", *live_members_a_and_b())
    assert (migration["state"], migration["inTheWay"]) == ("ready", [])
    # The first member's next heartbeat, 5 s after the previous one, shows that the second member left and rejoined.
    assert rebalances(migration) == [None, 3]


def test_half_migrated_group_restarts_the_remaining_members() -> None:
    migration = path(
        "consumer", member("a", 0, 1, classic=False), member("b", 2, 3), protocol="consumer", assignor="uniform"
    )
    assert rebalances(migration) == [None, 2]
    assert "1 of 2 members use it already: the group is half migrated" in migration["unsure"]


@pytest.mark.parametrize(
    ("obstacle", "assignor", "reason"),
    [
        (member("a", 0), "com.example.Mine", "custom assignor com.example.Mine: KIP-848 has none in clients"),
        (member("a", 0, assignors=("range", "mine")), "range", "custom assignor mine: KIP-848 has none"),
        (
            member("a", 0, names=MemberNames(client_id="kafka-python-2.0.2")),
            "range",
            "kafka-python 2.0.2 does not speak KIP-848",
        ),
    ],
)
def test_obstacle_that_no_step_removes_blocks_the_migration(obstacle: LiveMember, assignor: str, reason: str) -> None:
    migration = path("consumer", obstacle, assignor=assignor)
    ((_, why, step),) = obstacles(migration)
    assert (migration["state"], step, why[: len(reason)]) == ("blocked", None, reason)


@pytest.mark.parametrize(
    ("to", "members", "more"),
    [
        ("cooperative", live_members_a_and_b(assignors=("cooperative-sticky",)), {"assignor": "cooperative-sticky"}),
        ("static", [member("a", 0, instance="i")], {}),
        ("consumer", live_members_a_and_b(classic=False), {"protocol": "consumer", "assignor": "uniform"}),
        ("cooperative", live_members_a_and_b(classic=False), {"protocol": "consumer", "assignor": "uniform"}),
    ],
)
def test_migrated_group_has_no_steps_left(to: str, members: list[LiveMember], more: dict[str, Any]) -> None:
    migration = path(to, *members, **more)
    assert (migration["state"], migration["steps"]) == ("done", [])


def test_migration_step_begins_where_the_previous_step_ended() -> None:
    """The first restart of a migration makes members static, so the second one costs as much as a static group's."""
    live = group(*live_members_a_and_b())
    plan = plan_migration(live, ["static"], restart=ROLLING_RESTART, times={"processing_ms": 0})
    second = plan["targets"]["static"]["steps"][1]["forecast"]
    migration_document = {
        "topics": {"t": 4},
        "processing_ms": 0,
        "members": {name: {"instance_id": name, "owned": {"t": [2 * n, 2 * n + 1]}} for n, name in enumerate(NAMES)},
        "events": [{"at": 1500 + 30_000 * n, "bounce": name, "down_ms": 3000} for n, name in enumerate(NAMES)],
    }
    eager, *_ = ways("eager", "range")
    assert simulate_cost(parse_scenario(migration_document), eager).total_ms == second["downtime"]["totalMs"]


def test_migration_as_json_has_steps_with_forecasts() -> None:
    migration = plan_migration(group(*live_members_a_and_b()), restart=ROLLING_RESTART)
    assert (migration["groupId"], migration["now"]) == ("g", "eager")
    assert list(migration["targets"]) == ["cooperative", "static", "consumer"]
    static = migration["targets"]["static"]
    assert static["inTheWay"][0] == {"memberId": "a-id", "name": "a", "reason": "has no group.instance.id", "step": 1}
    assert static["steps"][1]["forecast"]["rebalances"] == 0
    assert migration["targets"]["consumer"]["steps"][0]["forecast"] is None


def test_migration_lists_past_restarts_of_the_group() -> None:
    records = [record.episode for record in episode_records(checkout_group())]
    assert [restart_step.kind for restart_step in recent_steps(records)] == ["rolling-restart"]
    steps_without_end = [(restart_step, None) for restart_step in recent_steps(records)]
    (step,) = plan_migration(group(*live_members_a_and_b()), ["static"], past_steps=steps_without_end)["happened"]
    assert (step["episode"], step["rebalances"], step["downtime"], step["forecast"]) == (2, 4, None, None)


def test_connect_group_and_unknown_target_are_not_migrated() -> None:
    with pytest.raises(NoForecast, match=r"group g: Connect's workers choose by connect\.protocol"):
        plan_migration(group(member("w"), kind="connect"))
    with pytest.raises(NoForecast, match="--to: 'eager' is not one of cooperative, static, consumer"):
        parse_targets(["static", "eager"])
    assert parse_targets(["static", "static"]) == ("static",)
