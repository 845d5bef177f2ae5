"""Writes group records directly into ``__consumer_offsets``, to measure the collector's delay alone."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from streaming.collect.coordinator.records import OFFSETS_TOPIC
from tests.support.offsets_topic import assignment, group_key, group_value, subscription

_EVERY_SECONDS = 0.2


class GroupRecords:
    """A context manager that writes generations of one classic group into each partition.

    A coordinator resigns from a partition that others write to, so the collector's own group needs another one.

    Attributes:
        written: group → generation → when its record was acknowledged, in seconds since the epoch.
    """

    def __init__(self, servers: str, prefix: str, partitions: Iterable[int]) -> None:
        self.written: dict[str, dict[int, float]] = defaultdict(dict)
        self.groups = {number: f"{prefix}-{number}" for number in partitions}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "__admin_client",  # only AdminUtils.ADMIN_CLIENT_ID may write to internal topics
                "enable.idempotence": True,
                "socket.timeout.ms": 3000,
                "request.timeout.ms": 3000,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def newest(self) -> dict[str, int]:
        """Return the newest acknowledged generation of each group."""
        return {group: max(self.written[group], default=0) for group in self.groups.values()}

    def _write(self) -> None:
        generation = 0
        while not self._stop.wait(_EVERY_SECONDS):
            generation += 1
            share = {"m": (subscription(["t"]), assignment({"t": [generation % 3]}))}
            for partition, group in self.groups.items():
                self._producer.produce(
                    OFFSETS_TOPIC,
                    key=group_key(group),
                    value=group_value(generation, share),
                    partition=partition,
                    on_delivery=self._acknowledged(group, generation),
                )
            self._producer.poll(0)
        self._producer.flush(60)

    def _acknowledged(self, group: str, generation: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.written[group][generation] = time.time()

        return note
