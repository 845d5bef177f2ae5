"""Runs ``rebalance-monitor serve`` as a child process, and clients that follow its feed."""

import http.client
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from streaming.kafka.runtime import free_ports
from streaming.kafka.topics import ensure_topics
from streaming.records.diffs import Diff
from streaming.settings.config import load
from tests.support.command import RunningCommand
from tests.support.feed import message
from tests.support.wait import TIMEOUT_SECONDS, eventually


class ServeProcess(RunningCommand):
    """A server over a cluster; a test may kill the server and restart it with the same port and history."""

    def __init__(self, bootstrap_servers: str, prefix: str, folder: Path, *options: str) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = load(bootstrap_servers=bootstrap_servers, topic_prefix=prefix)
        super().__init__(
            *("serve", "--port", str(self.port), "--verbose"),
            *("--bootstrap-servers", bootstrap_servers, "--topic-prefix", prefix),
            *("--database", str(folder / "history.sqlite"), "--keep", "5000w", *options),
            log=folder / "serve.log",
        )

    def start(self, *, wait: bool = True) -> Self:
        super().start()
        if wait:
            self.await_status("/health", 200)
        return self

    def start_with_diffs(self, diffs: Iterable[Diff]) -> Self:
        """Publish diffs to the server's topic, start the server, and wait until it has read these diffs."""
        Publisher(self).put(diffs)
        self.start().await_status("/ready", 200)
        return self

    def await_status(self, path: str, status: int, seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait until a path responds with this HTTP status."""

        def has_status() -> bool:
            try:
                return self.ask(path)[0] == status
            except OSError:
                self.check()
                return False

        eventually(has_status, timeout=seconds)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body of the server's response to a GET request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ask(self, path: str) -> tuple[int, Any]:
        """Return status and decoded JSON of the server's response to a GET request."""
        status, body = self.get(path)
        return status, json.loads(body)

    def ids(self, limit: int = 2000) -> list[str]:
        """Return the ids of all rounds that the server stores, oldest first."""
        ids: list[str] = []
        cursor = ""
        while True:
            _, page = self.ask(f"/api/v1/rounds?view=summary&limit={limit}{cursor}")
            ids += [stored["summary"]["id"] for stored in page["rounds"]]
            if page["next"] is None:
                return ids[::-1]
            cursor = f"&cursor={page['next']}"


class Publisher:
    """Publishes diffs to the topic from which the server reads them."""

    def __init__(self, serve: ServeProcess) -> None:
        from confluent_kafka import Producer

        from streaming.kafka.clients import confluent_config

        ensure_topics(serve.settings)
        self.topic = serve.settings.topics.diffs
        self.producer = Producer(
            confluent_config(serve.settings.kafka) | {"partitioner": "murmur2_random", "linger.ms": 0}
        )

    def put(self, diffs: Iterable[Diff]) -> None:
        for diff in diffs:
            self.producer.produce(self.topic, **message(diff))
        self.producer.flush(TIMEOUT_SECONDS)


class Follower(threading.Thread):
    """A feed client that records each received id and reconnects at the last position."""

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
                self.ending.wait(0.1)  # the server is down, as these tests intend

    def _follow(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(
            "GET", f"/api/v1/stream{self.query}", headers={"Last-Event-ID": self.last} if self.last else {}
        )
        response = connection.getresponse()
        fields: dict[str, str] = {}
        while not self.ending.is_set():
            line = response.readline()
            if not line:
                raise ConnectionResetError
            if line == b"\n":
                self._record_event(fields)
                fields = {}
            else:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                fields[name] = value
        connection.close()

    def _record_event(self, fields: dict[str, str]) -> None:
        event = fields.get("event")
        if event == "round":
            self.ids.append(json.loads(fields["data"])["summary"]["id"])
        self.snapshots += event == "snapshot"
        self.resets += event == "reset"
        self.last = fields.get("id", self.last)
