"""Runs the demo: consumers join, leave and crash on a real broker, and every diff goes to the display."""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

import msgspec
from confluent_kafka.admin import NewTopic

from assignors.errors import BadInput
from streaming.demo.agreement import ReportComparison, ReportLine, compare, partitions_after
from streaming.demo.schedule import SESSION_TIMEOUT_MS, TOPICS, Actor, make_actors, scheduled_steps
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.clients import confluent_config
from streaming.kafka.diff_reader import DiffReader, DiffRecord, MalformedDiff
from streaming.kafka.runtime import free_ports, is_open
from streaming.kafka.topics import ensure_topics, request_topics
from streaming.process import warn
from streaming.process.children import Child, ChildProcesses
from streaming.records.diffs import Diff
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from streaming.spark.session import installed_pyspark

PAGE_PORT = 8686
#: Longest wait for the last diffs in seconds, for a busy machine.
MAX_SETTLE_SECONDS = 120.0

BROKER_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    # The only broker must not be fenced when a busy machine stalls for some seconds.
    "broker.session.timeout.ms": "60000",
}


class DemoDisplay(Protocol):
    """Interface of a display for the demo: set-up messages (``stage``), consumers' actions (``step``), and diffs."""

    def stage(self, text: str) -> None: ...  # noqa: D102 - see the class
    def step(self, text: str) -> None: ...  # noqa: D102
    def diff(self, record: DiffRecord) -> None: ...  # noqa: D102


class DemoSummary(NamedTuple):
    """Summary of a demo: its diffs, and their comparison with the consumers' reports."""

    diffs: Sequence[Diff] = ()
    agreement: ReportComparison = ReportComparison(0, ())


#: Records per second and topic.
RECORDS_PER_SECOND = 20


