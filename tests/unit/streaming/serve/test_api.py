"""The JSON routes of the API, requested without a server."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from starlette.types import ASGIApp

from streaming.kafka.lag_reader import GroupLag
from streaming.records.codec import encode
from streaming.records.cost import figure_changes
from streaming.records.episodes import Episode
from streaming.records.names import display_names
from streaming.serve import api
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from tests.support.asgi import ask
from tests.support.compacted import RESTARTED_MS, checkout_group, episode_records, latest
from tests.support.feed import ASSIGNMENTS, records, service, stories, story
from tests.support.histories import Group
from tests.support.incidents import incident


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
    newest = {"timestamp": 2000, "lag": 4, "partitions": {"t": {"0": 4, "1": None}}, "samples": [[1000, 7], [2000, 4]]}
    assert ask(app, "/api/v1/groups/orders/lag").json == newest
    past = {"timestamp": 1000, "lag": 7, "partitions": {}, "samples": [[1000, 7]]}
    assert ask(app, "/api/v1/groups/orders/lag?at=1999").json == past
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
    answer = ask(app, "/api/v1/groups")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    whole = answer.json
    assert (first["next"], second["next"], whole["next"]) == ("orders", None, None)
    assert [*first["groups"], *second["groups"]] == whole["groups"]
    assert [group["groupId"] for group in whole["groups"]] == ["orders", "team/billing"]
    assert (whole["seq"], whole["caughtUp"]) == (35, False)


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
        ("/api/v1/groups/orders/rounds?from=9&to=9", 400, "parameter", "from: must be before to"),
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


UNUSUAL_GROUP_IDS = ["a\nb", "\n", "a\n", "\x00", "\x1b]0;title\x07", "a/b", "100%", "%2F", "a?b#c", " ", "\u202egnp"]
UNUSUAL_GROUP_IDS += ["é\r", "rounds", "team/rounds", "50%/rounds/1"]


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
    assert ask(app, "/api/v1/groups/team/rounds").status == 404


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

    assert summaries(f"from={first}&to={last}") == [item for item in orders_rounds if first <= item["timestamp"] < last]
    departures = [item for item in orders_rounds if item["cause"]["kind"] == "member.left"]
    assert summaries("cause=member.left") == departures
    assert summaries("min_moved=2") == [item for item in orders_rounds if item["moved"] >= 2]
    assert summaries("min_moved=0") == summaries("limit=30") == orders_rounds


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


GROUP = "team%2Fcheckout"


@pytest.fixture
def stored(history: History) -> ASGIApp:
    """Return the application with two episodes of one group, and three incidents (one closed) of two groups."""
    history.append(records(Group("team/checkout", {"t": 6}, 1).diffs(2)))
    history.append(stories(checkout_group()))
    closed, opened = incident("team/checkout", 1, closed_at=500), incident("team/checkout", 2, opened_at=600)
    incidents = (closed, opened, incident("orders", 1, opened_at=300))
    history.append([story(value, offset=offset) for offset, value in enumerate(incidents)])
    return service(history, whole={"episode"})


def stories_and_cursor(app: ASGIApp, target: str) -> tuple[list[tuple[str, int]], Any]:
    page = ask(app, target).json
    (sort,) = page.keys() & {"episodes", "incidents"}
    return [(value["groupId"], value[sort[:-1]]) for value in page[sort]], page["next"]


def test_episodes_endpoint_returns_topic_records_newest_first(stored: ASGIApp) -> None:
    whole = ask(stored, f"/api/v1/groups/{GROUP}/episodes")
    assert (whole.json["next"], whole.json["caughtUp"]) == (None, True)
    values = [record.value for record in reversed(episode_records(checkout_group()))]
    assert whole.body.startswith(b'{"episodes":[%b]' % b",".join(values))
    first, cursor = stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?limit=1")
    assert first == [("team/checkout", 2)]
    second = stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?limit=1&cursor={cursor}")
    assert second == ([("team/checkout", 1)], None)
    assert stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?cursor=99") == ([], None)


@pytest.mark.parametrize(
    ("query", "numbers"), [(f"from={RESTARTED_MS}", [2]), (f"to={RESTARTED_MS}", [1]), (f"from={RESTARTED_MS + 1}", [])]
)
def test_time_range_selects_episodes_by_opening_time(stored: ASGIApp, query: str, numbers: list[int]) -> None:
    episodes, _ = stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/episodes?{query}")
    assert [number for _, number in episodes] == numbers


def test_comparison_has_two_episodes_and_their_figures(stored: ASGIApp) -> None:
    newest, oldest = (
        msgspec.json.decode(record.value, type=Episode) for record in reversed(episode_records(checkout_group()))
    )
    answer = ask(stored, f"/api/v1/groups/{GROUP}/compare/1/2").body
    expected = {"before": oldest, "after": newest, "figures": figure_changes(oldest, newest)}
    assert msgspec.json.decode(answer) == msgspec.json.decode(msgspec.json.encode(expected))
    for numbers in ("1/3", "1/x", "0/2"):
        problem = ask(stored, f"/api/v1/groups/{GROUP}/compare/{numbers}")
        assert (problem.status, problem.json["type"]) == (404, "/problems#episode")


def test_group_without_episodes_has_not_caught_up(app: ASGIApp) -> None:
    nothing = {"episodes": [], "next": None, "names": {}, "caughtUp": False}
    assert ask(app, "/api/v1/groups/team%2Fbilling/episodes").json == nothing
    assert ask(app, "/api/v1/groups/none/episodes").status == 404
    assert ask(app, "/api/v1/groups/orders/episodes?cause=x").status == 400
    assert ask(app, "/api/v1/groups/orders/episodes?open=true").status == 400


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [("team/checkout", 2), ("orders", 1), ("team/checkout", 1)]),
        ("open=true", [("team/checkout", 2), ("orders", 1)]),
        ("open=false", [("team/checkout", 1)]),
        ("group=orders", [("orders", 1)]),
        ("group=team/checkout&open=false", [("team/checkout", 1)]),
        ("group=nobody", []),
        ("from=300&to=600", [("orders", 1)]),
    ],
)
def test_incidents_endpoint_filters_by_state_and_group(
    stored: ASGIApp, query: str, expected: list[tuple[str, int]]
) -> None:
    assert stories_and_cursor(stored, f"/api/v1/incidents?{query}") == (expected, None)


def test_incidents_are_paged_for_all_groups_or_one_group(stored: ASGIApp) -> None:
    first, cursor = stories_and_cursor(stored, "/api/v1/incidents?limit=2")
    rest = stories_and_cursor(stored, f"/api/v1/incidents?limit=2&cursor={cursor}")
    assert (len(first), rest) == (2, ([("team/checkout", 1)], None))
    of_group, _ = stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/incidents")
    assert of_group == [("team/checkout", 2), ("team/checkout", 1)]
    assert stories_and_cursor(stored, f"/api/v1/groups/{GROUP}/incidents?open=true")[0] == [("team/checkout", 2)]
    assert ask(stored, "/api/v1/groups/none/incidents").status == 404
    answer = ask(stored, "/api/v1/incidents?open=yes")
    assert (answer.status, answer.json["detail"]) == (400, "open: 'yes' is not one of true, false")
    assert ask(stored, "/api/v1/incidents").json["caughtUp"] is False  # unlike the episodes
