from __future__ import annotations

import gzip
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from anyio import CapacityLimiter
from starlette.types import ASGIApp

from streaming.kafka.recent import GroupEpisodes
from streaming.serve import api
from streaming.serve.app import build
from streaming.serve.archive import Archive
from streaming.serve.board import Board
from streaming.serve.callers import Access
from streaming.serve.feed import Feed, FeedTimes
from streaming.serve.history import History
from streaming.serve.standing import Standing
from tests.support.asgi import Answer, ask
from tests.support.compacted import RESTARTED, checkout, checkouts, told
from tests.support.feed import records, service
from tests.support.histories import Group


def test_groups(app: ASGIApp) -> None:
    answer = ask(app, "/api/groups")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert [group["groupId"] for group in answer.json["groups"]] == ["orders", "team/billing"]
    assert (answer.json["seq"], answer.json["caughtUp"]) == (35, False)


def test_one_group_with_its_assignment(app: ASGIApp) -> None:
    found = ask(app, "/api/groups/orders").json
    assert found["group"]["rounds"] == 30
    assert found["assignment"]["groupId"] == "orders"
    slashed = ask(app, "/api/groups/team%2Fbilling").json
    assert (slashed["group"]["groupId"], slashed["assignment"]) == ("team/billing", None)
    assert len(ask(app, "/api/groups/team%2Fbilling/rounds").json["rounds"]) == 5


def test_rounds_have_cursors_and_views(app: ASGIApp) -> None:
    first = ask(app, "/api/groups/orders/rounds?limit=20").json
    assert [len(first["rounds"]), first["next"]] == [20, "11"]
    assert set(first["rounds"][0]) == {"seq", "summary", "diff"}
    rest = ask(app, f"/api/groups/orders/rounds?cursor={first['next']}&view=summary").json
    assert [one["seq"] for one in rest["rounds"]] == list(range(10, 0, -1))
    assert (set(rest["rounds"][0]), rest["next"]) == ({"seq", "summary"}, None)
    assert len(ask(app, "/api/rounds?limit=2000&view=summary").json["rounds"]) == 35


def test_a_round_and_a_timeline(app: ASGIApp) -> None:
    assert ask(app, "/api/groups/orders/rounds/3").json["seq"] == 3
    timeline = ask(app, "/api/groups/orders/timeline?limit=5").json
    assert [len(timeline["rounds"]), timeline["next"]] == [5, "26"]


def test_time_ranges_take_both_forms(app: ASGIApp) -> None:
    stamp = ask(app, "/api/groups/orders/rounds/10").json["summary"]["timestamp"]
    by_number = ask(app, f"/api/groups/orders/rounds?from={stamp}&view=summary").json
    from datetime import UTC, datetime

    text = datetime.fromtimestamp(stamp / 1000, UTC).isoformat().replace("+", "%2B")
    assert ask(app, f"/api/groups/orders/rounds?from={text}&view=summary").json == by_number
    assert by_number["rounds"][-1]["seq"] == 10


@pytest.mark.parametrize(
    ("target", "status", "kind", "says"),
    [
        ("/api/groups/nobody", 404, "group", "no group 'nobody'"),
        ("/api/groups/orders/rounds/999", 404, "round", "no such round"),
        ("/api/groups/orders/rounds/x", 404, "round", "no such round"),
        (f"/api/groups/orders/rounds/{'9' * 5000}", 404, "round", "no such round"),
        (f"/api/rounds?cursor={'9' * 5000}", 400, "parameter", "…' is no whole number in 0…9007199254740992"),
        ("/api/rounds?limit=0", 400, "parameter", "limit: '0' is no whole number in 1…"),
        ("/api/rounds?limit=1&limit=2", 400, "parameter", "limit: is given twice"),
        (f"/api/rounds?{'a' * 9000}", 400, "parameter", f"{'a' * 60}…: no such parameter"),
        ("/api/groups/a%2Frounds", 404, "group", "no group 'a/rounds'"),
        ("/api/groups/100%25%2Fb", 404, "group", "no group '100%/b'"),
        ("/api/groups/gr%C3%BC%C3%9Fe", 404, "group", "no group 'grüße'"),
        ("/api/groups/orders/rounds?limit=many", 400, "parameter", "limit: 'many' is no whole number"),
        ("/api/groups/orders/rounds?limt=1", 400, "parameter", "limt: no such parameter"),
        ("/api/groups/orders/rounds?from=tomorrow", 400, "parameter", "from: 'tomorrow' is neither RFC 3339"),
        ("/api/groups/orders/rounds?from=9&to=3", 400, "parameter", "from: must be before to"),
        ("/api/rounds?view=all", 400, "parameter", "view: 'all' is none of diff, summary"),
        ("/api/stream?min_moved=-1", 400, "parameter", "min_moved"),
        ("/api/nothing", 404, "not-found", "openapi.json"),
        ("/assets/../app.py", 404, "not-found", ""),
    ],
)
def test_what_cannot_be_answered_is_a_problem_document(
    app: ASGIApp, target: str, status: int, kind: str, says: str
) -> None:
    answer = ask(app, target)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json["status"] == status
    assert answer.json["type"] == f"/problems#{kind}"
    assert says in answer.json["detail"]


