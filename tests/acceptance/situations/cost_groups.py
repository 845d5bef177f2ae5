"""Real consumer groups under steady, bursty and idle traffic; each record has the time at which it was sent."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.acceptance.situations.groups import AppliedChange, AppliedChanges, JavaGroup, Members, PythonGroup
from tests.acceptance.situations.sink_tasks import SinkTasks
from tests.support.background import produce_in_background
from tests.support.kafka import unique_name
from tests.support.topics import create_topic, grow_topic
from tests.support.wait import eventually

#: A group has settled after this many ms without a change; the next change begins a new episode.
QUIET_TIME_MS: Final = 3000
#: The groups: client library → protocols.
CLIENTS: Final = {
    "java": ("eager", "static", "cooperative", "consumer"),
    "confluent": ("eager", "static", "cooperative", "consumer"),
    "kafka-python": ("eager", "cooperative"),
    "connect": ("connect",),
}
#: Records of a burst, and ms between two of them: partition 3 and partition 4. Partition 5 has one record every 10 s,
#: partition 6 has none; all others have steady traffic.
_TICK_MS: Final = 100
_BURSTS_BY_PARTITION: Final = {3: (60, 3000), 4: (200, 7000), 5: (1, 10_000), 6: (0, _TICK_MS)}
_STEADY_TRAFFIC: Final = (1, _TICK_MS)
PARTITIONS: Final = 7
#: A client library and a protocol.
ClientAndProtocol = tuple[str, str]
#: Longest session of a classic member that has crashed.
_SESSION_MS: Final = 6000


def has_steady_traffic(partition: int) -> bool:
    """Return true if records are written to the partition at a steady rate."""
    return partition not in _BURSTS_BY_PARTITION


@dataclass
class WrittenTopics:
    """Topics to which records are written, with their partition counts."""

    servers: str
    topics: dict[str, int] = field(default_factory=dict)

    def create(self, name: str) -> None:
        """Create a topic to which records are then sent at a steady rate."""
        create_topic(self.servers, name, PARTITIONS, message_timestamp_type="LogAppendTime")
        self.topics[name] = PARTITIONS

    def grow(self, name: str) -> None:
        total = self.topics[name] + 1
        grow_topic(self.servers, name, total)
        self.topics[name] = total


@contextmanager
def traffic(servers: str) -> Iterator[WrittenTopics]:
    """Write to all topics until the block ends; each record's key is the time at which it was sent (ms)."""
    written = WrittenTopics(servers)

    def write(producer: Producer, stop: threading.Event) -> None:
        begin = time.monotonic()
        for tick in count():
            if stop.wait(max(0.0, begin + tick * _TICK_MS / 1000 - time.monotonic())):
                return
            for topic, partitions in [*written.topics.items()]:
                for partition in range(partitions):
                    records, every = _BURSTS_BY_PARTITION.get(partition, _STEADY_TRAFFIC)
                    if tick * _TICK_MS % every == 0:
                        _send(producer, topic, partition, records)
            producer.poll(0)

    with produce_in_background(servers, write, **{"linger.ms": 0, "topic.metadata.refresh.interval.ms": 1000}):
        yield written


