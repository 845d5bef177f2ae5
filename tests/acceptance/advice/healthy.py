"""Forty healthy groups of all client libraries and protocols with default timeouts, and their ordinary changes."""

import csv
import logging
import os
import threading
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Producer, ShareConsumer

from benchmarks._document import BENCHMARKS_PAGE
from streaming.advice.model import Advice
from streaming.kafka.topics import configured_sinks, ensure_topics
from streaming.monitor.outputs import OutputRecord
from streaming.records.episodes import Episode
from streaming.settings.config import Settings
from tests.acceptance.advice.savings import PROPERTIES
from tests.acceptance.situations.applications import Connect, Streams
from tests.acceptance.situations.member_kind import MemberKind
from tests.acceptance.situations.operations import pods
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.stage import LOG, SituationStage, stage
from tests.integration.streaming.protocols.java_members import java_config
from tests.support.command import run
from tests.support.live_stream import LiveStream
from tests.support.members import Member
from tests.support.wait import eventually

#: How long the groups run after all have started; `HEALTHY_MINUTES=60` is the full size.
MINUTES: Final = float(os.environ.get("HEALTHY_MINUTES", "4"))
#: The results of one run, beside the page about the rules.
TABLE: Final = BENCHMARKS_PAGE.with_name("reference") / "advice-healthy.csv"
#: Time between two changes of a group.
_CHANGE_MINUTES: Final = 12
#: Seconds for which a member is down in a deploy.
_DOWN_S: Final = 3.0
#: Seconds without a change at the end, in which episodes close.
_QUIET_S: Final = 150.0
#: Time between two records of each partition, and the longest poll: sixty Java consumers take little time of a core.
_RECORD_MS, _POLL_MS = 4000, 500
#: Kafka's defaults, in place of the short times of other tests.
_DEFAULTS: Final = PROPERTIES | {
    "group.streams.session.timeout.ms": "45000",
    "group.streams.heartbeat.interval.ms": "5000",
}
#: The group of the sink connector's tasks, which Connect runs.
_SINK: Final = "connect-one"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UsualKind(MemberKind):
    """Members with the default settings of their client library; ``protocol`` may also be ``default``."""

    session_ms: int = 45_000
    heartbeat_ms: int = 3000

    def java_config(self, servers: str, group_id: str, name: str) -> dict[str, Any]:
        """Return the configuration of a Java consumer."""
        # Processes of their own have this client id by default; in one JVM, Java would count further.
        client_id = f"consumer-{group_id}-1" if self.protocol == "default" else name
        assignors = {"eager": ["range"], "cooperative": ["cooperative-sticky"], "sticky": ["sticky"]}
        settings = {"group_protocol": "consumer"} if self.protocol == "consumer" else {}
        names = assignors.get(self.protocol, [])
        return java_config(servers, group_id, client_id, names, instance_id=name if self.static else None, **settings)


class UsualGroup(RealGroup):
    """A group of consumers, each with the default settings of its client library."""

    def _start(self, name: str, member_kind: MemberKind) -> None:
        if member_kind.client == "java":
            super()._start(name, member_kind)
            return
        is_python = member_kind.client == "kafka-python"
        settings = [] if is_python else ["auto.commit.interval.ms=5000"]
        if not is_python and member_kind.protocol != "consumer":
            settings.append(f"heartbeat.interval.ms={member_kind.heartbeat_ms}")
        self._run(
            name,
            Member(
                self.stage.servers,
                self.group_id,
                name,
                self.subscribed.setdefault(name, tuple(self.topics)),
                client=member_kind.client,
                protocol=member_kind.protocol,
                # The consumer of kafka-python takes a fifth of it between heartbeats: the default, 3 s.
                session_timeout_ms=5 * member_kind.heartbeat_ms if is_python else member_kind.session_ms,
                instance_id=name if member_kind.static else None,
                properties=settings,
            ),
        )


class UsualStreams(Streams):
    """A Kafka Streams application with default timeouts, which leaves its group when it is closed."""

    leaves = True

    def __init__(self, stage: SituationStage, name: str, member_kind: MemberKind, partitions: int = 6) -> None:
        super().__init__(stage, name, member_kind, partitions)
        usual = {"commit.interval.ms": 30_000, "metadata.max.age.ms": 300_000}
        timeouts = {"session.timeout.ms": member_kind.session_ms, "heartbeat.interval.ms": member_kind.heartbeat_ms}
        self.settings = usual | ({} if member_kind.protocol == "streams" else timeouts)


class StayingStreams(UsualStreams):
    """A Kafka Streams application that is closed without options."""

    leaves = False


class UsualConnect(Connect):
    """Connect workers with default timeouts, whose tasks wait for little longer than a worker needs to restart."""

    delay_ms = 20_000
    settings = MappingProxyType({"session.timeout.ms": 10_000, "heartbeat.interval.ms": 3000})


