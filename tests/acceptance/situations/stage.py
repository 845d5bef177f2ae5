"""The environment of the groups: one broker, three collectors, listeners, and topics with traffic.

Each monitor provides a *view* of the same groups that is based on different evidence: the offsets topic with the
coordinator's log, the offsets topic alone, polling, and the reports of listeners in consumers.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings, load
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.protocols.java_members import JavaMembers
from tests.support.background import produce_in_background
from tests.support.kafka import LONG_BROKER_SESSION, PROPERTIES, unique_name
from tests.support.live_stream import LiveStream
from tests.support.topics import create_topic, delete_topic, grow_topic
from tests.support.wait import TIMEOUT_SECONDS

#: All kinds of evidence, in the order of the table.
LOG: Final = "offsets and coordinator's log"
OFFSETS: Final = "offsets"
POLLING: Final = "polling"
LISTENER: Final = "listener"
DATA_SOURCES: Final = (LOG, OFFSETS, POLLING, LISTENER)

#: Milliseconds between two records of each partition, so that members commit and consumption is visible.
RECORD_MS: Final = 200
#: Poll interval of a process, as short as the tests allow.
_POLL_SETTINGS: Final = {
    "REBALANCE_MONITOR_COLLECT__POLL_INTERVAL_MS": "400",
    "REBALANCE_MONITOR_COLLECT__POLL_QUICK_MS": "100",
    "REBALANCE_MONITOR_COLLECT__POLL_REQUESTS_PER_SECOND": "400",
    "REBALANCE_MONITOR_COLLECT__METADATA_INTERVAL_MS": "300",
}
#: Members that start at the same time join the first generation together.
_BROKER_PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
}


@dataclass
class SituationStage:
    """A broker, the monitors that read it, and a JVM with Java consumers."""

    broker: EmbeddedBroker
    folder: Path
    java: JavaMembers
    views: dict[str, LiveStream]
    reports_prefix: str
    written: list[tuple[str, int]] = field(default_factory=list)

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    def topic(self, partitions: int, prefix: str = "topic") -> str:
        """Create a topic to which records are written from now on, and return its name."""
        name = unique_name(prefix)
        self.create(name, partitions)
        return name

    def create(self, name: str, partitions: int) -> None:
        """Create a topic to which records are sent from now on."""
        create_topic(self.servers, name, partitions)
        self.written.append((name, partitions))

    def reset(self, group: str, topic: str, partitions: int) -> None:
        """Reset a group's offsets of a topic to 0, as ``kafka-consumer-groups --reset-offsets --to-earliest`` does."""
        places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])[group].result(TIMEOUT_SECONDS)

    def delete(self, topic: str) -> None:
        self.written[:] = [entry for entry in self.written if entry[0] != topic]
        delete_topic(self.servers, topic)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic."""
        grow_topic(self.servers, topic, partitions)
        self.written[:] = [entry for entry in self.written if entry[0] != topic] + [(topic, partitions)]


@contextmanager
def stage(
    folder: Path,
    properties: dict[str, str] | None = None,
    names: Collection[str] = DATA_SOURCES,
    *,
    record_ms: int = RECORD_MS,
    poll_ms: int = 20,
    collector: Mapping[str, str] = _POLL_SETTINGS,
    stream: Callable[[Settings], LiveStream] = LiveStream,
) -> Iterator[SituationStage]:
    """Run the test environment with the data sources ``names``, on a separate broker, whose log is evidence.

    ``record_ms``: time between two records of each partition. ``poll_ms``: longest poll of a Java consumer.
    ``collector``: environment variables of the collectors.
    """
    with ExitStack() as stack:
        broker_properties = PROPERTIES | LONG_BROKER_SESSION | _BROKER_PROPERTIES | (properties or {})
        broker = stack.enter_context(EmbeddedBroker(properties=broker_properties))
        servers, pattern = broker.bootstrap_servers, ".*"
        views: dict[str, LiveStream] = {}
        for name, options in (
            (LOG, ("--coordinator-log", str(broker.log_path))),
            (OFFSETS, ()),
            (POLLING, ("--by", "polling")),
        ):
            if name not in names:
                continue
            collecting = CollectorProcess(servers, pattern, *options, log=folder / f"{name}.log")
            collecting.environment = dict(collector)
            stack.enter_context(collecting)
            views[name] = stack.enter_context(stream(collecting.settings))
        listener_settings = load(bootstrap_servers=servers, topic_prefix=f"{unique_name('listener')}.")
        ensure_topics(listener_settings)
        if LISTENER in names:
            views[LISTENER] = stack.enter_context(LiveStream(listener_settings))
        java = stack.enter_context(JavaMembers(poll_ms=poll_ms))
        made = SituationStage(broker, folder, java, views, reports_prefix=listener_settings.topics.prefix)
        stack.enter_context(_write_records(made, record_ms))
        yield made


@contextmanager
def _write_records(stage: SituationStage, every_ms: int) -> Iterator[None]:
    """Write to all partitions of all topics, so that members commit offsets."""

    def write(producer: Producer, stop: threading.Event) -> None:
        for number in count():
            if stop.wait(every_ms / 1000):
                return
            for topic, partitions in [*stage.written]:
                for partition in range(partitions):
                    try:
                        producer.produce(topic, str(number).encode(), b"key", partition=partition)
                    except KafkaException as error:
                        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                            raise
                        # A grown topic: the producer learns of this partition with its next metadata refresh.
            producer.poll(0)

    # Records for a deleted topic must not fill the producer's queue.
    options = {"topic.metadata.refresh.interval.ms": 1000, "message.timeout.ms": 30_000}
    with produce_in_background(stage.servers, write, **options):
        yield
