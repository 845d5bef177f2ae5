import asyncio
import gzip
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.types import ASGIApp

from streaming.serve.app import EncodedGroupIds, build
from streaming.serve.board import Board, FeedStatus
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import History
from streaming.serve.security import Access
from tests.support.asgi import Response, ask
from tests.support.feed import connected_cluster, service


def test_other_methods_than_get_are_refused(app: ASGIApp) -> None:
    assert ask(app, "/api/v1/groups", {"content-length": "3"}, method="POST").status == 405
    answer = ask(app, "/api/v1/groups", method="POST")
    assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert ask(app, "/api/v1/groups", {"content-length": "0"}).status == 200
    assert ask(app, "/api/v1/groups", {"content-length": "1"}).status == 413
    assert ask(app, "/api/v1/groups", {"transfer-encoding": "chunked"}).status == 413


def responses_of_every_kind(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Response]:
    """Yield responses of every kind: the page, JSON, metrics, rejections, and an internal error."""
    targets = ("/", "/groups/g", "/api/v1/groups", "/api/v1/none", "/health", "/metrics", "/api/v1/groups?x=1")
    yield from (ask(app, target) for target in targets)
    yield ask(app, "/api/v1/groups", method="POST")
    yield ask(app, "/health", host="evil.example")
    monkeypatch.setattr(Board, "status_document", lambda _: 1 / 0)
    yield ask(app, "/ready")


def test_every_answer_has_a_content_type_and_security_headers(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    responses = list(responses_of_every_kind(app, monkeypatch))
    assert {answer.status for answer in responses} == {200, 400, 404, 405, 421, 500}
    for answer in responses:
        policy = answer.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} <= set(policy)
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers
        kind, _, charset_parameter = answer.headers["content-type"].partition("; ")
        assert kind.startswith("application/") or charset_parameter.endswith("charset=utf-8"), kind
    assert responses[-1].json["detail"] == "The server failed: its log has the error."


def test_browsers_cache_only_the_page(app: ASGIApp) -> None:
    for target in ("/api/v1/groups", "/api/v1/groups/orders", "/metrics", "/api/v1/none", "/ready"):
        assert ask(app, target).headers["cache-control"] == "no-store"
    assert ask(app, "/").headers["cache-control"] == "no-cache"


def test_origin_header_has_no_effect(app: ASGIApp) -> None:
    assert ask(app, "/api/v1/groups", {"origin": "https://evil.example"}) == ask(app, "/api/v1/groups")
    assert ask(app, "/api/v1/groups", method="OPTIONS").status == 405


def test_loopback_server_refuses_other_hosts(app: ASGIApp, history: History) -> None:

    evil = ["127.evil.example", "[::1].evil.com", "[::1]evil.com", "[::1%evil.com]", "::1", "[[::1]]", "", " "]
    evil += ["localhost@evil.com", "localhost:80@evil.com", "localhost.evil.com", "[::1]:x", "::", "evil.example:8686"]
    for host in evil:
        assert ask(app, "/health", host=host).status == 421, host
    for host in ("localhost:1", "LocalHost", "127.0.0.1:8686", "[::1]:8686", "[::1]", "[0:0::1]:"):
        assert ask(app, "/health", host=host).status == 200, host
    assert ask(service(history, loopback_only=False), "/health", host="feed.internal").status == 200


def test_a_token_guards_data_and_metrics_but_not_probes(history: History) -> None:
    app = service(history, token="a-long-enough-token")  # noqa: S106 - a made-up token
    for target in ("/api/v1/groups", "/api/v1/stream", "/metrics", "/api/v1/none"):
        assert ask(app, target).status == 401
        assert ask(app, target, {"authorization": "Bearer wrong"}).status == 401
    assert ask(app, "/api/v1/groups", {"authorization": "bearer a-long-enough-token"}).status == 200
    for target in ("/health", "/", "/groups/g"):
        assert ask(app, target).status == 200


def test_ready_only_when_caught_up(history: History) -> None:
    cluster = connected_cluster(history)
    app = build([cluster], ServeOptions(), Access())
    assert (ask(app, "/ready").status, ask(app, "/health").status) == (503, 200)
    cluster.board.progress(FeedStatus(caught_up=True))
    assert ask(app, "/ready").json == {"ready": True, "lag": 0, "seq": 0}


def test_only_large_responses_are_compressed_on_request(app: ASGIApp) -> None:
    plain = ask(app, "/api/v1/groups/orders/rounds").body
    packed = ask(app, "/api/v1/groups/orders/rounds", {"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain
    small = ask(app, "/health", {"accept-encoding": "gzip"})
    assert (small.body, small.headers.get("content-encoding")) == (b'{"status":"up"}', None)


def test_head_request_of_the_feed_has_headers_only(app: ASGIApp) -> None:
    answer = ask(app, "/api/v1/stream", {"accept-encoding": "gzip"}, method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    assert "content-encoding" not in answer.headers


def router_path(raw: str) -> str:
    """Return the path on which the router matches a request with this raw path."""
    received_paths: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received_paths.append(scope["path"])

    asyncio.run(EncodedGroupIds(app)({"type": "http", "path": unquote(raw), "raw_path": raw.encode()}, None, None))
    return received_paths[0]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("/api/v1/groups/orders/rounds", "/api/v1/groups/orders/rounds"),
        ("/api/v1/groups/team%2Frounds", "/api/v1/groups/team%2Frounds"),
        ("/api/v1/groups/a%2fb/rounds/5", "/api/v1/groups/a%2Fb/rounds/5"),
        ("/api/v1/groups/100%25", "/api/v1/groups/100%25"),
        ("/api/v1/groups/gr%C3%BC%C3%9Fe", "/api/v1/groups/grüße"),
        ("/api%2Fv1%2Fgroups/x", "/api%2Fv1%2Fgroups/x"),
        ("/elsewhere/a%2Fb", "/elsewhere/a/b"),
    ],
)
def test_encoded_slash_does_not_separate_path_segments(raw: str, wanted: str) -> None:
    assert router_path(raw) == wanted
