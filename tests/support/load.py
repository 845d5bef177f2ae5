"""Runs many clients of one feed in a process: ``python -m tests.support.load PORT CLIENTS STUCK EVENTS``.

Prints one JSON line: the number of ids that each client received, the number of repeated ids, and the delay of each
diff as ``[timestamp ms, delay ms]``, from its timestamp (when it was published) until a client read it.
"""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from streaming.records.diffs import Diff
from tests.support.histories import Group
from tests.support.serving import Publisher, ServeProcess

_ROUND_EVENT = re.compile(rb'id: (\S+)\nevent: round\ndata: .{0,40}?"summary":\{.*?"timestamp":(\d+).*?"id":"([^"]+)"')


class FeedClient:
    """A feed client that reconnects at the last position that it received.

    Args:
        port: the server's port.
        take: called with a round's id, its timestamp and the time of reading, both in ms.
    """

    def __init__(self, port: int, take: Callable[[bytes, int, float], None]) -> None:
        self.port = port
        self.last = b""
        self.connections = 0
        self.resets = 0
        self._take = take

    async def follow(self, done: Callable[[], bool]) -> None:
        while not done():
            try:
                await self._connection(done)
            except OSError:
                await asyncio.sleep(0.1)

    async def _connection(self, done: Callable[[], bool]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        last = b"Last-Event-ID: %b\r\n" % self.last if self.last else b""
        writer.write(b"GET /api/v1/stream HTTP/1.0\r\nHost: localhost\r\n%b\r\n" % last)
        self.connections += 1
        rest = b""
        try:
            while not done():
                data = await reader.read(1 << 18)
                if not data:
                    return
                now = time.time() * 1000
                *events, rest = (rest + data).split(b"\n\n")
                for event in events:
                    self._event(event, now)
        finally:
            writer.close()

    def _event(self, event: bytes, now: float) -> None:
        match = _ROUND_EVENT.match(event)
        if match:
            self.last = match[1]
            self._take(match[3], int(match[2]), now)
        elif event.startswith(b"id: "):
            self.last = event[4 : event.index(b"\n")]
        self.resets += event.startswith(b"event: reset")


class _Client:
    """A client of the load test, with the ids that the client received."""

    def __init__(self, port: int, wanted: int) -> None:
        self.ids: Counter[bytes] = Counter()
        self.delays: list[tuple[int, float]] = []
        self.feed = FeedClient(port, self._take)
        self._expected_count = wanted

    async def follow(self) -> None:
        await self.feed.follow(lambda: len(self.ids) >= self._expected_count)

    def _take(self, diff_id: bytes, sent: int, now: float) -> None:
        self.ids[diff_id] += 1
        self.delays.append((sent, now - sent))


def _open_stuck_connection(port: int) -> socket.socket:
    """Open a connection that requests the feed and never reads the response."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET /api/v1/stream HTTP/1.0\r\nHost: localhost\r\n\r\n")
    return client


async def _clients(port: int, count: int, stuck: int, wanted: int) -> None:
    stuck_clients = [_open_stuck_connection(port) for _ in range(stuck)]
    clients = [_Client(port, wanted) for _ in range(count)]
    tasks = [asyncio.create_task(client.follow()) for client in clients]
    while any(not client.feed.last for client in clients):  # noqa: ASYNC110 - each has its snapshot now
        await asyncio.sleep(0.02)
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    await asyncio.wait(tasks, timeout=180)
    for connection in stuck_clients:
        connection.close()
    result = {
        "ids": [len(client.ids) for client in clients],
        "twice": sum(count - 1 for client in clients for count in client.ids.values()),
        "delays": [delay for client in clients for delay in client.delays],
        "connections": sum(client.feed.connections for client in clients),
    }
    sys.stdout.write(json.dumps(result) + "\n")


@dataclass(frozen=True)
class LoadResult:
    """Result of a load test: delays in ms of the diffs sent while the server was up, and the server's memory in MB."""

    events: int
    clients: int
    complete: int
    repeated_count: int
    median_ms: float
    percentile_99_ms: float
    max_delay_ms: float
    connections: int
    rss_mb_before: float
    max_rss: float
    cpu_seconds: float


def rss(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123 - a pseudo-file
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def cpu_seconds_of(pid: int) -> float:
    """Return the processor time that a process has used, in seconds."""
    with open(f"/proc/{pid}/stat") as stat_file:  # noqa: PTH123 - same
        fields = stat_file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _live_diffs(groups: int) -> Iterator[Diff]:
    """Yield diffs of many groups in turn, each with the time at which it is sent."""
    made = [Group(f"load-{index}", {"t": 12}, index) for index in range(groups)]
    pending_diffs = [group.change() for group in made]
    while True:
        for index, group in enumerate(made):
            diff = next(pending_diffs[index], None)
            if diff is None:
                pending_diffs[index] = group.change()
                diff = next(pending_diffs[index])
            yield msgspec.structs.replace(diff, timestamp=time.time_ns() // 1_000_000)


def run_load(
    serve: ServeProcess, *, clients: int, rate: float, seconds: float, stuck: int, restart: Callable[[], None] | None
) -> LoadResult:
    """Publish diffs at a constant rate while clients follow the feed; call ``restart`` half-way."""
    events = int(rate * seconds)
    publisher = Publisher(serve)
    command = [sys.executable, "-m", "tests.support.load", str(serve.port), str(clients), str(stuck), str(events)]
    away: list[float] = []
    most = before = 0.0
    used_cpu_seconds = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crowd:
        assert crowd.stdout is not None
        assert crowd.stdout.readline() == "connected\n"
        assert serve.process is not None
        before = most = rss(serve.process.pid)
        started = cpu_seconds_of(serve.process.pid)
        begin = time.monotonic()
        for index, diff in enumerate(_live_diffs(50)):
            if index == events:
                break
            if restart is not None and index == events // 2:
                used_cpu_seconds += cpu_seconds_of(serve.process.pid) - started
                away.append(time.time() * 1000)
                restart()
                away.append(time.time() * 1000)
                started = 0.0
            time.sleep(max(0.0, begin + index / rate - time.monotonic()))
            publisher.put([msgspec.structs.replace(diff, timestamp=time.time_ns() // 1_000_000)])
            if index % 20 == 0:
                most = max(most, rss(serve.process.pid))
        used_cpu_seconds += cpu_seconds_of(serve.process.pid) - started
        most = max(most, rss(serve.process.pid))
        result: dict[str, Any] = json.loads(crowd.stdout.readline())
    # A client waits before it reconnects; messages sent until then do not count as the server's delay.
    delays = sorted(delay for sent, delay in result["delays"] if not (away and away[0] - 200 <= sent <= away[1] + 1500))
    return LoadResult(
        events=events,
        clients=clients,
        complete=sum(count == events for count in result["ids"]),
        repeated_count=result["twice"],
        median_ms=delays[len(delays) // 2],
        percentile_99_ms=delays[int(len(delays) * 0.99)],
        max_delay_ms=delays[-1],
        connections=result["connections"],
        rss_mb_before=before,
        max_rss=most,
        cpu_seconds=used_cpu_seconds,
    )


if __name__ == "__main__":
    asyncio.run(_clients(*(int(argument) for argument in sys.argv[1:])))
