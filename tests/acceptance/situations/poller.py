"""A confluent-kafka consumer in a thread, which can stop polling while librdkafka continues to send heartbeats."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer

from tests.support.members import Share
from tests.support.wait import TIMEOUT_SECONDS


class Poller:
    """An eager consumer; ``lines`` holds its callbacks in the format of :class:`~tests.support.members.Member`."""

    def __init__(self, servers: str, group: str, name: str, topics: Sequence[str], poll_ms: int) -> None:
        self.name = name
        self.lines: list[dict[str, Any]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "client.id": name,
                "partition.assignment.strategy": "range",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": min(poll_ms, 6000),
                "heartbeat.interval.ms": 200,
                "max.poll.interval.ms": poll_ms,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            list(topics),
            on_assign=self._record_callback("assigned"),
            on_revoke=self._record_callback("revoked"),
            on_lost=self._record_callback("lost"),
        )
        self._pause_seconds = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _record_callback(self, event: str) -> Callable[[Consumer, Iterable[Any]], None]:
        def add_line(_: Consumer, partitions: Iterable[Any]) -> None:
            owned: Share = {}
            for partition in partitions if event == "assigned" else ():
                owned.setdefault(partition.topic, []).append(partition.partition)
            self.lines.append({"at": time.time_ns() // 1_000_000, "event": event, "owned": owned})

        return add_line

    def _run(self) -> None:
        while not self._stop.is_set():
            self._consumer.poll(0.1)
            pause, self._pause_seconds = self._pause_seconds, 0.0
            self._stop.wait(pause)
        self._consumer.close()

    @property
    def owned(self) -> Share:
        return self.lines[-1]["owned"] if self.lines else {}

    def pause_polling(self, ms: int) -> None:
        """Let the consumer stop polling for this long; return once it polls again."""
        self._pause_seconds = ms / 1000
        self._stop.wait(ms / 1000 + 0.5)

    def close(self) -> None:
        """Leave the group and end the thread."""
        self._stop.set()
        self._thread.join(TIMEOUT_SECONDS)

    #: Closing replaces a crash, because a thread can't be killed alone.
    crash = close