@pytest.mark.parametrize(
    ("target", "unknown"),
    [
        ("/api/groups", "limit"),
        ("/api/groups/orders", "limit"),
        ("/api/groups/orders/rounds", "min"),
        ("/api/groups/orders/rounds/3", "view"),
        ("/api/groups/orders/timeline", "view"),
        ("/api/groups/orders/timeline", "cause"),
        ("/api/rounds", "group"),
        ("/api/stream", "from"),
        ("/api/openapi.json", "format"),
    ],
)
def test_a_parameter_that_would_change_nothing_is_refused(app: ASGIApp, target: str, unknown: str) -> None:
    answer = ask(app, f"{target}?{unknown}=1")
    assert (answer.status, answer.json["type"]) == (400, "/problems#parameter")
    assert f"{unknown}: no such parameter" in answer.json["detail"]


def test_a_group_may_be_called_what_a_route_is(history: History) -> None:
    history.append(records(Group("team/rounds", {"t": 6}, 2).diffs(5)))
    history.append(records(Group("50%/rounds/1", {"t": 6}, 2).diffs(3), partition=1))
    app = service(history)
    assert ask(app, "/api/groups/team%2Frounds").json["group"]["rounds"] == 5
    assert len(ask(app, "/api/groups/team%2Frounds/rounds").json["rounds"]) == 5
    assert ask(app, "/api/groups/50%25%2Frounds%2F1").json["group"]["rounds"] == 3
    assert ask(app, "/api/groups/50%25%2Frounds%2F1/rounds/7").json["seq"] == 7
    assert ask(app, "/api/groups/team/rounds").status == 404


ODD = [
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


def test_a_group_may_be_called_anything(history: History) -> None:
    for number, name in enumerate(ODD):
        history.append(records(Group(name, {"t": 6}, 2).diffs(2), start=2 * number))
    app = service(history)
    page = ask(app, "/").body
    for number, name in enumerate(ODD):
        path = f"/api/groups/{quote(name, safe='')}"
        assert ask(app, path).json["group"]["groupId"] == name
        assert len(ask(app, f"{path}/rounds").json["rounds"]) == 2
        assert ask(app, f"{path}/rounds/{2 * number + 1}").json["diff"]["groupId"] == name
        assert len(ask(app, f"{path}/timeline").json["rounds"]) == 2
        assert ask(app, f"/groups/{quote(name, safe='')}").body == page


def test_a_history_that_cannot_be_read_is_a_problem_document(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 2).diffs(2)))
    app = service(history)
    history._connection.execute("UPDATE rounds SET body = x'00', changes = x'00'")
    for target in ("/api/rounds", "/api/groups/g/rounds/1", "/api/groups/g/timeline"):
        answer = ask(app, target)
        assert (answer.status, answer.json["type"]) == (503, "/problems#history")
        assert "is damaged; restore a copy, or remove it to build it anew" in answer.json["detail"]
    history._connection.execute("DROP TABLE rounds")
    answer = ask(service(history), "/api/rounds?view=summary")
    assert (answer.status, answer.headers["retry-after"]) == (503, "10")
    assert "no such table: rounds" in answer.json["detail"]


def test_a_history_that_is_gone_is_a_problem_document(history: History) -> None:
    app = service(history)
    history.path.unlink()
    answer = ask(app, "/api/rounds")
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "it can't be opened" in answer.json["detail"]


def test_only_reading(app: ASGIApp) -> None:
    assert ask(app, "/api/groups", {"content-length": "3"}, method="POST").status == 405
    answer = ask(app, "/api/groups", method="POST")
    assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert ask(app, "/api/groups", {"content-length": "3"}).status == 413
    assert ask(app, "/api/groups", {"transfer-encoding": "chunked"}).status == 413


def everything(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answer]:
    """Answers of every kind: the page, JSON, metrics, refusals, and a failure of ours."""
    targets = (
        "/",
        "/groups/g",
        "/assets/app.js",
        "/api/groups",
        "/api/none",
        "/health",
        "/metrics",
        "/api/groups?x=1",
    )
    for target in targets:
        yield ask(app, target)
    yield ask(app, "/api/groups", method="POST")
    yield ask(app, "/health", host="evil.example")
    monkeypatch.setattr(Board, "told", lambda _: 1 / 0)
    yield ask(app, "/ready")


