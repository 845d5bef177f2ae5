"""Measures the cost of components (processor time, memory, bytes of topics), and runs a crowd of feed clients.

``python -m benchmarks._large_watch PORT CLIENTS`` runs the crowd: each client follows the feed and reconnects at
its last position. Once a second it prints, as JSON: rounds received by all clients; the newest round's number at the
slowest, the median and the fastest client; connections; snapshots received after a gap; and bytes.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.load import cpu_seconds_of, rss
from tests.support.processes import children


def process_tree(pid: int) -> list[int]:
    """Return the process ids of a process and of all its descendants."""
    return [pid, *(process for child in children(pid) for process in process_tree(child))]


@dataclass
class ComponentCost:
    """One component of the monitor with its processor time between two samples and its maximum memory (MB)."""

    name: str
    pid: int
    memory: float = 0.0
    _cpu_seconds: dict[int, float] = field(default_factory=dict)
    _last_total_seconds: float = 0.0

    def sample(self) -> None:
        """Record the processor time and memory of each process of the component."""
        memory = 0.0
        for pid in process_tree(self.pid):
            try:
                self._cpu_seconds[pid] = cpu_seconds_of(pid)
                memory += rss(pid)
            except (OSError, StopIteration):  # it has ended
                continue
        self.memory = max(self.memory, memory)

    def usage_since_last_call(self) -> float:
        """Return the CPU seconds that the component has used since the previous call."""
        self.sample()
        total = sum(self._cpu_seconds.values())
        used_seconds, self._last_total_seconds = total - self._last_total_seconds, total
        return used_seconds


@contextmanager
def sample_components(components: list[ComponentCost]) -> Iterator[None]:
    """Sample the memory of components repeatedly while the block runs."""
    is_stopping = threading.Event()

    def sample() -> None:
        while not is_stopping.wait(0.5):
            for component in components:
                component.sample()

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_stopping.set()
        thread.join()


class TopicCounts:
    """Counts the records and bytes that were added to topics since the last sample."""

    def __init__(self, servers: str, names: list[str]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": 65_536,
                "fetch.wait.max.ms": 20,
            }
        )
        self._totals: dict[str, tuple[int, int, int]] = {}
        self._next = {
            (name, number): 0
            for name in names
            for number in self._consumer.list_topics(name, timeout=10).topics[name].partitions
        }

    def total(self) -> dict[str, tuple[int, int, int]]:
        """Return, by topic, the number of all records so far, the bytes of their values, and the longest value."""
        self.usage_since_last_call()
        return dict(self._totals)

    def usage_since_last_call(self) -> dict[str, tuple[int, int, int]]:
        """Return, by topic, the number of records since the last call, their values' bytes, and the longest value."""
        counts: dict[str, tuple[int, int, int]] = {name: (0, 0, 0) for name, _ in self._next}
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])
        waiting = set(self._next)
        while waiting:
            for message in self._consumer.consume(500, 0.2):
                place, error = (message.topic() or "", message.partition() or 0), message.error()
                if error is None:
                    records, total, longest = counts[place[0]]
                    size = len(message.value() or b"")
                    counts[place[0]] = records + 1, total + size, max(longest, size)
                    self._next[place] = (message.offset() or 0) + 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                    waiting.discard(place)
        for name, (records, size, longest) in counts.items():
            before = self._totals.get(name, (0, 0, 0))
            self._totals[name] = before[0] + records, before[1] + size, max(before[2], longest)
        return counts

    def close(self) -> None:
        """Close the consumer that reads the topics."""
        self._consumer.close()


class Client:
    """One of many clients of the live feed, which counts diffs and decodes only their round numbers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.last = b""
        self.seq = self.rounds = self.bytes = self.connections = self.resets = self.refused = 0

    async def follow(self) -> None:
        while True:
            try:
                await self._connection()
            except OSError:
                self.refused += 1
            await asyncio.sleep(1)

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**20)
        last = b"Last-Event-ID: %b\r\n" % self.last if self.last else b""
        writer.write(b"GET /api/v1/stream HTTP/1.0\r\nHost: localhost\r\n%b\r\n" % last)
        self.connections += 1
        incomplete_line = b""
        try:
            while data := await reader.read(1 << 18):
                self.bytes += len(data)
                whole = incomplete_line + data[: data.rfind(b"\n") + 1]
                incomplete_line = data[len(whole) - len(incomplete_line) :] if whole else incomplete_line + data
                self._read_events(whole)
                incomplete_line = incomplete_line[-200_000:]
        finally:
            writer.close()

    def _read_events(self, lines: bytes) -> None:
        self.rounds += lines.count(b"event: round\n")
        self.resets += lines.count(b"event: reset\n")
        at = lines.rfind(b"id: ")
        if at >= 0:
            self.last = lines[at + 4 : lines.index(b"\n", at)]
            self.seq = int(self.last.split(b".")[1])


async def _run_clients(port: int, count: int) -> None:
    clients = [Client(port) for _ in range(count)]
    tasks = [asyncio.create_task(client.follow()) for client in clients]
    while tasks:
        await asyncio.sleep(1)
        sequence_numbers = sorted(client.seq for client in clients)
        report = {
            "at": time.time(),
            "seqs": [sequence_numbers[0], sequence_numbers[count // 2], sequence_numbers[-1]],
            **{
                name: sum(getattr(client, name) for client in clients)
                for name in ("rounds", "bytes", "connections", "resets", "refused")
            },
        }
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


@dataclass
class FeedClients:
    """Reports of the process that runs the feed clients, which it prints once per second."""

    reports: list[dict[str, Any]] = field(default_factory=list)

    def max_lag(self, newest: Callable[[float], int]) -> tuple[int, float]:
        """Return the maximum lag of the slowest client, in rounds and in seconds.

        ``newest``: function that returns the number of the server's newest round at a given time.
        """
        rounds = max((newest(report["at"]) - report["seqs"][0] for report in self.reports), default=0)
        max_seconds = 0.0
        for index, report in enumerate(self.reports):
            earlier = (
                earlier_report["at"]
                for earlier_report in self.reports[index::-1]
                if newest(earlier_report["at"]) <= report["seqs"][0]
            )
            max_seconds = max(max_seconds, report["at"] - next(earlier, self.reports[0]["at"]))
        return rounds, max_seconds


@contextmanager
def feed_clients(port: int, count: int) -> Iterator[FeedClients]:
    """Run this many clients of a server in a separate process."""
    feed_clients = FeedClients()
    command = [sys.executable, "-m", "benchmarks._large_watch", str(port), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:

        def read() -> None:
            for line in process.stdout or ():
                feed_clients.reports.append(json.loads(line))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield feed_clients
        finally:
            process.terminate()
            thread.join()


if __name__ == "__main__":
    asyncio.run(_run_clients(*map(int, sys.argv[1:])))
