"""The cluster in memory that replaces Kafka in tests, with methods by which tests change it."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, admin

from streaming.records.codec import encode_event
from streaming.records.events import Event
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka.admin import GroupDescriptions, MemoryAdmin, answered
from tests.support.memory_kafka.clients import MemoryConsumer, MemoryProducer
from tests.support.memory_kafka.log import DEFAULT_CONFIG, Log, Message, Topic

#: Settings of a program that uses the cluster in memory.
SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))


class MemoryKafka:
    """The in-memory cluster; ``MemoryKafka(monkeypatch)`` replaces the client classes of confluent-kafka."""

    cluster_id = "memory"

    def __init__(self, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        self.topics: dict[str, Topic] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.requests: list[str] = []
        self.consumers: list[MemoryConsumer] = []
        self.away = False
        #: Timestamp of records that are written without one.
        self.clock_ms: Callable[[], int] = lambda: 0
        self.brokers: dict[int, dict[str, str]] = {1: {}}
        self.denied_operations: dict[str, set[str]] = {}
        self.epochs: dict[str, int] = defaultdict(int)
        #: Groups as DescribeGroups returns them; groups that ListGroups omits; errors of brokers whose ListGroups
        #: fails.
        self.groups: dict[str, admin.ConsumerGroupDescription] = {}
        self.unlisted_groups: set[str] = set()
        self.list_errors: list[KafkaError] = []
        #: All admin clients, and the admin clients that still send requests to coordinators that have moved.
        self.admins: list[MemoryAdmin] = []
        self.stale: set[MemoryAdmin] = set()
        #: True if requests about groups get no response.
        self.is_silent = False
        #: Names of requests about groups that wait for :meth:`answer`, and their pending futures.
        self.slow: set[str] = set()
        self.late: list[tuple[Future[Any], Callable[[GroupDescriptions], Any]]] = []
        self._errors_by_request: dict[str, deque[KafkaError]] = defaultdict(deque)
        self._topic_count = 0
        if monkeypatch is not None:
            monkeypatch.setattr(confluent_kafka, "Consumer", partial(MemoryConsumer, self))
            monkeypatch.setattr(confluent_kafka, "Producer", partial(MemoryProducer, self))
            monkeypatch.setattr(admin, "AdminClient", partial(MemoryAdmin, self))

    # Methods by which a test changes the cluster.

    def create(self, name: str, partitions: int = 1, **config: str) -> Topic:
        self._topic_count += 1
        overrides = {key.replace("_", "."): value for key, value in config.items()}
        topic = Topic(f"id-{self._topic_count}", [Log() for _ in range(partitions)], DEFAULT_CONFIG | overrides)
        self.topics[name] = topic
        return topic

    def delete(self, name: str) -> None:
        del self.topics[name]

    def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int = 0,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> int:
        timestamp = self.clock_ms() if timestamp is None else timestamp
        log = self.topics[topic].logs[partition]
        log.entries.append(
            Message(topic, partition, log.end, key=key, value=value, headers=list(headers), timestamp=timestamp)
        )
        return log.end - 1

    def publish(
        self, *events: Event, topic: str = "rebalance.membership", partition: int = 0, timestamp: int | None = None
    ) -> None:
        """Append membership events as records."""
        for event in events:
            key, value, headers = encode_event(event)
            self.append(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Remove a partition's newest records; consumers beyond the new end restart at the beginning."""
        del self.topics[topic].logs[partition].entries[end:]
        for consumer in self.consumers:
            consumer.restart_beyond_end(topic, partition, end)

    def mark(self, topic: str, partition: int = 0) -> None:
        """Append a transaction marker, which occupies an offset without being a record."""
        self.topics[topic].logs[partition].entries.append(None)

    def records(self, topic: str) -> list[Message]:
        return [entry for log in self.topics[topic].logs for entry in log.entries[log.begins :] if entry is not None]

    def fail(self, request: str, *errors: KafkaError) -> None:
        """Let the next requests of type ``request`` fail, each with the next one of ``errors``."""
        self._errors_by_request[request].extend(errors)

    def deny(self, topic: str, *operations: str) -> None:
        """Deny the user these operations (names of :class:`AclOperation`) on a topic."""
        self.denied_operations[topic] = set(operations)

    def move_coordinators(self) -> None:
        """Move coordinators; existing clients still use the old ones, as librdkafka may after broker restarts."""
        self.stale = set(self.admins)

    def answer(self, groups: GroupDescriptions) -> None:
        """Answer the delayed requests with these groups, and answer later requests without delay."""
        self.slow.clear()
        late, self.late = self.late, []
        for future, make in late:
            answered(partial(make, groups), future)

    def deliver_error(self, error: KafkaError, topic: str | None = None) -> None:
        """Deliver an error event to every consumer."""
        for consumer in self.consumers:
            consumer.events.append(Message(topic, None, None, error=error))

    # Methods that the clients call for a request.

    def receive(self, request: str) -> None:
        """Record a request; raise the error that a test set for this request or for the whole cluster."""
        self.requests.append(request)
        if self._errors_by_request[request]:
            raise KafkaException(self._errors_by_request[request].popleft())
        if self.away:
            # As in librdkafka, transactional calls are retriable and all others are not.
            is_retriable = request in ("init_transactions", "send_offsets", "commit", "abort")
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "broker is away", False, is_retriable))

    def metadata(self, topic: str | None) -> SimpleNamespace:
        self.receive("list_topics")
        names = list(self.topics) if topic is None else [topic]
        return SimpleNamespace(
            cluster_id=self.cluster_id, brokers=dict(self.brokers), topics={name: self._topic(name) for name in names}
        )

    def _topic(self, name: str) -> SimpleNamespace:
        if name not in self.topics:
            return SimpleNamespace(partitions={}, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        logs = self.topics[name].logs
        partition = SimpleNamespace(leader=1, replicas=[1])
        return SimpleNamespace(partitions=dict.fromkeys(range(len(logs)), partition), error=None)
