"""A cluster in memory, behind the client classes of confluent-kafka: what the fast tests read, write and break.

It keeps what the code rests on: offsets with gaps where markers of transactions stand, ends of partitions as
events, ids of topics, deliveries that come with ``poll``, transactions that are there whole or not at all. What a
broker decides by itself (elections, ACLs, timeouts) a test says: :attr:`MemoryKafka.away`,
:meth:`MemoryKafka.deny`, :meth:`MemoryKafka.fail`. Real brokers answer the same in the integration tests.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition, admin

DEFAULTS = {"cleanup.policy": "delete", "max.message.bytes": "1048588"}
Headers = list[tuple[str, bytes | None]]


class Message:
    """A record, or (``error``) what happened in its place."""

    def __init__(
        self,
        topic: str | None,
        partition: int | None,
        offset: int | None,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers | None = None,
        timestamp: int = 0,
        error: KafkaError | None = None,
    ) -> None:
        self.topic, self.partition, self.offset = (lambda: topic), (lambda: partition), (lambda: offset)
        self.key, self.value, self.error = (lambda: key), (lambda: value), (lambda: error)
        self.headers, self.timestamp = (lambda: headers), (lambda: (1, timestamp))

    @property
    def record(self) -> tuple[bytes | None, bytes | None, Headers]:
        return self.key(), self.value(), self.headers() or []


@dataclass
class Log:
    """A partition: its records; None where a marker stands."""

    entries: list[Message | None] = field(default_factory=list)
    begins: int = 0

    @property
    def end(self) -> int:
        return len(self.entries)


@dataclass
class Topic:
    id: str
    logs: list[Log]
    config: dict[str, str]
    racks: list[list[str]] | None = None
    #: Partitions without a leader.
    offline: set[int] = field(default_factory=set)


class MemoryKafka:
    """The cluster; ``MemoryKafka(monkeypatch)`` takes the place of every real one."""

    cluster_id = "memory"

    def __init__(self, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        self.topics: dict[str, Topic] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.requests: list[str] = []
        self.consumers: list[MemoryConsumer] = []
        self.away = False
        self.brokers: dict[int, dict[str, str]] = {1: {}}
        self.denied: dict[str, set[str]] = {}
        self.epochs: dict[str, int] = defaultdict(int)
        self._failing: dict[str, deque[KafkaError]] = defaultdict(deque)
        self._made = 0
        if monkeypatch is not None:
            monkeypatch.setattr(confluent_kafka, "Consumer", partial(MemoryConsumer, self))
            monkeypatch.setattr(confluent_kafka, "Producer", partial(MemoryProducer, self))
            monkeypatch.setattr(admin, "AdminClient", partial(MemoryAdmin, self))

    # What a test does to it.

    def create(self, name: str, partitions: int = 1, **config: str) -> Topic:
        self._made += 1
        given = {key.replace("_", "."): value for key, value in config.items()}
        topic = Topic(f"id-{self._made}", [Log() for _ in range(partitions)], DEFAULTS | given)
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
        timestamp: int = 0,
    ) -> int:
        log = self.topics[topic].logs[partition]
        log.entries.append(
            Message(
                topic, partition, log.end, key=key, value=value, headers=list(headers), timestamp=timestamp
            )
        )
        return log.end - 1

    def mark(self, topic: str, partition: int = 0) -> None:
        """The marker of a transaction's end: an offset without a record."""
        self.topics[topic].logs[partition].entries.append(None)

    def records(self, topic: str) -> list[Message]:
        return [
            one for log in self.topics[topic].logs for one in log.entries[log.begins :] if one is not None
        ]

    def fail(self, request: str, *errors: KafkaError) -> None:
        """The next requests of this name meet these errors, one each."""
        self._failing[request].extend(errors)

    def deny(self, topic: str, *operations: str) -> None:
        """The user lacks these operations (as :class:`AclOperation` names them) on a topic."""
        self.denied[topic] = set(operations)

    def say(self, error: KafkaError, topic: str | None = None) -> None:
        """Every consumer meets this event."""
        for consumer in self.consumers:
            consumer.events.append(Message(topic, None, None, error=error))

    # What clients ask.

    def asked(self, request: str) -> None:
        """Note a request; an error if there is one for it, or nobody answers."""
        self.requests.append(request)
        if self._failing[request]:
            raise KafkaException(self._failing[request].popleft())
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "broker is away"))

    def metadata(self, topic: str | None) -> SimpleNamespace:
        self.asked("list_topics")
        names = list(self.topics) if topic is None else [topic]
        return SimpleNamespace(
            cluster_id=self.cluster_id,
            brokers=dict(self.brokers),
            topics={name: self._topic(name) for name in names},
        )

    def _topic(self, name: str) -> SimpleNamespace:
        if name not in self.topics:
            return SimpleNamespace(partitions={}, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        logs = self.topics[name].logs
        one = SimpleNamespace(leader=1, replicas=[1])
        return SimpleNamespace(partitions=dict.fromkeys(range(len(logs)), one), error=None)


def answered(make: Any) -> Future[Any]:
    """A future that is done: with what ``make()`` gives, or its error."""
    future: Future[Any] = Future()
    try:
        future.set_result(make())
    except KafkaException as error:
        future.set_exception(error)
    return future


class MemoryAdmin:
    """AdminClient: every answer is there at once."""

    def __init__(self, kafka: MemoryKafka, config: dict[str, Any]) -> None:
        self._kafka = kafka
        self.config = config

    def poll(self, timeout: float = 0) -> int:
        del timeout
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        del timeout
        return self._kafka.metadata(topic)

    def describe_topics(
        self, names: Any, *, include_authorized_operations: bool = False, request_timeout: float
    ) -> dict[str, Future[Any]]:
        del request_timeout

        def describe(name: str) -> SimpleNamespace:
            self._kafka.asked("describe_topics")
            denied = self._kafka.denied.get(name, set())
            if "DESCRIBE" in denied:
                raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
            if name not in self._kafka.topics:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown topic"))
            topic = self._kafka.topics[name]
            racks = topic.racks or [[] for _ in topic.logs]
            operations = [one for one in admin.AclOperation if one.name not in denied]
            return SimpleNamespace(
                topic_id=topic.id,
                partitions=[
                    SimpleNamespace(
                        id=number,
                        leader=SimpleNamespace(id=-1 if number in topic.offline else 1),
                        replicas=[SimpleNamespace(rack=rack) for rack in racks[number]],
                    )
                    for number in reversed(range(len(topic.logs)))
                ],
                authorized_operations=operations if include_authorized_operations else None,
            )

        return {name: answered(partial(describe, name)) for name in names.topic_names}

    def describe_consumer_groups(
        self, names: Sequence[str], *, include_authorized_operations: bool, request_timeout: float
    ) -> dict[str, Future[Any]]:
        del include_authorized_operations, request_timeout

        def describe(name: str) -> SimpleNamespace:
            denied = self._kafka.denied.get(name, set())
            operations = [one for one in admin.AclOperation if one.name not in denied]
            return SimpleNamespace(authorized_operations=operations)

        return {name: answered(partial(describe, name)) for name in names}

    def describe_configs(
        self, resources: Sequence[Any], request_timeout: float = -1
    ) -> dict[Any, Future[Any]]:
        del request_timeout

        def describe(resource: Any) -> dict[str, Any]:
            self._kafka.asked("describe_configs")
            if "DESCRIBE_CONFIGS" in self._kafka.denied.get(resource.name, set()):
                raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
            if resource.restype == admin.ConfigResource.Type.BROKER:
                config = self._kafka.brokers[int(resource.name)]
            else:
                config = self._kafka.topics[resource.name].config
            return {key: SimpleNamespace(value=value) for key, value in config.items()}

        return {one: answered(partial(describe, one)) for one in resources}

    def create_topics(self, new: Sequence[Any], **_: Any) -> dict[str, Future[Any]]:
        def create(one: Any) -> None:
            self._kafka.asked("create_topics")
            if one.topic in self._kafka.topics:
                raise KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "exists"))
            config = {key.replace(".", "_"): value for key, value in one.config.items()}
            self._kafka.create(one.topic, one.num_partitions, **config)

        return {one.topic: answered(partial(create, one)) for one in new}

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        def offset(place: TopicPartition, spec: Any) -> SimpleNamespace:
            self._kafka.asked("list_offsets")
            if place.topic not in self._kafka.topics:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown topic"))
            log = self._kafka.topics[place.topic].logs[place.partition]
            return SimpleNamespace(offset=log.begins if "Earliest" in type(spec).__name__ else log.end)

        return {place: answered(partial(offset, place, spec)) for place, spec in asked.items()}


