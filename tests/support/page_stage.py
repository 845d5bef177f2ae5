"""Everything behind a live page: broker, collector, Spark job, `serve`, and consumers that join and leave."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from streaming.kafka.diff_reader import DiffReader
from streaming.kafka.topic_reader import TopicReader
from streaming.kafka.topics import ensure_topics
from streaming.process.children import Child, ChildProcesses
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident, decode_episode, decode_incident
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.serving import ServeProcess
from tests.support.topics import create_topic

#: Timeout in seconds until consumers have their partitions, on a busy machine.
TIMEOUT_SECONDS = 240.0
#: Quiet time in seconds: longer than a consumer takes to restart on a busy machine.
QUIET_SECONDS = 15

#: Prefix of the ids of further groups.
OTHER_GROUPS_PREFIX = "pipeline"


class DiffArrivals(threading.Thread):
    """Reads the group's diffs from the diff topic, and stores the time at which each diff became readable."""

    def __init__(self, serve: ServeProcess, group: str) -> None:
        super().__init__(daemon=True)
        self.serve, self.group = serve, group
        self.arrived_records: list[tuple[float, Diff]] = []
        self.end_event = threading.Event()
        self.start()

    def run(self) -> None:
        with DiffReader(self.serve.settings, from_beginning=True) as reader:
            while not self.end_event.is_set():
                record = reader.poll(0.01)
                if record is not None and record.diff.group_id == self.group:
                    self.arrived_records.append((time.monotonic(), record.diff))


class StoryArrivals(threading.Thread):
    """Reads episodes and incidents from their topics, and stores each with its arrival time on this machine's clock."""

    def __init__(self, serve: ServeProcess) -> None:
        super().__init__(daemon=True)
        self.serve = serve
        self.arrived_records: list[tuple[float, Episode | Incident]] = []
        self.end_event = threading.Event()
        self.start()

    def run(self) -> None:
        settings = self.serve.settings
        topics = {settings.topics.episodes: decode_episode, settings.topics.incidents: decode_incident}
        with TopicReader(settings.kafka, list(topics), from_beginning=True, wait=True) as reader:
            while not self.end_event.is_set():
                for message in reader.poll(0.01, 100):
                    value = message.value()
                    if value is not None:
                        self.arrived_records.append((time.time(), topics[message.topic() or ""](value)))


@dataclass
class PageStage:
    """A broker, a collector, a Spark job, the feed, and the consumers of one group."""

    serve: ServeProcess
    group: str
    topic: str
    folder: Path
    arrivals: DiffArrivals
    story_arrivals: StoryArrivals
    children: ChildProcesses
    other_group_processes: ChildProcesses
    collector: Child
    stream: Child
    consumers: dict[str, Child] = field(default_factory=dict)

    def join(self, name: str) -> None:
        self.consumers[name] = self.consumer(self.group, name, "cooperative")

    def consumer(self, group: str, name: str, protocol: str) -> Child:
        servers = self.serve.settings.kafka.bootstrap_servers
        return Child(
            name,
            [
                *("streaming.demo.consumer", "--bootstrap-servers", servers, "--group", group),
                *("--topics", self.topic, "--name", name, "--protocol", protocol),
            ],
            log=self.folder / f"{name}.log",
            output=self.folder / f"{name}.jsonl",
        )

    def restart_consumer(self, name: str) -> None:
        """Restart a consumer and wait until it owns partitions again."""
        before = self.ids(name)
        self.consumers[name].terminate()
        self.consumers[name].wait()
        self.join(name)
        eventually(lambda: self.settled() and not self.ids(name) & before, timeout=TIMEOUT_SECONDS)

    def ids(self, name: str) -> set[str]:
        """Return the member ids of a consumer in the newest diff of the group."""
        members = self.arrivals.arrived_records[-1][1].members
        return {member_id for member_id, member in members.items() if member.present and member.client_id == name}

    def settle(self) -> None:
        """Wait until every consumer owns partitions; fail at once if a consumer's process has ended."""
        eventually(self.settled, timeout=TIMEOUT_SECONDS)

    def settled(self) -> bool:
        """Return true if in the newest diff each consumer owns partitions and every partition has an owner."""
        self.children.check()
        for consumer in self.consumers.values():
            consumer.check()
        if not self.arrivals.arrived_records:
            return False
        diff = self.arrivals.arrived_records[-1][1]
        owners = sum(bool(member.kept or member.assigned) for member in diff.members.values())
        return not diff.unassigned and owners == len(self.consumers)


@contextmanager
def run_page_stage(broker: Kafka, folder: Path) -> Iterator[PageStage]:
    """Run a broker, the monitor with its page, and three consumers that own partitions."""
    topic, group = create_topic(broker.bootstrap_servers, unique_name("orders"), 12), unique_name("checkout")
    with (
        ServeProcess(broker.bootstrap_servers, f"{unique_name('page')}.", folder) as serve,
        ChildProcesses() as children,
        ChildProcesses() as other_group_processes,
    ):
        ensure_topics(serve.settings)
        common = [*("--bootstrap-servers", broker.bootstrap_servers), *("--topic-prefix", serve.settings.topics.prefix)]
        log = getattr(getattr(broker, "broker", None), "log_path", None)
        options = [
            "--include-group",
            rf"({group}|{OTHER_GROUPS_PREFIX}-\d)",
            *(("--coordinator-log", str(log)) if log else ()),
        ]
        collector = children.add(
            Child("collector", ["streaming", "collect", *common, *options], log=folder / "collect.log")
        )
        job = ["streaming", "stream", *common, "--checkpoint", str(folder / "checkpoint"), "--buckets", "4"]
        job += ["--episode-quiet", str(QUIET_SECONDS)]
        stream = children.add(Child("job", job, log=folder / "stream.log"))
        stage = PageStage(
            *(serve.start(), group, topic, folder, DiffArrivals(serve, group), StoryArrivals(serve)),
            *(children, other_group_processes, collector, stream),
        )
        for name in ("c1", "c2", "c3"):
            stage.join(name)
        stage.settle()
        yield stage
        stage.arrivals.end_event.set()
        stage.story_arrivals.end_event.set()
        for consumer in stage.consumers.values():
            consumer.kill()