@contextmanager
def produce_records(settings: Settings, topics: Iterable[str]) -> Iterator[None]:
    """Produce keyed records from a thread until the ``with`` block ends."""
    from confluent_kafka import Producer

    stop = threading.Event()
    producer = Producer(confluent_config(settings.kafka) | {"partitioner": "murmur2_random", "linger.ms": 20})

    def produce() -> None:
        for number in count():
            for topic in topics:
                producer.produce(topic, key=f"key-{number % 997}", value=f"{number}")
            producer.poll(0)
            if stop.wait(1 / RECORDS_PER_SECOND):
                break
        producer.flush(5)

    thread = threading.Thread(target=produce, name="traffic", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def _start_pipeline(settings: Settings, folder: Path, collect: list[str], page_port: int) -> list[Child]:
    common = ["--bootstrap-servers", settings.kafka.bootstrap_servers, "--topic-prefix", settings.topics.prefix]
    stream = ["--checkpoint", str(folder / "checkpoint"), "--buckets", "4"]
    serve = ["--port", str(page_port), "--database", str(folder / "history.sqlite")]
    # Without the JVM's second compiler, which only pays off after minutes, the first diff is ready sooner.
    java = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
    return [
        Child("collector", ["streaming", "collect", *common, *collect], log=folder / "collect.log"),
        Child("Spark job", ["streaming", "stream", *common, *stream], log=folder / "stream.log", variables=java),
        Child("page", ["streaming", "serve", *common, *serve], log=folder / "serve.log"),
    ]


class DemoRun:
    """One run of the demo's schedule, with its consumers and diffs."""

    def __init__(
        self, settings: Settings, folder: Path, view: DemoDisplay, stop: threading.Event, actors: Mapping[str, Actor]
    ) -> None:
        self._settings, self._folder, self._actors = settings, folder, actors
        self._is_eager_by_group = {actor.group: actor.protocol == "eager" for actor in actors.values()}
        self._view, self._stop, self._step_numbers = view, stop, count(1)
        self._diffs: list[Diff] = []
        self._children: dict[str, Child] = {}
        self._leaving_consumers: list[Child] = []

    def run_schedule(
        self, duration: float, reader: DiffReader, children: ChildProcesses, *, keep_running: bool = False
    ) -> DemoSummary:
        """Run the schedule for ``duration`` seconds, then stop all consumers and wait for the last diffs.

        ``keep_running``: after the schedule, let the consumers run until the demo is stopped.
        """
        pending = list(scheduled_steps(duration))
        start = time.monotonic()
        try:
            while not self._stop.is_set() and ((now := time.monotonic() - start) < duration or keep_running):
                while pending and pending[0].at <= now:
                    step = pending.pop(0)
                    self._run_step(step.action, step.name)
                    self._view.step(f"{step.name}: {step.action}")
                children.check()
                self._read_diff(reader)
            self._view.step("all consumers leave")
        finally:
            for name in list(self._children):
                self._run_step("leave", name)
            for child in self._leaving_consumers:
                child.wait()
        self._wait_for_last_diffs(reader, children)
        return DemoSummary(self._diffs, compare(self._diffs, self._read_reports(), self._is_eager_by_group))

    def _run_step(self, action: str, name: str) -> None:
        """Start, stop or kill the consumer ``name``; do nothing if it already runs or has already ended."""
        child = self._children.get(name)
        if action == "start" and (child is None or not child.is_running):
            self._children[name] = self._start_consumer(self._actors[name])
        elif action == "leave" and child is not None:
            child.terminate()
            self._leaving_consumers.append(self._children.pop(name))
        elif action == "crash" and child is not None:
            self._children.pop(name).kill()

    def _start_consumer(self, actor: Actor) -> Child:
        words = [
            *("streaming.demo.consumer", "--bootstrap-servers", self._settings.kafka.bootstrap_servers),
            *("--group", actor.group, "--topics", actor.topic, "--name", actor.name, "--client", actor.client),
            *("--protocol", actor.protocol, "--session-timeout-ms", str(SESSION_TIMEOUT_MS)),
        ]
        file = self._folder / f"{actor.name}-{next(self._step_numbers)}"
        return Child(actor.name, words, log=file.with_suffix(".log"), output=file.with_suffix(".jsonl"))

    def _read_reports(self) -> list[ReportLine]:
        """Return the reports of all consumers about their rebalance callbacks; those of each consumer are in order."""
        decode = msgspec.json.Decoder(ReportLine).decode_lines
        # A killed consumer may leave an incomplete line.
        files = (path.read_bytes().rpartition(b"\n")[0] for path in sorted(self._folder.glob("*.jsonl")))
        return [line for content in files for line in decode(content)]

    def _read_diff(self, reader: DiffReader) -> None:
        try:
            record = reader.poll(0.1)
        except MalformedDiff as problem:
            warn(f"skipped: {problem}")
            return
        if record is not None and record.diff.group_id in self._is_eager_by_group:
            self._diffs.append(record.diff)
            self._view.diff(record)

    def _wait_for_last_diffs(self, reader: DiffReader, children: ChildProcesses) -> None:
        """Wait until each group's newest diff shows no member with partitions."""
        deadline = time.monotonic() + MAX_SETTLE_SECONDS
        while not self._stop.is_set() and time.monotonic() < deadline:
            latest = {diff.group_id: diff for diff in self._diffs}
            members = [member for diff in latest.values() for member in diff.members.values()]
            if latest.keys() == self._is_eager_by_group.keys() and not any(map(partitions_after, members)):
                return
            children.check()
            self._read_diff(reader)


def run_demo(
    *,
    duration: float,
    folder: Path,
    view: DemoDisplay,
    stop: threading.Event,
    settings: Settings,
    embedded: bool = True,
    keep_running: bool = False,
) -> DemoSummary:
    """Run the whole demo in ``folder``; ``stop`` ends the demo early, including all processes that it started.

    ``embedded``: run on the demo's own broker, with the topics in ``settings``. Otherwise the demo runs on the cluster
    in ``settings``, in its own topics and groups, whose names begin with the topic prefix. ``keep_running``: run until
    ``stop`` is set.
    """
    installed_pyspark()
    with ExitStack() as stack:
        if embedded:
            view.stage("start a Kafka broker")
            broker = stack.enter_context(EmbeddedBroker(properties=BROKER_PROPERTIES))
            settings.kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            prefix, collect = "", ["--coordinator-log", str(broker.log_path)]
        elif settings.kafka.security_protocol == "PLAINTEXT":
            prefix = settings.topics.prefix = settings.topics.prefix or f"demo-{uuid4().hex[:8]}."
            collect = ["--include-group", f"{re.escape(prefix)}.*"]
        else:
            raise BadInput(
                "kafka.security_protocol: the demo's consumers use PLAINTEXT; leave it and --bootstrap-servers out."
            )
        ensure_topics(settings)
        actors, topics = make_actors(prefix), {f"{prefix}{name}": count for name, count in TOPICS.items()}
        replicas = settings.topics.replication_factor
        request_topics(settings, [NewTopic(name, n, replication_factor=replicas) for name, n in topics.items()], 10)
        view.stage("start the collector, the Spark job and the page: the first diff comes in about fifteen seconds")
        children = stack.enter_context(ChildProcesses())
        port = free_ports(1)[0] if is_open(PAGE_PORT) else PAGE_PORT
        for child in _start_pipeline(settings, folder, collect, port):
            children.add(child)
        view.stage(f"the page: http://127.0.0.1:{port}/")
        if keep_running:
            cluster = f"--bootstrap-servers {settings.kafka.bootstrap_servers}"
            more = f" --topic-prefix {prefix}" if prefix else ""
            view.stage(f"until Ctrl-C: rebalance-monitor groups {cluster}{more}")
        stack.enter_context(produce_records(settings, topics))
        reader = stack.enter_context(DiffReader(settings, from_beginning=embedded))
        run = DemoRun(settings, folder, view, stop, actors)
        summary = run.run_schedule(duration, reader, children, keep_running=keep_running)
        view.stage("end")
        return summary
