"""Setup of the benchmark of large groups: a broker, a writable offsets topic, and a running monitor."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from benchmarks._large_watch import ComponentCost, sample_components
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings, load
from tests.support.coordinated import CoordinatorBatch
from tests.support.load import FeedClient
from tests.support.monitor import Monitor, running_monitor
from tests.support.topics import configure_topic, create_topic
from tests.support.wait import eventually

#: The only client id that a broker lets write to internal topics.
_ADMIN_CLIENT_ID = "__admin_client"
#: Timeout in seconds for expected events.
EVENT_TIMEOUT_SECONDS = 300.0


class OffsetsTopicWriter:
    """Writes records to ``__consumer_offsets`` as a group coordinator does, with one timestamp per write."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": _ADMIN_CLIENT_ID,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )
        first = Consumer({"bootstrap.servers": servers, "group.id": "first", "session.timeout.ms": 6000})
        first.subscribe(["nothing-there"])
        while OFFSETS_TOPIC not in first.list_topics(timeout=10).topics:
            first.poll(0.2)
        self.partitions = len(first.list_topics(OFFSETS_TOPIC, timeout=10).topics[OFFSETS_TOPIC].partitions)
        first.close()
        self.writes = 0

    def write(self, write: CoordinatorBatch, partition: int, timestamp: int) -> None:
        """Produce records that a coordinator writes in one batch: to one partition and with one timestamp."""
        self.writes += 1
        for key, value in write:
            while True:
                try:
                    self._producer.produce(OFFSETS_TOPIC, value, key, partition, timestamp=timestamp)
                    break
                except BufferError:
                    self._producer.poll(0.1)

    def flush(self) -> None:
        """Wait until the broker has acknowledged all records."""
        if self._producer.flush(120):
            raise SystemExit("the broker did not accept all records")


class RoundArrivals(threading.Thread):
    """A feed client that records when each round arrived and how long after its record in the offsets topic."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.delays: list[float] = []
        self._client = FeedClient(port, self._record_arrival)
        self._is_stopping = False
        self.start()

    def _record_arrival(self, _: bytes, timestamp: int, now: float) -> None:
        self.delays.append(now - timestamp)

    def run(self) -> None:
        """Follow the feed until :meth:`end` is called."""
        asyncio.run(self._client.follow(lambda: self._is_stopping))

    def await_rounds(self, count: int) -> None:
        """Wait until this many rounds have arrived."""
        eventually(lambda: len(self.delays) >= count, timeout=EVENT_TIMEOUT_SECONDS)

    def end(self) -> None:
        """Let the waiting client read once more and then disconnect."""
        self._is_stopping = True


@contextmanager
def measured_monitor(
    max_record_bytes: int, buckets: int
) -> Iterator[tuple[Monitor, list[ComponentCost], OffsetsTopicWriter]]:
    """Run a broker with a monitor; yield the monitor, its components' costs, and a writer of the offsets topic."""
    with (
        EmbeddedBroker(heap="1g", properties={"offsets.topic.num.partitions": "8"}) as broker,
        TemporaryDirectory(prefix="bench-large-") as folder,
    ):
        log = OffsetsTopicWriter(broker.bootstrap_servers)
        _create_monitor_topics(
            load(bootstrap_servers=broker.bootstrap_servers, topic_prefix="large."), max_record_bytes
        )
        with running_monitor(broker, Path(folder), "large.", buckets=buckets) as monitor:
            monitor.serve.start().await_status("/ready", 200, seconds=EVENT_TIMEOUT_SECONDS)
            running = {"collect": monitor.collect, "stream": monitor.stream, "serve": monitor.serve}
            parts = [ComponentCost(name, part.pid) for name, part in running.items()]
            with sample_components(parts):
                try:
                    yield monitor, parts, log
                finally:
                    for name, part in running.items():
                        problems = [line for line in part.output().splitlines() if "WARN" in line or "ERROR" in line]
                        print(f"  {name} said: {len(problems)} warnings; the last: {problems[-3:]}", flush=True)


def _create_monitor_topics(settings: Settings, max_record_bytes: int) -> None:
    """Create the monitor's topics; their record size limits are raised if this many MiB exceed the default."""
    ensure_topics(settings)
    names = settings.topics.membership, settings.topics.diffs, settings.topics.assignments
    for name in names if max_record_bytes > 10 else ():
        configure_topic(settings.kafka.bootstrap_servers, name, max_message_bytes=max_record_bytes << 20)


def create_consumed_topic(servers: str) -> str:
    """Create the topic that all groups consume, and return the topic's id."""
    admin = AdminClient({"bootstrap.servers": servers})
    create_topic(servers, "orders", 40)

    def created_topics() -> str | None:
        try:
            answer = admin.describe_topics(TopicCollection(["orders"]))["orders"].result(10)
        except Exception:  # noqa: BLE001 - not there yet
            return None
        return str(answer.topic_id).rstrip("=").replace("+", "-").replace("/", "_")

    return str(eventually(created_topics))
