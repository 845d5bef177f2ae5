from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streaming.serve.feed import FeedTimes
from streaming.serve.history import Limits
from streaming.serve.server import (
    AddressUnusable,
    FeedServer,
    ServeOptions,
    listen,
)
from tests.support.feed import DIFFS, MemorySource, records
from tests.support.histories import Group


@dataclass
class Running:
    source: MemorySource
    server: FeedServer

    @property
    def port(self) -> int:
        return int(self.server.address.rsplit(":", 1)[1])

    def get(self, path: str) -> object:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())


@contextlib.contextmanager
def running(options: ServeOptions, source: MemorySource | None = None) -> Iterator[Running]:
    """A server on its own thread; stopped as a signal would."""
    source = source or MemorySource()
    server = FeedServer(source, options, cluster_id="c")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield Running(source, server)
    finally:
        server.stop()
        thread.join(15)
        assert not thread.is_alive()


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    return ServeOptions(tmp_path / "h.sqlite", DIFFS, port=0, limits=Limits(2**50, 2**40))


def await_true(condition, seconds: float = 10) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_arrives_is_served(options: ServeOptions) -> None:
    with running(options) as feed:
        feed.source.put(*records(Group("g", {"t": 6}, 1).diffs(7)))
        await_true(lambda: feed.get("/ready") == {"ready": True, "lag": 0, "seq": 7})
        assert len(feed.get("/api/rounds")["rounds"]) == 7  # type: ignore[index, call-overload]


def test_a_restart_reads_on_and_drops_repeats(options: ServeOptions) -> None:
    made = records(Group("g", {"t": 6}, 1).diffs(9))
    source = MemorySource()
    source.put(*made[:5])
    with running(options, source) as feed:
        await_true(lambda: feed.get("/ready")["seq"] == 5)  # type: ignore[index, call-overload]
    source.put(*made[5:])
    with running(options, source) as feed:
        await_true(lambda: feed.get("/ready")["seq"] == 9)  # type: ignore[index, call-overload]
        assert source.positions == {(DIFFS, 0): 5}


def stream(port: int, *, buffer: int | None = None) -> socket.socket:
    client = socket.socket()
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


def test_a_client_that_stops_reading_is_cut_off_and_nobody_waits_for_it(options: ServeOptions) -> None:
    options = replace(options, times=FeedTimes(stuck=1.0, keep_alive=1.0))
    with running(options) as feed, stream(feed.port, buffer=4096) as deaf, stream(feed.port) as fine:
        await_true(lambda: b"rebalance_monitor_feed_clients 2.0" in text(feed.port, "/metrics"))
        feed.source.put(*records(Group("g", {"t": 200}, 1).diffs(3000)))
        fine.settimeout(10)
        received = b""
        while b'event: round\ndata: {"seq":3000,' not in received[-200_000:]:
            received += fine.recv(1 << 20)
        await_true(lambda: b"rebalance_monitor_feed_clients_cut_off_total 1.0" in text(feed.port, "/metrics"))
        deaf.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            while deaf.recv(1 << 20):
                pass
        assert received.count(b"event: round") == 3000


def text(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().read()


def test_a_connection_that_asks_nothing_is_closed(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.serve.server.IDLE_SECONDS", 1)
    with running(options) as feed, socket.create_connection(("127.0.0.1", feed.port)) as idle:
        idle.settimeout(10)
        assert idle.recv(10) == b""


def test_a_request_line_without_end_is_refused(options: ServeOptions) -> None:
    with running(options) as feed, socket.create_connection(("127.0.0.1", feed.port)) as client:
        client.sendall(b"GET /" + b"x" * 70_000)
        client.settimeout(10)
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_a_history_that_cannot_be_written_ends_the_service(options: ServeOptions) -> None:
    from streaming.serve.schema import HistoryFailure

    source = MemorySource()
    server = FeedServer(source, options, cluster_id="c")
    server._history._connection.execute("DROP TABLE positions")
    server._history.positions = dict  # type: ignore[method-assign]
    source.put(*records(Group("g", {"t": 6}, 1).diffs(1)))
    with pytest.raises(HistoryFailure, match="positions"):
        server.run()


def test_a_port_in_use_is_one_line() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(AddressUnusable, match="Address already in use"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_retention_runs_while_serving(options: ServeOptions) -> None:
    options = replace(options, limits=Limits(1, 2**30))
    source = MemorySource()
    source.put(*records(Group("g", {"t": 6}, 1).diffs(4)))
    with running(options, source) as feed:
        await_true(lambda: feed.get("/ready")["seq"] == 4)  # type: ignore[index, call-overload]
    with running(options, source) as feed:  # the first round of trimming comes with the first step
        await_true(lambda: feed.get("/api/rounds")["rounds"] == [])  # type: ignore[index, call-overload]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_with_zero(tmp_path: Path, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.memory_server",
        "--database",
        str(tmp_path / "h.sqlite"),
        "--groups",
        "2",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ.copy()
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rsplit(b":", 1)[1])
        with stream(port) as client:
            client.settimeout(10)
            assert client.recv(12) == b"HTTP/1.1 200"
            process.send_signal(number)
            while client.recv(1 << 20):
                pass
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    assert b"Traceback" not in errors
