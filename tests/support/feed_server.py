"""Runs a feed server with records in memory, in a thread of the test."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from assignors.errors import MonitorError
from streaming.freshness import Freshness
from streaming.kafka.lag_reader import GroupLag
from streaming.serve.clusters import Cluster, ServeOptions
from streaming.serve.server import FeedServer
from streaming.serve.source import Source
from tests.support.feed import MemorySource


def open_request(port: int, path: str, *headers: str, buffer: int | None = None) -> socket.socket:
    """Send a request for ``path`` and return the open socket.

    ``buffer``: size of the socket's receive buffer in bytes.
    """
    client = socket.socket()
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(10)
    client.connect(("127.0.0.1", port))
    client.sendall("\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode())
    return client


@dataclass
class RunningServer:
    """A running feed server and the source that it reads."""

    source: MemorySource
    server: FeedServer
    lags: dict[str, GroupLag] = field(default_factory=dict)
    ended: list[MonitorError | None] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.address.rsplit(":", 1)[1])

    def ask(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()

    def get(self, path: str) -> Any:
        return json.loads(self.ask(path)[1])

    def metrics(self) -> dict[str, float]:
        """Return the samples of the server's metrics by name and labels."""
        lines = self.ask("/metrics")[1].decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def run(self) -> None:
        try:
            self.server.run()
        except MonitorError as error:
            self.ended.append(error)
        else:
            self.ended.append(None)


def served_cluster(source: MemorySource, options: ServeOptions, name: str = "") -> Cluster:
    """Return a cluster whose records are in memory."""
    return Cluster(lambda: cast("Source", source), options, name=name)


@contextlib.contextmanager
def running(
    options: ServeOptions,
    source: MemorySource | None = None,
    freshness: Callable[[], Freshness] = Freshness,
    beat: Callable[[], None] = lambda: None,
    *,
    name: str = "",
    further_clusters: Sequence[Cluster] = (),
) -> Iterator[RunningServer]:
    """Run a server in a thread; the end of the block stops it as a signal would.

    ``freshness``: component heartbeats. ``further_clusters``: clusters besides the first.
    """
    source = source or MemorySource()
    lags: dict[str, GroupLag] = {}
    first = served_cluster(source, options, name)
    first.freshness, first.lags = lambda _: freshness(), lambda: dict(lags)
    server = FeedServer([first, *further_clusters], options, report_progress=beat)
    feed = RunningServer(source, server, lags)
    thread = threading.Thread(target=feed.run, daemon=True)
    thread.start()
    try:
        yield feed
    finally:
        feed.server.stop()
        thread.join(15)
        assert not thread.is_alive()
