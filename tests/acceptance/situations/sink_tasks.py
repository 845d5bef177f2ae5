"""The consumer group of a Connect sink connector, whose tasks record what they process and when."""

import json
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.acceptance.situations.groups import Members
from tests.integration.streaming.collect.kinds.applications import ConnectWorker
from tests.support.background import run_in_background
from tests.support.kafka import unique_name
from tests.support.wait import eventually

#: Seconds that a busy machine takes to start a worker.
_TIMEOUT_SECONDS: Final = 240.0


class SinkTasks(Members):
    """The tasks of a sink connector; the context manager runs their workers, which are started by name."""

    def __init__(self, servers: str, topic: str, folder: Path, commit_ms: int) -> None:
        self._connector_name = unique_name("sink")
        super().__init__(f"connect-{self._connector_name}", folder / self._connector_name)
        self._folder.mkdir()
        self._servers, self._workers_group, self._topic = servers, unique_name("workers"), topic
        self._commit_ms = commit_ms
        self._workers: dict[str, ConnectWorker] = {}
        self._instances: dict[str, str] = {}
        self._tasks = 0
        self._stack = ExitStack()
        self._stack.enter_context(run_in_background(self._follow))

    def start(self, name: str) -> None:
        config = {
            "offset.flush.interval.ms": self._commit_ms,
            "scheduled.rebalance.max.delay.ms": 2000,
            "consumer.session.timeout.ms": 6000,
            "consumer.metadata.max.age.ms": 1000,
        }
        instance = unique_name(name)  # files of a killed worker remain
        self._instances[name] = instance
        worker = ConnectWorker(instance, self._servers, self._workers_group, self._folder, **config)
        self._workers[name] = self._stack.enter_context(worker)
        if not self._tasks:
            self.set_task_count(2)

    def set_task_count(self, tasks: int) -> None:
        """Set the number of the connector's tasks, and create the connector if it does not exist."""
        config = {
            "connector.class": "TimedSink",
            "topics": self._topic,
            "tasks.max": str(tasks),
            "marks": str(self._folder),
        }
        self._tasks = tasks
        self._send_request(f"/connectors/{self._connector_name}/config", "PUT", config)

    def restart(self) -> None:
        self._send_request(f"/connectors/{self._connector_name}/restart?includeTasks=true", "POST")

    def _send_request(self, path: str, method: str, body: Any = None) -> None:
        worker = next(iter(self._workers.values()))
        eventually(lambda: worker.ask(path, method, body) is not None, timeout=_TIMEOUT_SECONDS, every=0.5)

    def leave(self, name: str) -> None:
        self._workers.pop(name).close()

    def kill(self, name: str) -> None:
        self._workers.pop(name).kill()

    def close(self) -> None:
        self._stack.close()

    def _follow(self, stop: threading.Event) -> None:
        """Read the tasks' partitions and list their files several times per second.

        A restarted task may own the same partitions as before, so its file's time counts too.
        """
        written_before: list[tuple[Path, int]] = []
        while not stop.wait(0.2):
            self.files[:] = sorted(self._folder.glob("*.marks"))
            written = [(file, file.stat().st_mtime_ns) for file in sorted(self._folder.glob("*.held"))]
            shares_by_worker = {name: self._partitions_of(name) for name in [*self._workers]}
            if (shares_by_worker, written) != (self.owned_partitions, written_before):
                self.owned_partitions, self.changed = shares_by_worker, time.monotonic()
            written_before = written

    def _partitions_of(self, name: str) -> list[int]:
        """Return the partitions of a worker's tasks."""
        shares = (file.read_text() for file in self._folder.glob(f"{self._instances[name]}-*.held"))
        return sorted(number for share in shares if share for number in json.loads(share))
