"""Groups whose members are Java applications: Connect workers and Kafka Streams threads."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from tests.acceptance.situations.member_kind import MemberKind
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.stage import LOG, POLLING, SituationStage
from tests.integration.streaming.collect.kinds.applications import ConnectWorker, JavaProcess, StreamsApplication
from tests.support.members import Share
from tests.support.wait import eventually

#: Seconds that a busy machine takes to start a JVM.
_TIMEOUT_SECONDS = 180.0
#: scheduled.rebalance.max.delay.ms, longer than any step.
_DELAY_MS = 60_000


#: Kafka Streams appends this to the client id of the consumer in its only thread.
_THREAD_SUFFIX = "-StreamThread-1-consumer"
_STRING_SERDE_CLASS = "org.apache.kafka.common.serialization.Serdes$StringSerde"

_ProcessType = TypeVar("_ProcessType", bound=JavaProcess)


class _Processes(RealGroup, Generic[_ProcessType]):
    """A group whose members run in processes of their own."""

    def __init__(self, stage: SituationStage, name: str, member_kind: MemberKind, partitions: int = 6) -> None:
        super().__init__(stage, name, member_kind, partitions)
        self._stack = ExitStack()
        self._members: dict[str, _ProcessType] = {}

    def _runs(self, name: str, process: _ProcessType) -> None:
        self._members[name] = self._stack.enter_context(process)

    def _end(self, names: Iterable[str], how: str) -> None:
        for name in names:
            del self.subscribed[name]
            process = self._members.pop(name)
            process.kill() if how == "REMAIN_IN_GROUP" else process.close()

    def close(self) -> None:
        self._stack.close()


class Streams(_Processes[StreamsApplication]):
    """A Kafka Streams application, with the classic protocol or KIP-1071; members are its threads.

    ``settings``: more settings of the application. ``leaves``: applications send LeaveGroup when they are closed.
    """

    settings: Mapping[str, Any] = MappingProxyType({})
    leaves = False

    def __init__(self, stage: SituationStage, name: str, member_kind: MemberKind, partitions: int = 6) -> None:
        super().__init__(stage, name, member_kind, partitions)
        if member_kind.protocol == "streams":
            self.views.pop(POLLING, None)  # polling does not read Streams groups of KIP-1071

    @staticmethod
    def thread(name: str) -> str:
        """Return the client id of the stream thread of a Streams instance."""
        return name + _THREAD_SUFFIX

    def _start(self, name: str, member_kind: MemberKind) -> None:
        self.subscribed[name] = tuple(self.topics)
        own = name.removesuffix(_THREAD_SUFFIX)
        config: dict[str, Any] = {
            "application.id": self.group_id,
            "bootstrap.servers": self.stage.servers,
            "client.id": own,
            "state.dir": str(self.stage.folder / f"{self.group_id}-{own}"),
            "group.protocol": member_kind.protocol,
            "num.stream.threads": 1,
            "commit.interval.ms": 500,
            "metadata.max.age.ms": 500,
            "default.key.serde": _STRING_SERDE_CLASS,
            "default.value.serde": _STRING_SERDE_CLASS,
        }
        if member_kind.protocol == "classic":
            config |= {"session.timeout.ms": member_kind.session_ms, "heartbeat.interval.ms": 200}
        log = self.stage.folder / f"{self.group_id}-{own}.log"
        application = StreamsApplication(next(iter(self.topics)), {**config, **self.settings}, log, leaves=self.leaves)
        self._runs(name, application)

    def owned(self) -> dict[str, Share]:
        """Return the partitions, or with KIP-1071 the tasks, that each thread reports."""
        report_field = "partitions" if self.member_kind.protocol == "classic" else "active"
        reports = {name: share for member in self._members.values() for name, share in {**member.report}.items()}
        return {name: report[report_field] for name, report in reports.items() if report[report_field]}

    def whole(self) -> None:
        """Wait until the applications run and together process all partitions, each application at least one."""
        count = next(iter(self.topics.values()))

        def done() -> bool:
            reports = {name: report for app in self._members.values() for name, report in {**app.report}.items()}
            shares = [[*numbers] for report in reports.values() for numbers in report["active"].values()]
            return not self._members or (
                reports.keys() == self._members.keys() == self.owned().keys()
                and all(report["state"] == "RUNNING" for report in reports.values())
                and sorted(number for share in shares for number in share) == [*range(count)]
            )

        eventually(done, timeout=_TIMEOUT_SECONDS, every=0.2)


class Connect(_Processes[ConnectWorker]):
    """A cluster of Connect workers; each worker's assignment consists of connectors and tasks.

    ``delay_ms``: scheduled.rebalance.max.delay.ms of workers that start from now on. ``settings``: more settings.
    """

    delay_ms = _DELAY_MS
    settings: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, stage: SituationStage, name: str, member_kind: MemberKind, partitions: int = 6) -> None:
        super().__init__(stage, name, member_kind, partitions)
        self.views.pop(POLLING, None)  # the Admin API does not describe such groups
        self._tasks: dict[str, int] = {}

    def _start(self, name: str, _: MemberKind) -> None:
        settings = {"scheduled.rebalance.max.delay.ms": self.delay_ms, **self.settings}
        self._runs(name, ConnectWorker(name, self.stage.servers, self.group_id, self.stage.folder, **settings))
        self.subscribed[name] = ()

    def _send_request(self, path: str, method: str, body: Any = None) -> None:
        worker = next(iter(self._members.values()))
        eventually(lambda: worker.ask(path, method, body) is not None, timeout=_TIMEOUT_SECONDS, every=0.2)

    def set_task_count(self, connector: str, tasks: int) -> None:
        """Configure a connector with this many tasks."""
        config = {
            "connector.class": "FileStreamSink",
            "topics": next(iter(self.topics)),
            "file": str(self.stage.folder / connector),
            "tasks.max": str(tasks),
        }
        self._send_request(f"/connectors/{connector}/config", "PUT", config)
        self._tasks[connector] = tasks

    def delete(self, connector: str) -> None:
        del self._tasks[connector]
        self._send_request(f"/connectors/{connector}", "DELETE")

    def owned(self) -> dict[str, Share]:
        """Return the tasks that each worker runs, according to Connect's REST statuses."""
        if not self._members:
            return {}
        names = {worker.worker_id: name for name, worker in self._members.items()}
        running = next(iter(self._members.values())).owned()
        return {names.get(worker_id, worker_id): share for worker_id, share in (running or {}).items()}

    def whole(self) -> None:
        """Wait until every connector and task runs, and the workers respond and are members of the group."""

        def done() -> bool:
            if not self._members:
                return True
            if any(worker.ask("/") is None for worker in self._members.values()):
                return False
            if not self._members.keys() <= self.views[LOG].ids(self.group_id).keys():
                return False
            runs = sorted((name, n) for share in self.owned().values() for name, tasks in share.items() for n in tasks)
            return runs == sorted((name, n) for name, count in self._tasks.items() for n in range(-1, count))

        eventually(done, timeout=_TIMEOUT_SECONDS, every=0.2)
