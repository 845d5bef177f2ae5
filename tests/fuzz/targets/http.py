"""Fuzzes every endpoint of ``serve``: requests to the application, and bytes to the real server."""

import asyncio
import http.client
import json
import logging
import re
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

from streaming.records.codec import encode
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import History, Retention
from streaming.serve.records import TopicRecord
from streaming.serve.security import CSP, Access, TrustedProxies
from streaming.serve.server import FeedServer
from tests.fuzz.case import Case, FuzzTarget
from tests.support.compacted import checkout_group
from tests.support.feed import ASSIGNMENTS, DIFFS, MemorySource, records, service, stories, story
from tests.support.feed_server import served_cluster
from tests.support.histories import Group
from tests.support.incidents import incident

_TOKEN = "0123456789abcdef"  # noqa: S105 - of this harness
_REQUEST_PATHS = (
    *("/", "/health", "/ready", "/metrics", "/api/v1/openapi.json", "/groups/orders"),
    *("/api/v1/groups", "/api/v1/groups/orders", "/api/v1/groups/a%2Fb/rounds", "/api/v1/groups/%C3%A9%0A/timeline"),
    *("/api/v1/groups/orders/rounds/1", "/api/v1/groups/orders/rounds?view=summary&limit=2&cursor=3"),
    "/api/v1/rounds?from=2020-01-01T00:00:00Z&to=4102444800000&cause=member.joined&min_moved=1",
    "/api/v1/groups/orders/timeline?from=1&to=1900000000000&limit=5",
    *("/api/v1/groups/team%2Fcheckout/episodes?limit=1&cursor=2", "/api/v1/groups/orders/incidents?open=false"),
    "/api/v1/incidents?group=orders&open=true&from=1&to=1900000000000&limit=5&cursor=9",
    *("/api/v1/stream", "/api/v1/stream?group=orders&last_event_id=x.1&min_moved=2", "/nothing", "*"),
    "/api/v1/stream?stories=true&last_event_id=x.1.1",
)
_HEADERS = (
    *(b"host", b"last-event-id", b"authorization", b"if-none-match", b"accept-encoding", b"content-length"),
    *(b"x-forwarded-user", b"x-forwarded-proto"),
)


def _rounds() -> list[TopicRecord]:
    stored: list[TopicRecord] = []
    for number, name in enumerate(("orders", "a/b", "é\n", "%2F")):
        group = Group(name, {"t0": 6, "t1": 2}, number)
        stored += records(group.diffs(6), start=len(stored))
        latest = encode(group.latest())
        stored.append(TopicRecord(ASSIGNMENTS, 0, number, name.encode(), latest, None))
    stored += records(Group("team/checkout", {"t0": 6}, 9).diffs(2), start=len(stored))
    return [*stored, *stories(checkout_group()), story(incident("orders")), story(incident("é\n"), offset=1)]


@cache
def _make_applications() -> tuple[ASGIApp, ...]:
    """Return the web service three times: without access control, with a token, and behind an authenticating proxy."""
    path = Path(tempfile.mkdtemp()) / "history.sqlite"
    history = History(path, cluster_id="c", diffs_topic=DIFFS)
    history.append(_rounds())
    behind = Access(lambda: [_TOKEN], TrustedProxies.of("X-Forwarded-User", ["127.0.0.0/8"]))
    return (
        service(history),
        service(history, token=_TOKEN, loopback_only=False),
        service(history, access=behind, loopback_only=False, access_log=True),
    )


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _asgi(case: Case) -> None:
    """Assert that an ASGI request gets a complete response without an internal error."""
    parts = ((part or b"") for part in (case + [None] * 10)[:10])
    # h11 passes only these bytes: printable ASCII, and in headers bytes above it.
    method, target, *values = (re.sub(rb"[^!-~\x80-\xff]", b"", part) for part in parts)
    method, target = (re.sub(rb"[\x80-\xff]", b"", part) for part in (method, target))
    path, _, query = target.partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1"),
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "headers": [pair for pair in zip(_HEADERS, values, strict=True) if pair[1]],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8686),
    }
    for app in _make_applications():
        sent = _loop().run_until_complete(_request(app, dict(scope, state={"abort": lambda: None})))
        _check_answer(scope, sent)


