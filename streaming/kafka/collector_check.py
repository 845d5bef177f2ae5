"""Whether a collector is running that a second one with the same id would end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from assignors.errors import OutsideFailure
from streaming.freshness.sign import MalformedSign, Sign, decoded
from streaming.kafka.identity import identify
from streaming.kafka.topic_reader import TopicReader

if TYPE_CHECKING:
    from streaming.settings.config import Settings

#: Heartbeats that may be missed before a collector counts as gone.
_MISSED: Final = 2
#: A collector whose last heartbeat is this many intervals old is not waited for.
_LONG_GONE: Final = 20
_POLL_SECONDS: Final = 0.2
_BATCH: Final = 500


class CollectorRunning(OutsideFailure):
    """A collector with the same id is running."""


def require_no_collector(settings: Settings, stop: threading.Event) -> None:
    """Return once it is certain that no collector with this id leaves heartbeats.

    A collector that crashed has left a heartbeat that says "running": whether another one follows is waited for, so
    that no two clocks are compared.

    Args:
        settings: the cluster, the topic of heartbeats and the collector's id.
        stop: set to wait no longer.

    Raises:
        CollectorRunning: another heartbeat has arrived.
    """
    topic = settings.topics.signs
    if identify(settings.kafka, [topic]).get(topic) is None:
        return
    key = f"collector/{settings.collector_id}".encode()
    with TopicReader(settings.kafka, [topic]) as reader:
        last, age = None, 0.0
        while not reader.at_end and not stop.is_set():
            last, age = _newest(reader, key) or (last, age)
        if last is None or last.state == "stopped" or age > _LONG_GONE * last.every_ms / 1000:
            return
        by = time.monotonic() + _MISSED * last.every_ms / 1000
        while time.monotonic() < by and not stop.is_set():
            found = _newest(reader, key)
            if found is not None and found[0].state == "stopped":
                return
            if found is not None:
                raise CollectorRunning(
                    f"collector {settings.collector_id} is running on this cluster and would be ended: stop it, or "
                    "start with --take-over, or use another --topic-prefix or collect.group_id"
                )


def _newest(reader: TopicReader, key: bytes) -> tuple[Sign, float] | None:
    """The newest heartbeat under a key among the next records, and its age in seconds by the broker's clock."""
    newest = None
    for message in reader.poll(_POLL_SECONDS, _BATCH):
        value = message.value()
        if message.key() != key or value is None:
            continue
        try:
            newest = decoded(key, value), time.time() - message.timestamp()[1] / 1000
        except MalformedSign:  # somebody else's record; `serve` names it
            continue
    return newest