class MemoryConsumer:
    """Consumer, of partitions that it is assigned."""

    def __init__(self, kafka: MemoryKafka, config: dict[str, Any]) -> None:
        self._kafka = kafka
        self.config = config
        self.events: deque[Message] = deque()
        self.closed = False
        self._next: dict[tuple[str, int], int] = {}
        self._ids: dict[tuple[str, int], str] = {}
        self._told: dict[tuple[str, int], int] = {}
        kafka.consumers.append(self)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._next, self._ids, self._told = {}, {}, {}
        self.incremental_assign(places)

    def incremental_assign(self, places: Sequence[TopicPartition]) -> None:
        for one in places:
            topic = self._kafka.topics[one.topic]
            log = topic.logs[one.partition]
            named = {OFFSET_BEGINNING: log.begins, OFFSET_END: log.end}
            place = (one.topic, one.partition)
            self._next[place] = max(named.get(one.offset, one.offset), log.begins)
            self._ids[place] = topic.id

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        del timeout
        return self._kafka.metadata(topic)

    def committed(self, places: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        del timeout
        self._kafka.asked("committed")
        group = self.config["group.id"]
        return [
            TopicPartition(
                one.topic, one.partition, self._kafka.committed.get((group, one.topic, one.partition), -1001)
            )
            for one in places
        ]

    def get_watermark_offsets(
        self, place: TopicPartition, *, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        assert cached is (timeout is None), "a request has its time"
        topic = self._kafka.topics.get(place.topic)
        if topic is None or (cached and (place.topic, place.partition) not in self._next):
            return -1001, -1001
        log = topic.logs[place.partition]
        return log.begins, log.end

    def consumer_group_metadata(self) -> str:
        return self.config["group.id"]

    def poll(self, timeout: float) -> Message | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, most: int, timeout: float) -> list[Message]:
        assert not self.closed, "used after it was closed"
        found: list[Message] = []
        while len(found) < most and (one := self._one()) is not None:
            found.append(one)
        if not found and timeout:
            time.sleep(min(timeout, 0.001))
        return found

    def _one(self) -> Message | None:
        if self.events:
            return self.events.popleft()
        if self._kafka.away:
            return None
        for place in self._next:
            name, number = place
            topic = self._kafka.topics.get(name)
            if topic is None or topic.id != self._ids[place]:
                continue
            log, following = topic.logs[number], self._next[place]
            while following < log.end and log.entries[following] is None:
                following += 1
            self._next[place] = following
            if following < log.end:
                self._next[place] = following + 1
                return log.entries[following]
            if self.config.get("enable.partition.eof") and self._told.get(place) != following:
                self._told[place] = following
                eof = KafkaError(KafkaError._PARTITION_EOF)
                return Message(name, number, following, error=eof)
        return None

    def close(self) -> None:
        self.closed = True


class MemoryProducer:
    """Producer, with or without transactions."""

    def __init__(self, kafka: MemoryKafka, config: dict[str, Any]) -> None:
        self._kafka = kafka
        self.config = config
        self._waiting: list[tuple[str, dict[str, Any], Any]] = []
        self._done: deque[tuple[Any, KafkaError | None, Message]] = deque()
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._open = False
        self._epoch = 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        del timeout
        return self._kafka.metadata(topic)

    def produce(self, topic: str, *, on_delivery: Any = None, **record: Any) -> None:
        try:
            self._kafka.asked("produce")
        except KafkaException as error:
            if error.args[0].code() == KafkaError._QUEUE_FULL:
                raise BufferError from error
            failed = Message(topic, record.get("partition"), None, key=record.get("key"), error=error.args[0])
            self._done.append((on_delivery, error.args[0], failed))
            return
        self._waiting.append((topic, record, on_delivery))
        if "transactional.id" not in self.config:
            self._write()

    def _write(self) -> None:
        touched = set()
        for topic, given, on_delivery in self._waiting:
            record = {"partition": 0, **given}
            self._kafka.append(topic, record.pop("value"), **record)
            self._done.append(
                (on_delivery, None, self._kafka.topics[topic].logs[record["partition"]].entries[-1])
            )
            touched.add((topic, record["partition"]))
        self._waiting.clear()
        if "transactional.id" in self.config:
            for place in sorted(touched):
                self._kafka.mark(*place)

    def __len__(self) -> int:
        return len(self._waiting)

    def poll(self, timeout: float) -> int:
        del timeout
        count = len(self._done)
        while self._done:
            on_delivery, error, message = self._done.popleft()
            if on_delivery is not None:
                on_delivery(error, message)
        return count

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self._waiting) if self._kafka.away else 0

    def init_transactions(self, timeout: float) -> None:
        del timeout
        self._kafka.asked("init_transactions")
        self._kafka.epochs[self.config["transactional.id"]] += 1
        self._epoch = self._kafka.epochs[self.config["transactional.id"]]

    def begin_transaction(self) -> None:
        assert not self._open
        self._open = True

    def send_offsets_to_transaction(
        self, places: Sequence[TopicPartition], group: str, timeout: float
    ) -> None:
        del timeout
        self._kafka.asked("send_offsets")
        self._offsets |= {(group, one.topic, one.partition): one.offset for one in places}

    def commit_transaction(self, timeout: float) -> None:
        del timeout
        if self._epoch != self._kafka.epochs[self.config["transactional.id"]]:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))
        self._kafka.asked("commit")
        assert self._open
        self._write()
        self._kafka.committed |= self._offsets
        self._offsets, self._open = {}, False

    def abort_transaction(self, timeout: float) -> None:
        del timeout
        self._kafka.asked("abort")
        self._waiting.clear()
        self._offsets, self._open = {}, False
