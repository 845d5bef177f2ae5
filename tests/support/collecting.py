"""A collector process under test, and a topic that gives consumers something to commit."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Self

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.settings.config import Settings, load
from streaming.wire import codec
from streaming.wire.events import Event, GroupObserved
from tests.support.kafka import unique
from tests.support.members import Owned


class Collecting:
    """A collector process and what it has published."""

    def __init__(self, servers: str, pattern: str, *options: str) -> None:
        self.settings: Settings = load(bootstrap_servers=servers, topic_prefix=f"{unique('collect')}.")
        self._command = [
            *(sys.executable, "-m", "streaming", "collect", "--bootstrap-servers", servers),
            *("--topic-prefix", self.settings.topics.prefix, "--include-group", pattern, *options),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        self._process = subprocess.Popen(self._command)
        return self

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(30)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def read(self, topic: str | None = None, *, isolation: str = "read_committed") -> list[Any]:
        """All messages of a topic, the membership topic if none is named."""
        name = topic or self.settings.topics.membership
        consumer = Consumer(
            {
                "bootstrap.servers": self.settings.kafka.bootstrap_servers,
                "group.id": "unused",
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        found: list[Any] = []
        try:
            metadata = consumer.list_topics(name, timeout=10).topics[name]
            waiting = set(metadata.partitions) if metadata.error is None else set()
            consumer.assign([TopicPartition(name, number, 0) for number in waiting])
            while waiting:
                for message in consumer.consume(500, 0.2):
                    if message.error() is None:
                        found.append(message)
                    else:
                        waiting.discard(message.partition())
        finally:
            consumer.close()
        return found

    def events(self, group: str | None = None) -> list[Event]:
        found = [
            codec.decode_event(one.key(), one.value(), codec.ce_attributes(one.headers()))
            for one in self.read()
        ]
        return [event for event in found if group in (None, event.data.group_id)]

    def views(self, group: str) -> list[GroupObserved]:
        return [event.data for event in self.events(group) if isinstance(event.data, GroupObserved)]

    def members(self, group: str) -> dict[str | None, Owned] | None:
        """Client id → partitions in the last view; None before the first."""
        views = self.views(group)
        return (
            {m.client_id: owned_by(views[-1], m.client_id) or frozenset() for m in views[-1].members}
            if views
            else None
        )


def owned_by(view: GroupObserved, client_id: str) -> Owned | None:
    for member in view.members:
        if member.client_id == client_id:
            return frozenset(
                (topic, number) for topic, numbers in member.assigned.items() for number in numbers
            )
    return None


@contextmanager
def written_topic(servers: str) -> Iterator[str]:
    """A topic of six partitions that somebody writes to, so that members commit."""
    name = unique("topic")
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, 6, 1)])[name].result()
    producer, stop = Producer({"bootstrap.servers": servers}), threading.Event()

    def write() -> None:
        for number in count():
            if stop.wait(0.02):
                return
            producer.produce(name, b"v", partition=number % 6)
            producer.poll(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield name
    finally:
        stop.set()
        writer.join()
        producer.flush(10)
