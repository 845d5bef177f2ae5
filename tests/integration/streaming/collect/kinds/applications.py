"""Runs real Java applications (Connect workers and Kafka Streams) as processes that can be killed."""

import json
import os
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from streaming.kafka.jars import fetch, java
from streaming.kafka.runtime import free_ports
from tests.oracle.driver import JAVA, compile_java
from tests.support.wait import TIMEOUT_SECONDS

_VERSION = "4.3.1"
_JARS = (
    *(f"org.apache.kafka:{name}:{_VERSION}" for name in ("kafka-streams", "connect-runtime", "connect-file")),
    "org.slf4j:slf4j-simple:1.7.36",
)
_SOURCES = (
    *(Path(__file__).with_name(name) for name in ("Application.java", "TimedSink.java")),
    JAVA / "common/Json.java",
)
_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class JavaProcess:
    """A context manager for a JVM that has Kafka's applications on its class path; ``options``: of the JVM."""

    def __init__(self, main: str, *arguments: str, log: Path, options: Iterable[str] = ()) -> None:
        jars = os.pathsep.join(map(str, fetch(_JARS)))
        classes = compile_java("kinds", _SOURCES, jars)
        command = [str(java()[0]), *_OPTIONS, *options, "-cp", os.pathsep.join([str(classes), jars]), main, *arguments]
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.read_line(line)

    def read_line(self, line: bytes) -> None:
        """Handle one line that the process wrote to standard output."""

    def kill(self) -> None:
        """Kill the application's process, as a crash would."""
        self.process.kill()
        self._await_end()

    def close(self, seconds: float = TIMEOUT_SECONDS) -> None:
        """Close the application and wait until its process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(seconds)
        self._await_end()

    def _await_end(self) -> None:
        self.process.wait(TIMEOUT_SECONDS)
        self._reader.join(TIMEOUT_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()


class StreamsApplication(JavaProcess):
    """A Kafka Streams application; ``report`` is the application's latest report of its tasks.

    ``leaves``: the application sends LeaveGroup when it is closed, which by default it does not do.
    """

    def __init__(self, topic: str, config: dict[str, Any], log: Path, *, leaves: bool = False) -> None:
        self.report: dict[str, Any] = {}
        super().__init__("Application", json.dumps({"topic": topic, "config": config, "leaves": leaves}), log=log)

    def read_line(self, line: bytes) -> None:
        if line.startswith(b"{"):
            self.report = json.loads(line)


class ConnectWorker(JavaProcess):
    """A distributed Connect worker; ``folder`` contains the worker's configuration and log."""

    def __init__(self, name: str, servers: str, group: str, folder: Path, **config: Any) -> None:
        self.port = free_ports(1)[0]
        #: The worker's id in Connect's statuses.
        self.worker_id = f"127.0.0.1:{self.port}"
        properties = {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": name,
            "listeners": f"http://{self.worker_id}",
            "plugin.discovery": "hybrid_warn",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.partitions": 1 for kind in ("offset", "status")},
            **config,
        }
        file = folder / f"{name}-{self.port}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(main, str(file), log=folder / f"{name}.log", options=[f"-Dtimed.sink={name}"])

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Return the response of Connect's REST interface to a request; None if there is no response."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://{self.worker_id}{path}", data, {"content-type": "application/json"}, method=method)
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - as above
                return json.load(answer) if answer.status != 204 else {}
        except (URLError, OSError, ValueError):  # not started yet, or busy with a rebalance
            return None

    def owned(self) -> dict[str, dict[str, list[int]]] | None:
        """Return each worker's tasks by status, ``{worker id: {connector: tasks}}``; None unless all tasks run."""
        statuses = self.ask("/connectors?expand=status")
        owned: dict[str, dict[str, list[int]]] = {}
        for name, connector in sorted((statuses or {}).items()):
            status = connector["status"]
            for number, state in [(-1, status["connector"]), *((task["id"], task) for task in status["tasks"])]:
                if state["state"] != "RUNNING":
                    return None
                owned.setdefault(state["worker_id"], {}).setdefault(name, []).append(number)
        return {worker: {name: sorted(tasks) for name, tasks in share.items()} for worker, share in owned.items()}

    def close(self, seconds: float = TIMEOUT_SECONDS) -> None:
        """Send SIGTERM, upon which the worker leaves its group."""
        self.process.terminate()
        self.process.wait(seconds)
        self._await_end()