class ShareGroup(RealGroup):
    """A share group of librdkafka."""

    def __init__(self, stage: SituationStage, name: str, member_kind: MemberKind, partitions: int = 6) -> None:
        super().__init__(stage, name, member_kind, partitions)
        self._members: dict[str, tuple[threading.Event, threading.Thread]] = {}

    def _start(self, name: str, member_kind: MemberKind) -> None:
        del member_kind
        self.subscribed[name] = tuple(self.topics)
        stop = threading.Event()
        thread = threading.Thread(target=self._consume, args=(name, stop), name=name, daemon=True)
        self._members[name] = stop, thread
        thread.start()

    def _consume(self, name: str, stop: threading.Event) -> None:
        settings = {"bootstrap.servers": self.stage.servers, "group.id": self.group_id, "client.id": name}
        consumer = ShareConsumer(settings)
        try:
            consumer.subscribe([*self.topics])
            while not stop.is_set():
                consumer.poll(0.5)
        finally:
            consumer.close()

    def _end(self, names: Iterable[str], how: str) -> None:
        del how
        for name in names:
            del self.subscribed[name]
            stop, thread = self._members.pop(name)
            stop.set()
            thread.join()

    def whole(self) -> None:
        """Wait until the monitor shows all members."""
        view = self.views[LOG]
        eventually(lambda: view.ids(self.group_id).keys() == self.subscribed.keys(), every=0.5)

    def close(self) -> None:
        """Stop all members."""
        self._end([*self._members], "LEAVE_GROUP")


def deploy(group: RealGroup) -> None:
    """Restart the members one after the other."""
    for name in [*group.subscribed]:
        group.stop(name)
        if not group.member_kind.static and not isinstance(group, Connect):
            group.whole()
        sleep(_DOWN_S)
        group.start(name)
        group.whole()


def replace_pods(group: RealGroup) -> None:
    """Replace the pods of a Deployment with maxSurge: each new pod starts before an old one ends."""
    number = next(number for number in range(9) if pods(number)[0] in group.subscribed)
    for old, new in zip(pods(number), pods(number + 1), strict=True):
        group.start(new)
        group.whole()
        group.leave(old)
        group.whole()


def scale(group: RealGroup) -> None:
    """Scale out by one member, or in if the group has been scaled out."""
    spare = Streams.thread("spare") if isinstance(group, Streams) else "spare"
    if spare in group.subscribed:
        group.leave(spare)
    else:
        group.start(spare)
    group.whole()


Change = Callable[[RealGroup], None]


class Healthy(NamedTuple):
    """A healthy group; its changes are applied in turn."""

    name: str
    member_kind: MemberKind
    members: Sequence[str] = ("a", "b")
    changes: Sequence[Change] = (deploy, scale)
    group_type: type[RealGroup] = UsualGroup


def _consumers() -> Iterator[Healthy]:
    three = ("a", "b", "c")
    for protocol, count in (("default", 3), ("eager", 2), ("sticky", 1), ("cooperative", 4), ("consumer", 4)):
        for number in range(count):
            yield Healthy(f"java-{protocol}-{number}", UsualKind("java", protocol), three)
    for protocol, count in (("eager", 2), ("cooperative", 2), ("consumer", 3)):
        for number in range(count):
            yield Healthy(f"java-static-{protocol}-{number}", UsualKind("java", protocol, static=True), three)
    for protocol in ("eager", "cooperative", "consumer"):
        yield Healthy(f"java-pods-{protocol}", UsualKind("java", protocol), pods(0), (replace_pods,))
    for protocol, count in (("eager", 2), ("cooperative", 2), ("consumer", 2)):
        for number in range(count):
            yield Healthy(f"librdkafka-{protocol}-{number}", UsualKind("confluent", protocol))
    for protocol in ("eager", "consumer"):
        yield Healthy(f"librdkafka-static-{protocol}", UsualKind("confluent", protocol, static=True), changes=(deploy,))
    for protocol in ("eager", "cooperative"):
        yield Healthy(f"kafka-python-{protocol}", UsualKind("kafka-python", protocol))


def _applications() -> Iterator[Healthy]:
    threads = (Streams.thread("a"), Streams.thread("b"))
    for name, protocol, kind in (
        ("streams-classic-0", "classic", UsualStreams),
        ("streams-classic-1", "classic", UsualStreams),
        ("streams-kip-1071", "streams", UsualStreams),
        ("streams-kip-1071-usual-close", "streams", StayingStreams),
    ):
        yield Healthy(name, UsualKind("streams", protocol), threads, group_type=kind)
    yield Healthy("connect", UsualKind("connect", "sessioned"), ("w1", "w2"), (deploy,), UsualConnect)
    yield Healthy("share", UsualKind("share", "share"), group_type=ShareGroup)


GROUPS: Final = (*_consumers(), *_applications())


