"""A collector process under test, and a topic with records that consumers can commit."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer

from streaming.records import codec
from streaming.records.events import Event, GroupObserved
from streaming.settings.config import Settings, load
from tests.support.background import produce_in_background
from tests.support.command import RunningCommand
from tests.support.kafka import read, unique_name
from tests.support.members import Share
from tests.support.topics import create_topic


class CollectorProcess(RunningCommand):
    """A context manager for a collector process; it also reads the events that the collector publishes."""

    def __init__(self, servers: str, pattern: str, *options: str, log: Path | None = None) -> None:
        self.settings: Settings = load(bootstrap_servers=servers, topic_prefix=f"{unique_name('collect')}.")
        super().__init__(
            *("collect", "--bootstrap-servers", servers, "--topic-prefix", self.settings.topics.prefix),
            *("--include-group", pattern, *options),
            log=log,
        )

    def __enter__(self) -> Self:
        return self.start()

    def read(self, topic: str | None = None, **options: Any) -> list[Any]:
        """Return all messages of a topic, by default those of the membership topic."""
        return read(self.settings.kafka.bootstrap_servers, topic or self.settings.topics.membership, **options)

    def events(self, group: str | None = None) -> list[Event]:
        events = [codec.decode_event(row.key(), row.value(), codec.ce_attributes(row.headers())) for row in self.read()]
        return [event for event in events if group in (None, event.data.group_id)]

    def views(self, group: str) -> list[GroupObserved]:
        return [event.data for event in self.events(group) if isinstance(event.data, GroupObserved)]

    def members(self, group: str) -> dict[str | None, Share] | None:
        """Return the partitions of each client id in the last snapshot; None before the first snapshot."""
        views = self.views(group)
        return (
            {m.client_id: share_of_client(views[-1], m.client_id) or {} for m in views[-1].members} if views else None
        )


def share_of_client(view: GroupObserved, client_id: str | None) -> Share | None:
    for member in view.members:
        if member.client_id == client_id:
            return {topic: numbers for topic, numbers in member.assigned.items() if numbers}
    return None


def snapshot_generations(views: list[GroupObserved]) -> list[int]:
    """Return the generations of the snapshots that have a generation, in order."""
    return [view.generation for view in views if view.generation is not None]


@contextmanager
def topic_with_writer(servers: str) -> Iterator[str]:
    """Create a topic of six partitions to which a producer keeps writing, so that members commit offsets."""
    name = create_topic(servers, unique_name("topic"), 6)

    def write(producer: Producer, stop: threading.Event) -> None:
        for number in count():
            if stop.wait(0.02):
                return
            producer.produce(name, b"v", partition=number % 6)
            producer.poll(0)

    with produce_in_background(servers, write):
        yield name
