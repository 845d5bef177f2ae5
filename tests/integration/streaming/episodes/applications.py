"""Lives of Java's applications: Connect."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from tests.integration.streaming.collect.kinds.applications import ConnectWorker
from tests.integration.streaming.episodes.life import Life, Speaks
from tests.integration.streaming.episodes.stage import POLLING, Stage
from tests.support.members import Share
from tests.support.wait import eventually

#: A busy machine starts a JVM in half a minute.
_PATIENCE = 180.0
#: Longer than any step.
_DELAY_MS = 60_000


class Connect(Life):
    """A cluster of Connect workers; what they own are tasks."""

    def __init__(self, stage: Stage, name: str, speaks: Speaks, partitions: int = 6) -> None:
        super().__init__(stage, name, speaks, partitions)
        del self.views[POLLING]  # the Admin API describes no such groups
        self._stack = ExitStack()
        self._workers: dict[str, ConnectWorker] = {}
        self._tasks: dict[str, int] = {}

    def _start(self, name: str, _: Speaks) -> None:
        delay = {"scheduled.rebalance.max.delay.ms": _DELAY_MS}
        worker = ConnectWorker(name, self.stage.servers, self.group, self.stage.folder, **delay)
        self._workers[name] = self._stack.enter_context(worker)
        self.subscribed[name] = ()

    def _ask(self, path: str, method: str, body: Any = None) -> None:
        worker = next(iter(self._workers.values()))
        eventually(lambda: worker.ask(path, method, body) is not None, timeout=_PATIENCE, every=0.2)

    def configure(self, connector: str, tasks: int) -> None:
        """A connector with so many tasks."""
        config = {
            "connector.class": "FileStreamSink",
            "topics": next(iter(self.topics)),
            "file": str(self.stage.folder / connector),
            "tasks.max": str(tasks),
        }
        self._ask(f"/connectors/{connector}/config", "PUT", config)
        self._tasks[connector] = tasks

    def delete(self, connector: str) -> None:
        """It is no more."""
        del self._tasks[connector]
        self._ask(f"/connectors/{connector}", "DELETE")

    def _end(self, names: Iterable[str], how: str) -> None:
        for name in names:
            del self.subscribed[name]
            worker = self._workers.pop(name)
            worker.kill() if how == "REMAIN_IN_GROUP" else worker.close()

    def owned(self) -> dict[str, Share]:
        """What each worker runs, by the statuses that it gives."""
        if not self._workers:
            return {}
        names = {worker.worker_id: name for name, worker in self._workers.items()}
        told = next(iter(self._workers.values())).owned()
        return {names.get(one, one): share for one, share in (told or {}).items()}

    def whole(self) -> None:
        """Until every connector and task runs, and the workers answer."""

        def done() -> bool:
            if not self._workers:
                return True
            if any(worker.ask("/") is None for worker in self._workers.values()):
                return False
            runs = sorted(
                (name, n) for share in self.owned().values() for name, ns in share.items() for n in ns
            )
            return runs == sorted((name, n) for name, count in self._tasks.items() for n in range(-1, count))

        eventually(done, timeout=_PATIENCE, every=0.2)

    def close(self) -> None:
        self._stack.close()
