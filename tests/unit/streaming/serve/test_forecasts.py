"""Forecasts under /api/v1/, requested without a server."""

import time
from typing import Any

import msgspec
import pytest
from starlette.types import ASGIApp

from streaming.advice.rules import advise
from streaming.records.codec import encode
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from tests.support.advice import deploy
from tests.support.advice import history as advice_history
from tests.support.asgi import ask
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import checkout_group
from tests.support.feed import DIFFS, assignment, records, service, stories
from tests.support.histories import Group


@pytest.fixture
def stored(history: History) -> ASGIApp:
    """Return the application with the rounds of two groups, and the latest assignment of ``team/checkout`` only."""
    history.append(records(Group("team/checkout", {"t": 6}, 1).diffs(1)))
    history.append(records(Group("orders", {"t": 6}, 1).diffs(1), partition=1))
    history.append([assignment(checkout_group("team/checkout"))])
    return service(history)


def answer_json(app: ASGIApp, target: str) -> Any:
    response = ask(app, f"/api/v1/groups/team%2Fcheckout/{target}")
    assert response.status == 200, response.json
    return response.json


def test_rolling_restart_forecast_works_without_stored_rounds(stored: ASGIApp) -> None:
    forecast = answer_json(stored, "forecast?down_ms=5000&between_ms=20000&processing_ms=0")

    assert (forecast["groupId"], forecast["now"]) == ("team/checkout", "eager")
    assert forecast["sentence"].startswith("This rolling restart costs ")
    assert forecast["unsure"][0].startswith("by the history alone")
    eager = forecast["protocols"]["eager"]
    assert (eager["rounds"], eager["rebalances"]) == ([], 4)  # one of the three members is static
    assert answer_json(stored, "forecast?scale=4")["change"] == "Scaling to 4 members"


def test_migrate_endpoint_lists_targets_and_obstacles(stored: ASGIApp) -> None:
    assert list(answer_json(stored, "migrate")["targets"]) == ["cooperative", "static", "consumer"]
    target = answer_json(stored, "migrate?to=static")["targets"]["static"]
    assert [obstacle["reason"] for obstacle in target["inTheWay"]] == ["has no group.instance.id"] * 2


def test_moved_partitions_of_a_change_are_returned(stored: ASGIApp) -> None:
    answer = answer_json(stored, "what-if?add=1&partitions=t=9")
    assert answer["partitions"] == {"t": 9}
    assert [answer["names"][member] for member in answer["added"]] == ["new-1"]
    assert answer["inexact"][0].startswith("by the history alone")
    (own,) = (member for member in answer["answers"] if member["own"])
    assert own["chosen"]
    assert sum(len(numbers) for share in own["assignment"].values() for numbers in share.values()) == 9
    consumer = answer_json(stored, "what-if?protocol=consumer&assignor=range")
    assert [member["protocol"] for member in consumer["answers"] if member["chosen"]] == ["consumer"]


def test_advice_endpoint_uses_the_stored_episodes_and_rounds(history: History) -> None:
    builder = DiffBuilder(60)
    builder.now = int(time.time() * 1000) - 3_600_000
    deploy(builder.join(*[f"pay-{number}@h{number}#1" for number in range(10)]))
    rounds = [
        TopicRecord(DIFFS, 0, offset, b"g", encode(diff), ce_id) for offset, (ce_id, diff) in enumerate(builder.diffs)
    ]
    history.append([*rounds, *stories(builder), assignment(builder)])
    answer = ask(service(history), "/api/v1/groups/g/advice").json
    past = advice_history(builder, now_ms=builder.now, live=None)
    assert answer == {"groupId": "g", "advice": msgspec.json.decode(encode(advise(past)))}
    assert any(advice["saving"] for advice in answer["advice"])


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("team%2Fcheckout/what-if?remove=nobody", 422),
        ("team%2Fcheckout/what-if?partitions=orders", 422),
        ("team%2Fcheckout/what-if?partitions=orders=900000", 422),
        ("team%2Fcheckout/what-if?moved=1", 400),
        ("none/what-if", 404),
        ("team%2Fcheckout/forecast?scale=3", 422),
        ("orders/forecast", 422),
        ("none/forecast", 404),
        ("team%2Fcheckout/forecast?parallel=0", 400),
        ("team%2Fcheckout/forecast?from=last", 400),
        ("team%2Fcheckout/migrate?to=raft", 400),
    ],
)
def test_impossible_forecasts_are_refused(stored: ASGIApp, target: str, status: int) -> None:
    assert ask(stored, f"/api/v1/groups/{target}").status == status