def _send(producer: Producer, topic: str, partition: int, records: int) -> None:
    try:
        for _ in range(records):
            producer.produce(topic, b"v", key=b"%d" % (time.time_ns() // 1_000_000), partition=partition)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        # A grown topic: the producer learns of this partition with its next metadata refresh.


def new_group(
    client: str, protocol: str, topic: str, servers: str, folder: Path, *, commit_ms: int, prefix: str
) -> Members:
    """Return a new group, whose consumers will commit at this interval; ``prefix``: prefix of the monitor's topics."""
    if client == "connect":
        return SinkTasks(servers, topic, folder, commit_ms)
    options: dict[str, Any] = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": commit_ms}
    if client != "kafka-python":  # its leader may never notice an added partition
        options["topic.metadata.refresh.interval.ms" if client == "confluent" else "metadata.max.age.ms"] = 1000
    if protocol != "consumer":
        options["session.timeout.ms"] = _SESSION_MS
    if client == "java":
        return JavaGroup(protocol, servers, topic, folder, **options)
    if client == "kafka-python":
        options = {name.replace(".", "_"): value for name, value in options.items()}
    return PythonGroup(client, protocol, servers, topic, folder, prefix=prefix, **options)


class GroupChanger:
    """Applies changes to a group, and waits until the monitor can have read all evidence of each change's cost."""

    def __init__(
        self, kind: ClientAndProtocol, members: Members, traffic: WrittenTopics, topic: str, commit_ms: int
    ) -> None:
        self._kind, self._members, self._traffic, self._topic = kind, members, traffic, topic
        self._commit_ms = commit_ms
        self.played = AppliedChanges(members.group, members.files)

    def play(self) -> AppliedChanges:
        """Start the group, apply all changes of its kind one by one, and return the changes with their times."""
        with self._members:
            self._start("a", "b")
            self._await_stability()
            for kind, change in self._changes():
                if kind == "added partition" and self._kind[0] == "kafka-python":
                    continue
                self.played.changes.append(AppliedChange(kind, time.time_ns() // 1_000_000))
                self._apply(change)
            self.played.changes.append(AppliedChange("end", time.time_ns() // 1_000_000))
        return self.played

    def _apply(self, change: Callable[[], object]) -> None:
        """Apply a change, and wait until it is over.

        Connect's workers answer a request some time before they apply it.
        """
        before = self._members.changed
        change()
        eventually(lambda: self._members.changed != before, every=0.1)
        self._await_stability()

    def _changes(self) -> Iterable[tuple[str, Callable[[], object]]]:
        tasks = self._members
        if isinstance(tasks, SinkTasks):
            return (
                ("more tasks", lambda: tasks.set_task_count(3)),
                ("connector restart", tasks.restart),
                ("worker crash", lambda: tasks.kill("b")),
                ("added partition", lambda: self._traffic.grow(self._topic)),
                ("worker joins", lambda: tasks.start("b")),
                ("fewer tasks", lambda: tasks.set_task_count(2)),
                ("worker leaves", lambda: tasks.leave("b")),
            )
        return (
            ("join", lambda: self._start("c")),
            ("crash", lambda: self._members.kill("c")),
            ("join", lambda: self._start("c")),
            ("restart", lambda: self._restart("b")),
            ("rolling restart", lambda: self._restart("a", "b", "c")),
            ("leave", lambda: self._members.leave("c")),
            ("recreate", lambda: self._recreate_topics("a", "b", away_seconds=0)),
            ("added partition", lambda: self._traffic.grow(self._topic)),
            ("scale to zero and back", lambda: self._recreate_topics("a", "b", away_seconds=8)),
            ("join", lambda: self._start("c")),
            ("crash and restart", lambda: self._crash_and_restart("c")),
            ("crash", lambda: self._members.kill("b")),
        )

    def _start(self, *names: str) -> None:
        for name in names:
            self._members.start(name)

    def _restart(self, *names: str) -> None:
        for name in names:
            self._members.leave(name)
            self._members.start(name)
            eventually(self._is_complete, every=0.1)

    def _recreate_topics(self, *names: str, away_seconds: float) -> None:
        for name in names:
            self._members.leave(name)
        time.sleep(away_seconds)
        self._start(*names)

    def _crash_and_restart(self, name: str) -> None:
        self._members.kill(name)
        self._members.start(name)

    def _is_complete(self) -> bool:
        shares = list(self._members.owned_partitions.values())
        owned = sorted(partition for share in shares for partition in share)
        return all(shares) and owned == list(range(self._traffic.topics[self._topic]))

    def _await_stability(self) -> None:
        """Wait until all partitions have had the same owners for a while, and their next commits are sampled."""

        def is_quiet() -> bool:
            return time.monotonic() - self._members.changed > (QUIET_TIME_MS + 500) / 1000 and self._is_complete()

        eventually(is_quiet, every=0.1)
        time.sleep((self._commit_ms + 2000) / 1000)


def change_all_groups(
    servers: str, folder: Path, commit_ms: int, kinds: Iterable[ClientAndProtocol], *, prefix: str
) -> dict[ClientAndProtocol, Future[tuple[str, AppliedChanges]]]:
    """Apply all changes to a group of each kind at the same time; return each group's topic and changes."""
    kinds = [*kinds]
    with ExitStack() as stack:
        written = stack.enter_context(traffic(servers))
        pool = stack.enter_context(ThreadPoolExecutor(len(kinds)))

        def play(kind: ClientAndProtocol) -> tuple[str, AppliedChanges]:
            topic = unique_name("-".join(kind))
            written.create(topic)
            members = new_group(*kind, topic, servers, folder, commit_ms=commit_ms, prefix=prefix)
            return topic, GroupChanger(kind, members, written, topic, commit_ms).play()

        return {kind: pool.submit(play, kind) for kind in kinds}
