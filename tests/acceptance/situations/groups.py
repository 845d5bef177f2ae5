"""Groups of real consumers under steady traffic, the changes of these groups, and the times of consumption."""

import json
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise, repeat
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, NamedTuple, Self

from confluent_kafka import Producer

from tests.integration.streaming.protocols.java_members import JavaMembers, java_config
from tests.support.background import produce_in_background
from tests.support.command import command
from tests.support.kafka import unique_name
from tests.support.topics import create_topic
from tests.support.wait import TIMEOUT_SECONDS, eventually

PARTITIONS = 6
#: Milliseconds between two records of a partition.
RECORD_MS = 50
COMMIT_MS = 500
#: A group is settled after this many ms without a change; the next change begins a new episode.
QUIET_TIME_MS = 3000
CHANGES = ("join", "kill", "recreate", "join", "leave", "restart")

#: A topic and a partition number.
Place = tuple[str, int]


class ConsumedOffset(NamedTuple):
    """A mark of a consumer that got or consumed a partition; each assignment of the partition has a new ``holder``.

    ``at``: ms. ``first``: offset of the first consumed record. ``next_offset``: offset after the last one. Both are -1
    if the partition was only assigned.
    """

    partition: Place
    at: int
    holder: tuple[str, ...]
    first: int
    next_offset: int


class UnconsumedPeriod(NamedTuple):
    """A period (ms) in which a partition had no consumer, between two members that consumed the partition."""

    partition: Place
    start: int
    end: int


class AppliedChange(NamedTuple):
    """A change that was applied to a group, and the start time of the change (ms)."""

    kind: str
    at: int


@contextmanager
def traffic(servers: str) -> Iterator[str]:
    """Write one record to each partition of a topic every :data:`RECORD_MS` ms."""
    name = create_topic(servers, unique_name("steady"), PARTITIONS)

    def write(producer: Producer, stop: threading.Event) -> None:
        next_time = time.monotonic()
        while not stop.wait(max(0.0, next_time - time.monotonic())):
            for partition in range(PARTITIONS):
                producer.produce(name, b"v", partition=partition)
            producer.poll(0)
            next_time += RECORD_MS / 1000

    with produce_in_background(servers, write, **{"linger.ms": 0}):
        yield name


class Members(ABC):
    """The members of one group by name; the end of the ``with`` block ends all members.

    Attributes:
        owned_partitions: the partitions of each running member, by its callbacks.
        changed: time of the last change of ``owned_partitions``, on :func:`time.monotonic`.
    """

    def __init__(self, group: str, folder: Path) -> None:
        self.group, self._folder = group, folder
        self.owned_partitions: dict[str, list[int]] = {}
        self.changed = time.monotonic()
        self.files: list[Path] = []

    @abstractmethod
    def start(self, name: str) -> None: ...

    @abstractmethod
    def leave(self, name: str) -> None: ...

    @abstractmethod
    def kill(self, name: str) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def _file(self, name: str) -> Path:
        """Return a new file, to which a consumer that is about to start appends its records and assignments."""
        self.files.append(self._folder / f"{self.group}-{name}-{len(self.files)}")
        return self.files[-1]

    def _set_partitions(self, name: str, partitions: list[int]) -> None:
        self.owned_partitions[name] = partitions
        self.changed = time.monotonic()

    def _remove_member(self, name: str) -> None:
        del self.owned_partitions[name]
        self.changed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JavaGroup(Members):
    """Java consumers, each in its own JVM; ``static`` members are eager and have instance ids.

    ``options``: more settings of the consumers, for this class and :class:`PythonGroup`.
    """

    def __init__(self, protocol: str, servers: str, topic: str, folder: Path, **options: Any) -> None:
        super().__init__(unique_name(f"java-{protocol}"), folder)
        self._topic, self._servers, self._is_static = topic, servers, protocol == "static"
        self._settings = {"auto.offset.reset": "latest", "auto.commit.interval.ms": COMMIT_MS, **options}
        self._assignors = ["cooperative-sticky" if protocol == "cooperative" else "range"]
        if protocol == "consumer":
            self._settings["group.protocol"], self._assignors = "consumer", []
        else:
            self._settings |= {"session.timeout.ms": 4000, "heartbeat.interval.ms": 500}
        self._jvms: dict[str, JavaMembers] = {}

    def start(self, name: str) -> None:
        jvm = JavaMembers(lambda owned: self._set_partitions(name, owned.get(self._topic, [])))
        self._jvms[name] = jvm
        self._set_partitions(name, [])
        instance_id = name if self._is_static else None
        config = java_config(
            self._servers, self.group, name, self._assignors, instance_id=instance_id, **self._settings
        )
        jvm.start(name, config, [self._topic], marks=self._file(name))

    def leave(self, name: str) -> None:
        jvm = self._jvms.pop(name)
        jvm.close(name, "DEFAULT")
        assert not jvm.failures, jvm.failures
        jvm.end()
        self._remove_member(name)

    def kill(self, name: str) -> None:
        jvm = self._jvms.pop(name)
        jvm.kill()
        jvm.end()
        self._remove_member(name)

    def close(self) -> None:
        for jvm in self._jvms.values():
            jvm.end()


