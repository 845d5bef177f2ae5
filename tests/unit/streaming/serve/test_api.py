"""The JSON routes of the API, requested without a server."""

from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from starlette.types import ASGIApp

from streaming.kafka.lag_reader import GroupLag
from streaming.records.codec import encode
from streaming.records.names import display_names
from streaming.serve import api
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from tests.support.asgi import ask
from tests.support.compacted import checkout_group, latest
from tests.support.feed import ASSIGNMENTS, records, service
from tests.support.histories import Group


def test_groups_endpoint_lists_all_groups(app: ASGIApp) -> None:
    answer = ask(app, "/api/v1/groups")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert [group["groupId"] for group in answer.json["groups"]] == ["orders", "team/billing"]
    assert (answer.json["seq"], answer.json["caughtUp"]) == (35, False)


def test_group_endpoint_returns_summary_and_assignment(app: ASGIApp) -> None:
    answer = ask(app, "/api/v1/groups/orders").json
    assert answer["group"]["rounds"] == 30
    assert answer["assignment"]["groupId"] == "orders"
    assert (answer["downtime"], answer["downtimeToday"]) == ({"lowerMs": 0, "upperMs": 0, "unbounded": 0}, None)
    answer = ask(app, "/api/v1/groups/team%2Fbilling").json
    assert (answer["group"]["groupId"], answer["assignment"]) == ("team/billing", None)
    assert len(ask(app, "/api/v1/groups/team%2Fbilling/rounds").json["rounds"]) == 5


def test_lag_of_groups_and_partitions_is_returned(history: History) -> None:
    history.append(records(Group("orders", {"t": 6}, 1).diffs(1)))
    lag = GroupLag(2000, 4, {"t": {"0": 4, "1": None}}, ((1000, 7), (2000, 4)))
    app = service(history, lags=lambda: {"orders": lag})
    assert ask(app, "/api/v1/lag").json == {"groups": {"orders": 4}}
    progress = {
        "timestamp": 2000,
        "lag": 4,
        "partitions": {"t": {"0": 4, "1": None}},
        "samples": [[1000, 7], [2000, 4]],
    }
    assert ask(app, "/api/v1/groups/orders/lag").json == progress
    expected_lag = {"timestamp": 1000, "lag": 7, "partitions": {}, "samples": [[1000, 7]]}
    assert ask(app, "/api/v1/groups/orders/lag?at=1999").json == expected_lag
    assert ask(service(history), "/api/v1/groups/orders/lag").json["samples"] == []


def test_rounds_are_paged_with_and_without_diffs(app: ASGIApp) -> None:
    first = ask(app, "/api/v1/groups/orders/rounds?limit=20").json
    assert [len(first["rounds"]), first["next"]] == [20, "11"]
    assert set(first["rounds"][0]) == {"seq", "summary", "diff"}
    rest = ask(app, f"/api/v1/groups/orders/rounds?cursor={first['next']}&view=summary").json
    assert [item["seq"] for item in rest["rounds"]] == list(range(10, 0, -1))
    assert (set(rest["rounds"][0]), rest["next"]) == ({"seq", "summary"}, None)
    assert len(ask(app, "/api/v1/rounds?limit=2000&view=summary").json["rounds"]) == 35


def test_round_and_timeline_are_returned(app: ASGIApp) -> None:
    assert ask(app, "/api/v1/groups/orders/rounds/3").json["seq"] == 3
    timeline = ask(app, "/api/v1/groups/orders/timeline?limit=5").json
    assert [len(timeline["rounds"]), timeline["next"]] == [5, "26"]


def test_time_range_accepts_rfc_3339_and_milliseconds(app: ASGIApp) -> None:
    round_timestamp = ask(app, "/api/v1/groups/orders/rounds/10").json["summary"]["timestamp"]
    answer_by_number = ask(app, f"/api/v1/groups/orders/rounds?from={round_timestamp}&view=summary").json
    text = datetime.fromtimestamp(round_timestamp / 1000, UTC).isoformat().replace("+", "%2B")
    assert ask(app, f"/api/v1/groups/orders/rounds?from={text}&view=summary").json == answer_by_number
    assert answer_by_number["rounds"][-1]["seq"] == 10


def test_groups_are_paged_by_id(app: ASGIApp) -> None:
    first = ask(app, "/api/v1/groups?limit=1").json
    second = ask(app, f"/api/v1/groups?limit=1&cursor={first['next']}").json
    whole = ask(app, "/api/v1/groups").json
    assert (first["next"], second["next"], whole["next"]) == ("orders", None, None)
    assert [*first["groups"], *second["groups"]] == whole["groups"]