def test_every_answer_carries_the_security_headers(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(everything(app, monkeypatch))
    assert {answer.status for answer in found} == {200, 400, 404, 405, 421, 500}
    for answer in found:
        policy = answer.headers["content-security-policy"].split("; ")
        assert {
            "default-src 'none'",
            "object-src 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        } <= set(policy)
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers


def test_every_body_says_what_it_is(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in everything(app, monkeypatch):
        kind, _, charset = answer.headers["content-type"].partition("; ")
        assert kind.startswith("application/") or charset.endswith("charset=utf-8"), kind


def test_nothing_but_the_page_is_kept_by_browsers(app: ASGIApp) -> None:
    for target in ("/api/groups", "/api/groups/orders", "/metrics", "/api/none", "/ready"):
        assert ask(app, target).headers["cache-control"] == "no-store"
    assert ask(app, "/").headers["cache-control"] == "no-cache"


def test_a_failure_of_ours_says_nothing_of_itself(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = list(everything(app, monkeypatch))[-1]
    assert (failed.status, failed.json["detail"]) == (500, "the server failed; its log says how")


def test_an_origin_changes_nothing(app: ASGIApp) -> None:
    plain, foreign = ask(app, "/api/groups"), ask(app, "/api/groups", {"origin": "https://evil.example"})
    assert (foreign.status, foreign.headers, foreign.body) == (plain.status, plain.headers, plain.body)
    assert ask(app, "/api/groups", method="OPTIONS").status == 405


def test_loopback_answers_to_its_own_names_only(app: ASGIApp, history: History) -> None:
    assert ask(app, "/health", host="evil.example:8686").status == 421
    for host in ("127.evil.example", "[::1].evil.com", "[::1]evil.com", "[::1%evil.com]", "::1", "[[::1]]"):
        assert ask(app, "/health", host=host).status == 421, host
    for host in (
        "localhost@evil.com",
        "localhost:80@evil.com",
        "localhost.evil.com",
        "",
        " ",
        "[::1]:x",
        "::",
    ):
        assert ask(app, "/health", host=host).status == 421, host
    for host in ("localhost:1", "LocalHost", "127.0.0.1:8686", "[::1]:8686", "[::1]", "[0:0::1]:"):
        assert ask(app, "/health", host=host).status == 200, host
    assert ask(service(history, loopback_only=False), "/health", host="feed.internal").status == 200


def test_a_token_guards_data_and_metrics_but_not_probes(history: History) -> None:
    app = service(history, token="a-long-enough-token")  # noqa: S106 - made up here
    for target in ("/api/groups", "/api/stream", "/metrics", "/api/none"):
        assert ask(app, target).status == 401
        assert ask(app, target, {"authorization": "Bearer wrong"}).status == 401
    refused = ask(app, "/api/groups")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert ask(app, "/api/groups", {"authorization": "bearer a-long-enough-token"}).status == 200
    for target in ("/health", "/", "/assets/app.js"):
        assert ask(app, target).status == 200


def test_ready_only_when_caught_up(history: History) -> None:
    board = Board(history.extent, history.groups)
    feed = Feed(board, Archive(history.path), CapacityLimiter(2), FeedTimes())
    app = build(feed, access=Access(), loopback_only=True, max_clients=1)
    assert (ask(app, "/ready").status, ask(app, "/health").status) == (503, 200)
    board.progress(Standing(caught_up=True))
    assert ask(app, "/ready").json == {"ready": True, "lag": 0, "seq": 0}


def test_too_many_followers_are_asked_to_wait(history: History) -> None:
    answer = ask(service(history, max_clients=0), "/api/stream")
    assert (answer.status, answer.headers["retry-after"]) == (503, "10")


def test_large_answers_are_compressed_when_asked(app: ASGIApp) -> None:
    plain = ask(app, "/api/groups/orders/rounds").body
    packed = ask(app, "/api/groups/orders/rounds", {"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain


def test_rounds_are_selected_by_time_cause_and_what_they_moved(app: ASGIApp) -> None:
    whole = [one["summary"] for one in ask(app, "/api/rounds?view=summary&limit=2000").json["rounds"]]
    orders = [one for one in whole if one["groupId"] == "orders"]
    first, last = orders[20]["timestamp"], orders[5]["timestamp"]

    def asked(query: str) -> list[object]:
        found = ask(app, f"/api/groups/orders/rounds?view=summary&{query}").json["rounds"]
        return [one["summary"] for one in found]

    assert asked(f"from={first}&to={last}") == [one for one in orders if first <= one["timestamp"] < last]
    assert asked("cause=member.left") == [one for one in orders if one["cause"]["kind"] == "member.left"]
    assert asked("min_moved=2") == [one for one in orders if one["moved"] >= 2]
    assert asked("min_moved=0") == asked("limit=30") == orders
    answer = ask(app, f"/api/rounds?from={first}&to={first}")
    assert (answer.status, answer.json["detail"]) == (400, "from: must be before to")


def test_a_page_with_diffs_is_shorter_than_one_of_summaries(
    app: ASGIApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MAX_DIFFS", 3)
    monkeypatch.setattr(api, "MAX_PAGE", 4)
    for target, most in (
        ("/api/rounds?limit=9", 3),
        ("/api/rounds?limit=2", 2),
        ("/api/rounds?limit=9&view=summary", 4),
        ("/api/groups/orders/timeline?limit=9", 4),
    ):
        assert len(ask(app, target).json["rounds"]) == most


def test_what_is_not_asked_for_is_a_page_of_a_hundred(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 2).diffs(102)))
    found = ask(service(history), "/api/rounds?view=summary").json
    assert (len(found["rounds"]), found["next"]) == (100, "3")


def test_a_problem_is_a_whole_document(app: ASGIApp) -> None:
    assert ask(app, "/api/groups/orders/rounds?limit=many").json == {
        "type": "/problems#parameter",
        "title": "Bad Request",
        "status": 400,
        "detail": "limit: 'many' is no whole number in 1…9007199254740992",
        "instance": "/api/groups/orders/rounds",
        "parameter": "limit",
    }
    assert ask(app, "/nothing").json == {
        "type": "/problems#not-found",
        "title": "Not Found",
        "status": 404,
        "detail": "nothing is served here; /api/openapi.json lists what is",
        "instance": "/nothing",
    }


def test_the_head_of_the_feed_says_what_it_is_and_ends(app: ASGIApp) -> None:
    answer = ask(app, "/api/stream", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    told = {name: answer.headers[name] for name in ("content-type", "cache-control", "x-accel-buffering")}
    assert told == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
    }
    asking_for_less = ask(app, "/api/stream", {"accept-encoding": "gzip"}, method="HEAD")
    assert "content-encoding" not in asking_for_less.headers


def test_small_answers_are_not_compressed(app: ASGIApp) -> None:
    packed = ask(app, "/health", {"accept-encoding": "gzip"})
    assert (packed.body, packed.headers.get("content-encoding")) == (b'{"status":"up"}', None)


def test_as_many_followers_as_are_allowed_are_let_in(history: History) -> None:
    board = Board(history.extent, history.groups)
    feed = Feed(board, Archive(history.path), CapacityLimiter(2), FeedTimes())
    app = build(feed, access=Access(), loopback_only=True, max_clients=2)
    with board.listening():
        assert ask(app, "/api/stream", method="HEAD").status == 200
        with board.listening():
            full = ask(app, "/api/stream", method="HEAD")
    assert full.status == 503


def test_bodies_are_refused_in_whatever_way_they_are_announced(app: ASGIApp) -> None:
    assert ask(app, "/health", {"content-length": "0"}).status == 200
    answer = ask(app, "/health", {"content-length": "1"})
    assert (answer.status, answer.json["type"]) == (413, "/problems#body")


def test_episodes_are_as_in_their_topic_newest_first(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(2)))
    app = service(history, episodes=lambda group: checkouts() if group == "g" else GroupEpisodes())
    whole = ask(app, "/api/groups/g/episodes")
    assert (whole.json["next"], whole.json["caughtUp"]) == (None, True)
    values = [one.value for one in reversed(told(checkout()))]
    assert whole.body.startswith(b'{"episodes":[%b]' % b",".join(values))
    first = ask(app, "/api/groups/g/episodes?limit=1").json
    assert ([one["episode"] for one in first["episodes"]], first["next"]) == ([2], "2")
    rest = ask(app, f"/api/groups/g/episodes?limit=1&cursor={first['next']}").json
    assert ([one["episode"] for one in rest["episodes"]], rest["next"]) == ([1], None)
    assert ask(app, "/api/groups/g/episodes?cursor=9").json["episodes"] == []


@pytest.mark.parametrize(
    ("query", "numbers"),
    [(f"from={RESTARTED}", [2]), (f"to={RESTARTED}", [1]), (f"from={RESTARTED + 1}", [])],
)
def test_episodes_of_a_time_are_those_that_began_then(
    history: History, query: str, numbers: list[int]
) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(2)))
    found = ask(service(history, episodes=lambda _: checkouts()), f"/api/groups/g/episodes?{query}").json
    assert [one["episode"] for one in found["episodes"]] == numbers


def test_without_episodes_none_are_told_and_that_there_may_be_some(app: ASGIApp) -> None:
    nothing = {"episodes": [], "next": None, "caughtUp": False}
    assert ask(app, "/api/groups/team%2Fbilling/episodes").json == nothing
    assert ask(app, "/api/groups/none/episodes").status == 404
    assert ask(app, "/api/groups/orders/episodes?cause=x").status == 400
