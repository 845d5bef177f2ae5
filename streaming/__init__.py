"""The monitor: collectors, the Spark job, the feed and the command line around a pure core.

``assignors`` computes what Kafka computes; ``streaming.protocols`` and ``streaming.monitor`` are pure state
machines over it; ``streaming.spark``, ``streaming.kafka``, ``streaming.collect`` and ``streaming.serve`` are
thin shells around those.

For programs that read the diffs; each name loads its module on first use::

    from streaming import load, read_diffs

    for record in read_diffs(load(bootstrap_servers="127.0.0.1:9092"), from_beginning=True):
        print(record.diff.group_id, record.diff.cause.kind, record.diff.moved)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaming.kafka.producer import EventProducer
    from streaming.kafka.reader import DiffReader, DiffRecord, read_diffs
    from streaming.settings.config import Settings, load
    from streaming.wire.events import (
        Diff,
        Event,
        MemberFenced,
        MemberJoined,
        MemberLeft,
        PartitionsChanged,
        SubscriptionChanged,
        TopicMetadata,
    )

#: What other programs use; where each stands may change.
_ROOMS = {
    "streaming.kafka.producer": ("EventProducer",),
    "streaming.kafka.reader": ("DiffReader", "DiffRecord", "read_diffs"),
    "streaming.settings.config": ("Settings", "load"),
    "streaming.wire.events": (
        "Diff",
        "Event",
        "MemberFenced",
        "MemberJoined",
        "MemberLeft",
        "PartitionsChanged",
        "SubscriptionChanged",
        "TopicMetadata",
    ),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Diff",
    "DiffReader",
    "DiffRecord",
    "Event",
    "EventProducer",
    "MemberFenced",
    "MemberJoined",
    "MemberLeft",
    "PartitionsChanged",
    "Settings",
    "SubscriptionChanged",
    "TopicMetadata",
    "load",
    "read_diffs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