@pytest.mark.parametrize(
    ("target", "status", "kind", "message"),
    [
        ("/api/v1/groups/nobody", 404, "group", "no group 'nobody'"),
        ("/api/v1/groups/orders/rounds/999", 404, "round", "no such round"),
        ("/api/v1/groups/orders/rounds/x", 404, "round", "no such round"),
        (f"/api/v1/groups/orders/rounds/{'9' * 5000}", 404, "round", "no such round"),
        (f"/api/v1/rounds?cursor={'9' * 5000}", 400, "parameter", "…' is not a whole number in 0…9007199254740992"),
        ("/api/v1/rounds?limit=1&limit=2", 400, "parameter", "limit: is given twice"),
        ("/api/v1/groups/a%2Frounds", 404, "group", "no group 'a/rounds'"),
        ("/api/v1/groups/100%25%2Fb", 404, "group", "no group '100%/b'"),
        ("/api/v1/groups/gr%C3%BC%C3%9Fe", 404, "group", "no group 'grüße'"),
        ("/api/v1/groups/orders/rounds?from=tomorrow", 400, "parameter", "from: 'tomorrow' is neither RFC 3339"),
        ("/api/v1/groups/orders/rounds?from=9&to=3", 400, "parameter", "from: must be before to"),
        ("/api/v1/stream?min_moved=-1", 400, "parameter", "min_moved"),
        ("/api/v1/nothing", 404, "not-found", "openapi.json"),
        ("/page/../app.py", 404, "not-found", ""),
    ],
)
def test_unanswerable_request_is_a_problem_document(
    app: ASGIApp, target: str, status: int, kind: str, message: str
) -> None:
    answer = ask(app, target)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json["status"] == status
    assert answer.json["type"] == f"/problems#{kind}"
    assert message in answer.json["detail"]


@pytest.mark.parametrize(
    ("target", "unknown"),
    [
        ("/api/v1/groups", "view"),
        ("/api/v1/groups/orders", "limit"),
        ("/api/v1/groups/orders/rounds", "min"),
        ("/api/v1/groups/orders/rounds/3", "view"),
        ("/api/v1/groups/orders/timeline", "view"),
        ("/api/v1/groups/orders/timeline", "cause"),
        ("/api/v1/rounds", "group"),
        ("/api/v1/stream", "from"),
        ("/api/v1/openapi.json", "format"),
    ],
)
def test_parameter_without_effect_is_rejected(app: ASGIApp, target: str, unknown: str) -> None:
    answer = ask(app, f"{target}?{unknown}=1")
    assert (answer.status, answer.json["type"]) == (400, "/problems#parameter")
    assert f"{unknown}: no such parameter" in answer.json["detail"]


def test_group_id_may_equal_a_route(history: History) -> None:
    history.append(records(Group("team/rounds", {"t": 6}, 2).diffs(5)))
    history.append(records(Group("50%/rounds/1", {"t": 6}, 2).diffs(3), partition=1))
    app = service(history)
    assert ask(app, "/api/v1/groups/team%2Frounds").json["group"]["rounds"] == 5
    assert len(ask(app, "/api/v1/groups/team%2Frounds/rounds").json["rounds"]) == 5
    assert ask(app, "/api/v1/groups/50%25%2Frounds%2F1").json["group"]["rounds"] == 3
    assert ask(app, "/api/v1/groups/50%25%2Frounds%2F1/rounds/7").json["seq"] == 7
    assert ask(app, "/api/v1/groups/team/rounds").status == 404


UNUSUAL_GROUP_IDS = [
    "a\nb",
    "\n",
    "a\n",
    "\x00",
    "\x1b]0;title\x07",
    "a/b",
    "100%",
    "%2F",
    "a?b#c",
    " ",
    "\u202egnp",
    "rounds",
    "é\r",
]


def test_any_valid_group_id_works(history: History) -> None:
    for number, name in enumerate(UNUSUAL_GROUP_IDS):
        history.append(records(Group(name, {"t": 6}, 2).diffs(2), start=2 * number))
    app = service(history)
    page = ask(app, "/").body
    for number, name in enumerate(UNUSUAL_GROUP_IDS):
        path = f"/api/v1/groups/{quote(name, safe='')}"
        assert ask(app, path).json["group"]["groupId"] == name
        assert len(ask(app, f"{path}/rounds").json["rounds"]) == 2
        assert ask(app, f"{path}/rounds/{2 * number + 1}").json["diff"]["groupId"] == name
        assert len(ask(app, f"{path}/timeline").json["rounds"]) == 2
        assert ask(app, f"/groups/{quote(name, safe='')}").body == page