class PythonGroup(Members):
    """confluent-kafka or kafka-python consumers with the listener, each consumer in its own process."""

    def __init__(
        self, client: str, protocol: str, servers: str, topic: str, folder: Path, *, prefix: str, **options: Any
    ) -> None:
        super().__init__(unique_name(f"{client}-{protocol}"), folder)
        self._processes: dict[str, tuple[Popen[bytes], threading.Thread]] = {}
        config = (_confluent_config if client == "confluent" else _kafka_python_config)(protocol, servers, self.group)
        self._is_static = protocol == "static"
        self._options: dict[str, Any] = {
            "client": client,
            "config": config | options,
            "topic": topic,
            "listener": [servers, prefix],
            "cooperative": protocol == "cooperative",
            "incremental": protocol not in ("eager", "static"),
        }

    def start(self, name: str) -> None:
        options = self._options | {"marks": str(self._file(name))}
        if self._is_static:
            options["config"] = {**self._options["config"], "group.instance.id": name}
        module = "tests.acceptance.situations.timed_consumer"
        process = Popen(command(json.dumps(options), module=module), stdout=PIPE, stderr=DEVNULL)
        self._set_partitions(name, [])

        def read() -> None:
            assert process.stdout is not None
            with process.stdout as lines:
                for line in lines:
                    self._set_partitions(name, json.loads(line))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self._processes[name] = process, reader

    def leave(self, name: str) -> None:
        self._end(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        self._end(name, signal.SIGKILL)

    def close(self) -> None:
        for name in [*self._processes]:
            self._end(name, signal.SIGKILL)

    def _end(self, name: str, number: signal.Signals) -> None:
        process, reader = self._processes.pop(name)
        process.send_signal(number)
        process.wait(TIMEOUT_SECONDS)
        reader.join(TIMEOUT_SECONDS)
        self._remove_member(name)


def _confluent_config(protocol: str, servers: str, group: str) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "latest",
        "auto.commit.interval.ms": COMMIT_MS,
        "log_level": 0,
    }
    if protocol == "consumer":
        return config | {"group.protocol": "consumer"}
    assignor = "cooperative-sticky" if protocol == "cooperative" else "range"
    times = {"session.timeout.ms": 4000, "heartbeat.interval.ms": 500}
    return config | {"partition.assignment.strategy": assignor, **times}


def _kafka_python_config(_: str, servers: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers,
        "group_id": group,
        "auto_offset_reset": "latest",
        "auto_commit_interval_ms": COMMIT_MS,
        "session_timeout_ms": 4000,
        "heartbeat_interval_ms": 500,
        "allow_auto_create_topics": False,
    }


@dataclass
class AppliedChanges:
    """The changes of a group, and the files in which the group's consumers record their consumption."""

    group: str
    files: list[Path]
    changes: list[AppliedChange] = field(default_factory=list)

    def consumption_marks(self) -> list[ConsumedOffset]:
        """Return the marks that consumers wrote for consumed records, ordered by partition and time."""
        marks = [
            ConsumedOffset((topic, int(partition)), int(at), (str(number), times), int(first), int(next_offset))
            for number, file in enumerate(self.files)
            if file.exists()
            for at, topic, partition, times, first, next_offset in map(str.split, file.read_text().splitlines())
        ]
        return sorted(marks, key=lambda mark: (mark.partition, mark.at))

    def marks(self) -> list[ConsumedOffset]:
        """Return the marks of consumed records, without the marks of assignments."""
        return [mark for mark in self.consumption_marks() if mark.first >= 0]

    def gaps(self) -> list[UnconsumedPeriod]:
        """Return the periods of each partition without a consumer, between two members that consumed the partition."""
        return [
            UnconsumedPeriod(before.partition, before.at, after.at)
            for before, after in pairwise(self.marks())
            if before.partition == after.partition and before.holder != after.holder and after.at >= self.changes[0].at
        ]


def play(members: Members, rounds: int) -> AppliedChanges:
    """Start a group of two members and apply each change of ``CHANGES`` after the group has settled."""
    played = AppliedChanges(members.group, members.files)
    members.start("a")
    members.start("b")
    _await_stability(members)
    for kind in islice(cycle(CHANGES), rounds):
        played.changes.append(AppliedChange(kind, time.time_ns() // 1_000_000))
        match kind:
            case "join":
                members.start("c")
            case "kill":
                members.kill("c")
            case "leave":
                members.leave("c")
            case "recreate":  # as a Kubernetes Deployment with the Recreate strategy: for a while there are no members
                for name in ("a", "b"):
                    members.leave(name)
                for name in ("a", "b"):
                    members.start(name)
            case _:
                members.leave("b")
                members.start("b")
        _await_stability(members)
    return played


def _await_stability(members: Members) -> None:
    def quiet() -> bool:
        shares = list(members.owned_partitions.values())
        owned = sorted(partition for share in shares for partition in share)
        is_unchanged = time.monotonic() - members.changed > (QUIET_TIME_MS + 500) / 1000
        return is_unchanged and all(shares) and owned == list(range(PARTITIONS))

    eventually(quiet, every=0.1)


def apply_changes_to_groups(groups: list[Members], rounds: int) -> list[AppliedChanges]:
    """Start all groups, apply changes to them at the same time, and return the changes of each group."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(groups)))
        for members in groups:
            stack.enter_context(members)
        return list(pool.map(play, groups, repeat(rounds)))
