import contextlib
import re
import resource
import socket
import time
from dataclasses import replace

import pytest

from streaming.serve import connections
from streaming.serve.clusters import ServeOptions
from streaming.serve.feed import FeedTimes
from tests.support.feed import records
from tests.support.feed_server import RunningServer, open_request, running
from tests.support.histories import Group
from tests.support.wait import eventually


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(connections, "UNREAD_TIMEOUT_SECONDS", 1)


def connected(feed: RunningServer) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", feed.port))
    client.settimeout(10)
    return client


def test_client_that_stops_reading_is_disconnected(options: ServeOptions) -> None:
    options = replace(options, times=FeedTimes(stuck=1.0, keep_alive_seconds=1.0))
    with (
        running(options) as feed,
        open_request(feed.port, "/api/v1/stream", buffer=4096) as unread_response,
        open_request(feed.port, "/api/v1/stream") as served_connection,
    ):
        eventually(lambda: feed.metrics()["rebalance_monitor_feed_clients"] == 2)
        feed.source.put(*records(Group("g", {"t": 200}, 1).diffs(3000)))
        received = b""
        while b'event: round\ndata: {"seq":3000,' not in received[-200_000:]:
            received += served_connection.recv(1 << 20)
        eventually(lambda: feed.metrics()["rebalance_monitor_feed_clients_cut_off_total"] == 1)
        with contextlib.suppress(ConnectionResetError):
            while unread_response.recv(1 << 20):
                pass
        assert re.sub(rb"\r\n[0-9a-f]+\r\n", b"", received).count(b"event: round") == 3000


@pytest.mark.usefixtures("short_timeouts")
def test_unread_response_is_cut_off(options: ServeOptions) -> None:
    with running(options) as feed:
        feed.server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # connections inherit the buffer size
        feed.source.put(*records(Group("g", {"t": 500}, 1).diffs(500)))
        eventually(lambda: feed.get("/ready")["seq"] == 500)
        with open_request(feed.port, "/api/v1/rounds?limit=500", buffer=4096) as unread_response:
            time.sleep(2)  # the tested condition: a client that reads nothing for longer than allowed
            received_bytes = b""
            with contextlib.suppress(ConnectionResetError):
                while more := unread_response.recv(1 << 20):
                    received_bytes += more
        head, _, body = received_bytes.partition(b"\r\n\r\n")
        assert len(body) < int(head.split(b"content-length: ")[1].split(b"\r")[0])


@pytest.mark.usefixtures("short_timeouts")
def test_connection_without_a_request_is_closed(options: ServeOptions) -> None:
    with running(options) as feed, connected(feed) as idle_connection:
        assert idle_connection.recv(10) == b""


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_slow_request_head_is_cut_off(options: ServeOptions, before: bytes) -> None:
    """A connection is closed if the head of its first request, or of a later request, arrives too slowly."""
    with running(options) as feed, connected(feed) as client:
        client.sendall(before)
        if before:
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        started = time.monotonic()
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for byte in b"GET /health HTTP/1.1\r\nHost: " + b"x" * 100:
                client.sendall(bytes([byte]))
                time.sleep(0.1)
        assert time.monotonic() - started < 8


def test_a_request_line_without_end_is_refused(options: ServeOptions) -> None:
    with running(options) as feed, connected(feed) as client:
        client.sendall(b"GET /" + b"x" * 70_000)
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_connections_are_limited_and_slots_are_freed(options: ServeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_RESERVED_CONNECTIONS", 2)
    with running(replace(options, max_clients=1)) as feed:
        with contextlib.ExitStack() as open_connections:
            for _ in range(3):
                open_connections.enter_context(connected(feed))
            eventually(lambda: refused(feed))
        eventually(lambda: not refused(feed))
        assert feed.ask("/health")[0] == 200


def refused(feed: RunningServer) -> bool:
    with open_request(feed.port, "/health") as client:
        answer = client.recv(1000)
    return answer.startswith(b"HTTP/1.1 503") and b"retry-after" in answer


@pytest.mark.parametrize(
    ("limit", "wanted", "allowed", "raised"),
    [
        ((1000, 1000), 100, 356, []),
        ((420, 420), 100, 356, []),  # just enough file descriptors
        ((419, 10_000), 100, 356, [(420, 10_000)]),
        ((64, 64), 100, 1, [(64, 64)]),
        ((256, 500), 1000, 436, [(500, 500)]),
        ((100, resource.RLIM_INFINITY), 100, 356, [(420, resource.RLIM_INFINITY)]),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 5000, 5256, []),
    ],
)
def test_connection_limit_follows_the_open_file_limit(
    monkeypatch: pytest.MonkeyPatch, limit: tuple[int, int], wanted: int, allowed: int, raised: list[tuple[int, int]]
) -> None:
    set_limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_limits.append(limits))
    assert (connections.max_connections(wanted), set_limits) == (allowed, raised)