def test_a_history_that_cannot_be_read_is_a_problem_document(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 2).diffs(2)))
    app = service(history)
    history._connection.execute("UPDATE rounds SET body = x'00'")
    for target in ("/api/v1/rounds", "/api/v1/groups/g/rounds/1", "/api/v1/groups/g/timeline"):
        answer = ask(app, target)
        assert (answer.status, answer.json["type"]) == (503, "/problems#history")
        assert "is damaged; restore a copy, or remove it to build it again" in answer.json["detail"]
    history._connection.execute("DROP TABLE rounds")
    answer = ask(service(history), "/api/v1/rounds?view=summary")
    assert (answer.status, answer.headers["retry-after"]) == (503, "10")
    assert "no such table: rounds" in answer.json["detail"]
    history.path.unlink()
    answer = ask(app, "/api/v1/rounds")
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "it can't be opened" in answer.json["detail"]


def test_rounds_are_filtered_by_time_cause_and_moves(app: ASGIApp) -> None:
    whole = [item["summary"] for item in ask(app, "/api/v1/rounds?view=summary&limit=2000").json["rounds"]]
    orders_rounds = [item for item in whole if item["groupId"] == "orders"]
    first, last = orders_rounds[20]["timestamp"], orders_rounds[5]["timestamp"]

    def summaries(query: str) -> list[object]:
        items = ask(app, f"/api/v1/groups/orders/rounds?view=summary&{query}").json["rounds"]
        return [item["summary"] for item in items]

    assert summaries(f"from={first}&to={last}") == [
        summary for summary in orders_rounds if first <= summary["timestamp"] < last
    ]
    assert summaries("cause=member.left") == [
        summary for summary in orders_rounds if summary["cause"]["kind"] == "member.left"
    ]
    assert summaries("min_moved=2") == [summary for summary in orders_rounds if summary["moved"] >= 2]
    assert summaries("min_moved=0") == summaries("limit=30") == orders_rounds
    answer = ask(app, f"/api/v1/rounds?from={first}&to={first}")
    assert (answer.status, answer.json["detail"]) == (400, "from: must be before to")


def test_page_with_diffs_has_fewer_items_than_with_summaries(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MAX_DIFFS", 3)
    monkeypatch.setattr(api, "MAX_PAGE_ITEMS", 4)
    for target, most in (
        ("/api/v1/rounds?limit=9", 3),
        ("/api/v1/rounds?limit=2", 2),
        ("/api/v1/rounds?limit=9&view=summary", 4),
        ("/api/v1/groups/orders/timeline?limit=9", 4),
    ):
        assert len(ask(app, target).json["rounds"]) == most


def test_default_page_of_rounds_has_100_entries(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 2).diffs(102)))
    page = ask(service(history), "/api/v1/rounds?view=summary").json
    assert (len(page["rounds"]), page["next"]) == (100, "3")


def test_problem_document_has_all_fields(app: ASGIApp) -> None:
    assert ask(app, "/api/v1/groups/orders/rounds?limit=many").json == {
        "type": "/problems#parameter",
        "title": "Bad Request",
        "status": 400,
        "detail": "limit: 'many' is not a whole number in 1…9007199254740992",
        "instance": "/api/v1/groups/orders/rounds",
        "parameter": "limit",
    }
    assert ask(app, "/nothing").json == {
        "type": "/problems#not-found",
        "title": "Not Found",
        "status": 404,
        "detail": "Nothing is served at this path; /api/v1/openapi.json lists what is.",
        "instance": "/nothing",
    }


def test_search_finds_owners_of_a_partition_topics_and_members(history: History) -> None:
    latest_assignment = latest(checkout_group("shop"))
    history.append([TopicRecord(ASSIGNMENTS, 0, 0, b"shop", encode(latest_assignment), None)])
    app = service(history)
    owner = next(name for name, share in latest_assignment.members.items() if 1 in share["t"])
    (partition,) = ask(app, "/api/v1/search?q=T-1").json["found"]
    assert partition == {"groupId": "shop", "kind": "partition", "topic": "t", "partition": 1} | {
        "owners": [display_names(latest_assignment.names)[owner]]
    }
    (topic,) = ask(app, "/api/v1/search?q=t").json["found"]
    assert topic == {"groupId": "shop", "kind": "topic", "topic": "t", "partitions": 6}
    matches = ask(app, "/api/v1/search?q=pay").json["found"]
    assert {match["memberId"] for match in matches} == {match for match in latest_assignment.members if "pay" in match}
    for nothing in ("", "t-99999999999999999999", "none", "t-7"):
        assert ask(app, f"/api/v1/search?q={nothing}").json == {"found": []}
    assert len(ask(app, "/api/v1/search?q=h&limit=1").json["found"]) == 1
