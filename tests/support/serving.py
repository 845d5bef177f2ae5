"""``rebalance-monitor serve`` as a process of its own, and clients that follow its feed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from streaming.kafka.topics import ensure_topics
from streaming.settings.config import load
from streaming.wire.events import Diff
from tests.support.feed import message


def free_port() -> int:
    """A port that is free now; kept by the caller over restarts of the server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Serve:
    """One server over a cluster; may be killed and started again on its port and history."""

    def __init__(self, bootstrap_servers: str, prefix: str, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = load(bootstrap_servers=bootstrap_servers, topic_prefix=prefix)
        self.log = folder / "serve.log"
        self._command = [
            *(sys.executable, "-m", "streaming", "serve", "--port", str(self.port), "--verbose"),
            *("--bootstrap-servers", bootstrap_servers, "--topic-prefix", prefix),
            *("--database", str(folder / "history.sqlite"), "--keep", "5000w", *options),
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def connect_to(self, bootstrap_servers: str) -> None:
        """Start it against another listener of the cluster from now on."""
        self._command[self._command.index("--bootstrap-servers") + 1] = bootstrap_servers

    def start(self, *, wait: bool = True) -> Serve:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=os.environ.copy())
        if wait:
            self.await_status("/health", 200)
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def await_status(self, path: str, status: int, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if self.ask(path)[0] == status:
                    return
            except OSError:
                assert self.process is not None
                assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def ask(self, path: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def ids(self, limit: int = 2000) -> list[str]:
        """Ids of all stored rounds, oldest first."""
        found: list[str] = []
        cursor = ""
        while True:
            _, page = self.ask(f"/api/rounds?view=summary&limit={limit}{cursor}")
            found += [one["summary"]["id"] for one in page["rounds"]]
            if page["next"] is None:
                return found[::-1]
            cursor = f"&cursor={page['next']}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Publisher:
    """Puts diffs into the topic of a server's settings."""

    def __init__(self, serve: Serve) -> None:
        from confluent_kafka import Producer

        from streaming.kafka.clients import confluent_config

        ensure_topics(serve.settings)
        self.topic = serve.settings.topics.diffs
        self.producer = Producer(
            confluent_config(serve.settings.kafka) | {"partitioner": "murmur2_random", "linger.ms": 0}
        )

    def put(self, found: Iterable[Diff]) -> None:
        for diff in found:
            self.producer.produce(self.topic, **message(diff))
        self.producer.flush(20)


class Follower(threading.Thread):
    """A client of the feed: remembers each id it was given, comes back where it was."""

    def __init__(self, port: int, query: str = "") -> None:
        super().__init__(daemon=True)
        self.port = port
        self.query = query
        self.ids: list[str] = []
        self.resets = 0
        self.snapshots = 0
        self.last: str | None = None
        self.ending = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.ending.is_set():
            try:
                self._follow()
            except (OSError, http.client.HTTPException, ValueError):
                self.ending.wait(0.1)  # the server is away: that is what these tests do

    def _follow(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(
            "GET", f"/api/stream{self.query}", headers={"Last-Event-ID": self.last} if self.last else {}
        )
        response = connection.getresponse()
        fields: dict[str, str] = {}
        while not self.ending.is_set():
            line = response.readline()
            if not line:
                raise ConnectionResetError
            if line == b"\n":
                self._take(fields)
                fields = {}
            else:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                fields[name] = value
        connection.close()

    def _take(self, fields: dict[str, str]) -> None:
        event = fields.get("event")
        if event == "round":
            self.ids.append(json.loads(fields["data"])["summary"]["id"])
        self.snapshots += event == "snapshot"
        self.resets += event == "reset"
        self.last = fields.get("id", self.last)
