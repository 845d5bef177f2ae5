"""The in-memory consumer, and the in-memory producer with atomic transactions."""

import time
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from tests.support.memory_kafka.log import Message

if TYPE_CHECKING:
    from tests.support.memory_kafka.cluster import MemoryKafka


class MemoryConsumer:
    """In-memory Consumer of assigned partitions; ``events`` holds errors that the next polls return."""

    def __init__(self, kafka: "MemoryKafka", config: dict[str, Any]) -> None:
        self._kafka = kafka
        self.config = config
        self.events: deque[Message] = deque()
        self.closed = False
        self._next_offsets: dict[tuple[str, int], int] = {}
        self._ids: dict[tuple[str, int], str] = {}
        self.reported_ends: dict[tuple[str, int], int] = {}
        kafka.consumers.append(self)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._next_offsets, self._ids, self.reported_ends = {}, {}, {}
        self.incremental_assign(places)

    def incremental_assign(self, places: Sequence[TopicPartition]) -> None:
        for requested in places:
            topic = self._kafka.topics[requested.topic]
            log = topic.logs[requested.partition]
            named = {OFFSET_BEGINNING: log.begins, OFFSET_END: log.end}
            place = (requested.topic, requested.partition)
            self._next_offsets[place] = max(named.get(requested.offset, requested.offset), log.begins)
            self._ids[place] = topic.id

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        del timeout
        return self._kafka.metadata(topic)

    def committed(self, places: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        del timeout
        self._kafka.receive("committed")
        group = self.config["group.id"]
        return [
            TopicPartition(
                place.topic, place.partition, self._kafka.committed.get((group, place.topic, place.partition), -1001)
            )
            for place in places
        ]

    def get_watermark_offsets(
        self, place: TopicPartition, *, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        assert cached is (timeout is None), "a request needs a timeout"
        topic = self._kafka.topics.get(place.topic)
        if topic is None or (cached and (place.topic, place.partition) not in self._next_offsets):
            return -1001, -1001
        log = topic.logs[place.partition]
        return log.begins, log.end

    def consumer_group_metadata(self) -> str:
        return self.config["group.id"]

    def poll(self, timeout: float) -> Message | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, most: int, timeout: float) -> list[Message]:
        assert not self.closed, "used after it was closed"
        messages: list[Message] = []
        while len(messages) < most and (message := self._next_message()) is not None:
            messages.append(message)
        if not messages and timeout:
            time.sleep(min(timeout, 0.001))
        return messages

    def _next_message(self) -> Message | None:
        if self.events:
            return self.events.popleft()
        if self._kafka.away:
            return None
        for place in self._next_offsets:
            name, number = place
            topic = self._kafka.topics.get(name)
            if topic is None or topic.id != self._ids[place]:
                continue
            log, offset = topic.logs[number], self._next_offsets[place]
            while offset < log.end and log.entries[offset] is None:
                offset += 1
            self._next_offsets[place] = offset
            if offset < log.end:
                self._next_offsets[place] = offset + 1
                return log.entries[offset]
            if self.config.get("enable.partition.eof") and self.reported_ends.get(place) != offset:
                self.reported_ends[place] = offset
                end_error = KafkaError(KafkaError._PARTITION_EOF)
                return Message(name, number, offset, error=end_error)
        return None

    def restart_beyond_end(self, topic: str, partition: int, end: int) -> None:
        """Reset the position to the beginning if the position is beyond the end of the partition."""
        place = (topic, partition)
        if self._next_offsets.get(place, 0) > end:
            self._next_offsets[place] = self._kafka.topics[topic].logs[partition].begins

    def close(self) -> None:
        self.closed = True


class MemoryProducer:
    """In-memory Producer of confluent-kafka, with or without transactions."""

    def __init__(self, kafka: "MemoryKafka", config: dict[str, Any]) -> None:
        self._kafka = kafka
        self.config = config
        self._waiting: list[tuple[str, dict[str, Any], Any]] = []
        self._delivered_messages: deque[tuple[Any, KafkaError | None, Message]] = deque()
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._has_transaction = False
        self._epoch = 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        del timeout
        return self._kafka.metadata(topic)

    def produce(self, topic: str, *, on_delivery: Any = None, **record: Any) -> None:
        try:
            self._kafka.receive("heartbeat" if topic.endswith("rebalance.signs") else "produce")
        except KafkaException as error:
            if error.args[0].code() == KafkaError._QUEUE_FULL:
                raise BufferError from error
            failed = Message(topic, record.get("partition"), None, key=record.get("key"), error=error.args[0])
            self._delivered_messages.append((on_delivery, error.args[0], failed))
            return
        if topic not in self._kafka.topics:
            late = KafkaError(KafkaError._MSG_TIMED_OUT, "no such topic")
            self._delivered_messages.append((on_delivery, late, Message(topic, None, None, error=late)))
            return
        self._waiting.append((topic, record, on_delivery))
        if "transactional.id" not in self.config:
            self._write()

    def _write(self) -> None:
        written = set()
        for topic, fields, on_delivery in self._waiting:
            record = {"partition": 0, **fields}
            self._kafka.append(topic, record.pop("value"), **record)
            self._delivered_messages.append(
                (on_delivery, None, self._kafka.topics[topic].logs[record["partition"]].entries[-1])
            )
            written.add((topic, record["partition"]))
        self._waiting.clear()
        if "transactional.id" in self.config:
            for place in sorted(written):
                self._kafka.mark(*place)

    def __len__(self) -> int:
        return len(self._waiting)

    def poll(self, timeout: float) -> int:
        assert timeout >= 0, "librdkafka would wait for ever"
        count = len(self._delivered_messages)
        while self._delivered_messages:
            on_delivery, error, message = self._delivered_messages.popleft()
            if on_delivery is not None:
                on_delivery(error, message)
        return count

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self._waiting) if self._kafka.away else 0

    def init_transactions(self, timeout: float) -> None:
        del timeout
        self._kafka.receive("init_transactions")
        self._kafka.epochs[self.config["transactional.id"]] += 1
        self._epoch = self._kafka.epochs[self.config["transactional.id"]]

    def begin_transaction(self) -> None:
        assert not self._has_transaction
        self._has_transaction = True

    def send_offsets_to_transaction(self, places: Sequence[TopicPartition], group: str, timeout: float) -> None:
        del timeout
        self._kafka.receive("send_offsets")
        self._offsets |= {(group, place.topic, place.partition): place.offset for place in places}

    def commit_transaction(self, timeout: float) -> None:
        del timeout
        if self._epoch != self._kafka.epochs[self.config["transactional.id"]]:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))
        self._kafka.receive("commit")
        assert self._has_transaction
        self._write()
        self._kafka.committed |= self._offsets
        self._offsets, self._has_transaction = {}, False

    def abort_transaction(self, timeout: float) -> None:
        del timeout
        self._kafka.receive("abort")
        self._waiting.clear()
        self._offsets, self._has_transaction = {}, False
