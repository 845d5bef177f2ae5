"""What the pure monitor makes of a membership topic as it grows, timers included: the stream without Spark."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import msgspec
from confluent_kafka import Consumer, TopicPartition

from streaming.monitor.blob import Bucket
from streaming.monitor.bucket import expire, process
from streaming.settings.config import Settings
from streaming.wire import codec
from streaming.wire.codec import Record
from streaming.wire.events import Diff, Event, LatestAssignment
from tests.support.members import Share
from tests.support.pure_stream import SINKS
from tests.support.wait import PATIENCE

_diffs = msgspec.json.Decoder(Diff)
_latest = msgspec.json.Decoder(LatestAssignment)


class Following:
    """Reads a membership topic from its beginning, all the time, as a stream does; a context manager.

    It reads in a thread of its own: a timer counts from the moment when a sign of life is read.

    Attributes:
        events: all that was read, and what timers wrote.
        diffs: what came of them.
    """

    def __init__(self, settings: Settings) -> None:
        self.events: list[Event] = []
        self.diffs: list[Diff] = []
        self._bucket = Bucket()
        self._latest: dict[str, dict[str, Share]] = {}
        self._consumer = Consumer(
            {"bootstrap.servers": settings.kafka.bootstrap_servers, "group.id": "unused", "log_level": 0}
        )
        topic = settings.topics.membership
        partitions = self._consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._ends = threading.Event()
        self._reading = ThreadPoolExecutor(1)
        self._read = self._reading.submit(self._follow)

    def _follow(self) -> None:
        while not self._ends.is_set():
            self._round()

    def _round(self) -> None:
        """Take in what has come."""
        now = time.time_ns() // 1_000_000
        records = [
            Record.of(one.partition(), one.offset(), one.key(), one.value(), one.headers())
            for one in self._consumer.consume(1000, 0.1)
            if one.error() is None
        ]
        self._apply(records, now)
        self._bucket = Bucket(self._bucket.pack())  # as between two batches; timers are found by it
        fences = expire(self._bucket, now, SINKS)
        self._apply([Record.of(-1, -1, one.key, one.value, one.headers) for one in fences], now)

    def _apply(self, records: list[Record], now: int) -> None:
        self.events += [codec.read(record) for record in records]
        for write in process(self._bucket, records, now, SINKS):
            if write.topic == SINKS.diffs and write.value is not None:
                self.diffs.append(_diffs.decode(write.value))
            elif write.topic == SINKS.assignments and write.value is not None:
                latest = _latest.decode(write.value)
                self._latest[latest.group_id] = latest.members

    def rounds(self, group: str) -> list[Diff]:
        """The diffs of a group so far."""
        return [diff for diff in [*self.diffs] if diff.group_id == group]

    def holds(self, group: str) -> dict[str, Share]:
        """Who owns what in a group, as far as it is read."""
        if self._read.done():
            self._read.result()  # it ends early by an error alone
        return self._latest.get(group, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._reading.shutdown()
        self._consumer.close()