class PublishedStream(LiveStream):
    """A stream that also writes its outputs to the monitor's topics, for the commands that read them."""

    batch_seconds = 1.0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        topics = ensure_topics(settings, settings.topics.made)
        self._producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
        partitions = {topic.name: topic.partitions or 0 for topic in topics}
        super().__init__(settings, configured_sinks(settings, topics, partitions))

    def publish(self, write: OutputRecord) -> None:
        partition = {} if write.partition is None else {"partition": write.partition}
        self._producer.produce(write.topic, write.value, write.key, headers=[*write.headers], **partition)
        self._producer.poll(0)

    def advice(self, *arguments: str) -> list[Advice]:
        """Return the output of the command ``advise``."""
        self._producer.flush()
        kafka, prefix = self.settings.kafka.bootstrap_servers, self.settings.topics.prefix
        done = run("advise", *arguments, "--json", "--bootstrap-servers", kafka, "--topic-prefix", prefix)
        assert done.returncode == 0, done.stderr
        return [msgspec.json.decode(line, type=Advice) for line in done.stdout.splitlines()]


class Played(NamedTuple):
    """The end of one group's run: its episodes, its number of changes, and the advice of both forms of the command.

    ``changes``: the first start and all changes that succeeded. ``problems``: what failed.
    """

    name: str
    episodes: list[Episode]
    changes: int
    of_group: list[Advice]
    of_all: list[Advice]
    problems: list[str]


class Crowd:
    """All groups, which run at the same time."""

    def __init__(self, made: SituationStage) -> None:
        self.groups = [(each, each.group_type(made, each.name, each.member_kind)) for each in GROUPS]
        self.changes, self.problems = Counter[str](), defaultdict[str, list[str]](list)
        self._view = made.views[LOG]

    def start(self) -> None:
        """Start all groups, some at a time."""
        with ThreadPoolExecutor(6) as pool:
            for healthy, group in self.groups:
                pool.submit(self._attempt, healthy.name, partial(_begin, healthy, group))

    def change(self) -> None:
        """Apply each group's changes, spread over :data:`MINUTES`, and wait until all episodes are over."""
        began, seconds = monotonic(), max(MINUTES * 60 - _QUIET_S, 0)
        each = max(round(MINUTES / _CHANGE_MINUTES), 1)
        pace = seconds / each / len(self.groups)
        with ThreadPoolExecutor(6) as pool:
            for number in range(each):
                for place, (healthy, group) in enumerate(self.groups, number * len(self.groups)):
                    sleep(max(began + pace * place - monotonic(), 0))
                    apply = healthy.changes[number % len(healthy.changes)]
                    pool.submit(self._attempt, healthy.name, partial(apply, group))
        sleep(_QUIET_S)

    def _attempt(self, name: str, act: Callable[[], None]) -> None:
        began = monotonic()
        try:
            act()
        except Exception:  # noqa: BLE001 - the other groups go on, and the test names the failure
            _log.exception("%s", name)
            self.problems[name].append(traceback.format_exc())
        else:
            self.changes[name] += 1
            _log.info("%s: %.0f s", name, monotonic() - began)

    def played(self) -> list[Played]:
        """Return what the monitor reports of each group, with the advice of the command."""
        view = self._view
        assert isinstance(view, PublishedStream)
        by_group = defaultdict[str, list[Advice]](list)
        for advice in view.advice("--all"):
            by_group[advice.group_id].append(advice)
        names = {group.group_id: healthy.name for healthy, group in self.groups} | {_SINK: _SINK}
        return [
            Played(
                name,
                view.episodes(group_id),
                self.changes[name],
                view.advice(group_id),
                by_group[group_id],
                self.problems[name],
            )
            for group_id, name in names.items()
        ]

    def close(self) -> None:
        """Stop all groups."""
        for _, group in self.groups:
            group.close()


def _begin(healthy: Healthy, group: RealGroup) -> None:
    group.start(*healthy.members)
    group.whole()
    if isinstance(group, Connect):
        group.set_task_count("one", 3)
        group.whole()


def play(folder: Path) -> list[Played]:
    """Run all groups at the same time for :data:`MINUTES`, each with its changes, and then ask for advice."""
    options: dict[str, Any] = {"record_ms": _RECORD_MS, "poll_ms": _POLL_MS, "collector": {}, "stream": PublishedStream}
    with stage(folder, _DEFAULTS, (LOG,), **options) as made, closing(Crowd(made)) as crowd:
        crowd.start()
        crowd.change()
        return crowd.played()


def write_table(played: Sequence[Played]) -> None:
    """Write a line for each group."""
    header = ("group", "changes", "episodes", "rebalances", "longest stops, ms", "advice")
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for each in played:
            stops = sum(episode.downtime.longest_ms[0] for episode in each.episodes if episode.downtime is not None)
            rules = "; ".join(sorted(f"{advice.rule} ({advice.severity})" for advice in each.of_group))
            rebalances = sum(episode.rebalances for episode in each.episodes)
            writer.writerow([each.name, each.changes, len(each.episodes), rebalances, stops, rules])