async def _request(app: ASGIApp, scope: dict[str, Any]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    stop_event = asyncio.Event()

    async def receive() -> dict[str, Any]:
        # A feed client disconnects after its first events.
        await asyncio.wait_for(stop_event.wait(), 60)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if len(sent) > 2 or not message.get("more_body", True):
            stop_event.set()

    await asyncio.wait_for(app(scope, receive, send), 60)
    return sent


def _check_answer(scope: dict[str, Any], sent: list[dict[str, Any]]) -> None:
    start, *bodies = sent
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    assert start["status"] < 500 or (start["status"] == 503 and scope["path"] == "/ready"), start
    assert headers["content-security-policy"].startswith(CSP)
    assert all(value.isprintable() for value in headers.values())
    body = b"".join(message.get("body", b"") for message in bodies)
    if start["status"] >= 400 and scope["path"] != "/ready":
        assert headers["content-type"] == "application/problem+json", sent
    if "json" in headers.get("content-type", "") and "content-encoding" not in headers and body:
        document = json.loads(body)
        if start["status"] >= 400 and scope["path"] != "/ready":
            assert document["status"] == start["status"]
            assert document["detail"]


def _asgi_seeds() -> Iterator[Case]:
    for path in _REQUEST_PATHS:
        yield [b"GET", path.encode(), b"localhost:8686", None, b"Bearer " + _TOKEN.encode(), *[None] * 5]
    yield [b"HEAD", b"/api/v1/stream", b"[::1]:1", b"x.1", b"Basic eA==", b'"x"', b"gzip", b"0", b"eve", b"https"]
    event_id = b"abcd.99999999999999999999"
    yield [b"POST", b"/api/v1/groups", b"evil.com", event_id, None, None, b"*", b"5", b"e\xff", b"HTTPS"]


class _LoggedErrors(logging.Handler):
    """Collects the errors that the server logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


@cache
def _server() -> tuple[int, _LoggedErrors]:
    """Start a server over the rounds of :func:`_rounds`; return its port, and the errors that the server logs."""
    source = MemorySource()
    source.put(*_rounds())
    options = ServeOptions(Path(tempfile.mkdtemp()) / "h.sqlite", port=0, limits=Retention(2**50, 2**40))
    server = FeedServer([served_cluster(source, options)], options)
    threading.Thread(target=server.run, daemon=True).start()
    logging.disable(logging.NOTSET)
    logged_errors = _LoggedErrors()
    logging.getLogger().addHandler(logged_errors)
    port = int(server.address.rsplit(":", 1)[1])
    ends = time.monotonic() + 20
    while _status(port) != http.HTTPStatus.OK:
        assert time.monotonic() < ends, "the server does not get ready"
        time.sleep(0.01)
    return port, logged_errors


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("localhost", port, timeout=20)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status
    except ConnectionError:
        return 0
    finally:
        connection.close()


def _bytes(case: Case) -> None:
    """Send bytes to the real server in parts; the server must respond in HTTP or close, and continue to serve."""
    port, logged_errors = _server()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        for part in case:
            try:
                client.sendall(part or b"")
            except ConnectionError:
                break  # it has received enough
        answer = _read_response(client)
    assert not answer or answer.startswith(b"HTTP/1.1 "), answer[:100]
    if answer:
        assert int(answer[9:12]) < 500, answer[:300]
    assert not logged_errors.messages, logged_errors.messages.pop()


def _read_response(client: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection; disconnect from a feed after its first events."""
    answer = b""
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)
    with suppress(ConnectionError):
        while part := client.recv(1 << 16):
            answer += part
            if b"text/event-stream" in answer and b"\n\n" in answer:
                break
    return answer


def _byte_seeds() -> Iterator[Case]:
    for path in _REQUEST_PATHS:
        yield [b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()]
    head = b"GET /api/v1/groups HTTP/1.1\r\nHost: localhost\r\n"
    yield [head, b"Connection: close\r\n\r\n"]
    yield [head + b"\r\n" + head + b"Last-Event-ID: x.1\r\n\r\n"]
    yield [head + b"Content-Length: 5\r\n\r\nhello", head + b"\r\n"]
    yield [head + b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"]
    yield [head + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"]
    yield [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]


_FUZZ_WORDS = (
    *(b"/api/v1/groups/", b"/rounds", b"/timeline", b"/episodes", b"/incidents", b"open=", b"stories=true"),
    *(b"?limit=", b"&from=", b"%2F", b"%00", b"%", b"//", b"/../"),
    *(b"\r\n", b"\r\n\r\n", b"HTTP/1.0", b"HTTP/1.1", b"Host: ", b"Expect: 100-continue\r\n", b"chunked", b"HEAD"),
)
TARGETS = (
    FuzzTarget("http", _asgi, _asgi_seeds, 10, words=_FUZZ_WORDS),
    FuzzTarget("http-bytes", _bytes, _byte_seeds, words=_FUZZ_WORDS),
)
