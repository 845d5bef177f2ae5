"""Decodes Kafka Streams' user data in consumers' subscriptions and assignments (classic protocol).

The layouts are those of ``SubscriptionInfo`` and ``AssignmentInfo``, versions 1 to 11. The assignment itself has
the active tasks, by partition; the user data adds standby tasks and the time of the next rebalance. A warm-up
task looks like a standby task. Newer versions are not read, as in older releases of Streams.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from streaming.collect.coordinator.schema import MalformedRecord, Reader, merged
from streaming.records.events import MAX_TIMESTAMP

#: The assignor's name under which Streams joins.
STREAM = "stream"
_HIGHEST = 11
#: First versions of SubscriptionInfo with the endpoint, the newest supported version, and offset sums for tasks.
_WITH_ENDPOINT, _WITH_SUPPORTED, _WITH_SUMS = 2, 3, 7
#: The first version of AssignmentInfo with the time of the next rebalance; the first version of both with named
#: topologies.
_WITH_NEXT, _WITH_NAMES = 7, 10


def read_instance(data: bytes | None) -> dict[str, str]:
    """Decode the user data of a subscription: ``process_id``, and ``endpoint`` if the member has one.

    The result is empty if there is no user data, or its version is newer.
    """
    reader = _open(data)
    if reader is None:
        return {}
    if reader.version >= _WITH_SUPPORTED:
        reader.int32("latestSupportedVersion")
    process_id = str(UUID(bytes=reader.raw(16, "processId")))
    if reader.version < _WITH_SUMS:
        _tasks(reader, "prevTasks")
        _tasks(reader, "standbyTasks")
    endpoint = reader.nullable_bytes("userEndPoint") if reader.version >= _WITH_ENDPOINT else None
    try:
        return {"process_id": process_id} | ({"endpoint": endpoint.decode()} if endpoint else {})
    except UnicodeDecodeError as error:
        raise MalformedRecord("userEndPoint: not UTF-8") from error


def read_assigned_tasks(data: bytes | None) -> dict[str, Any]:
    """Decode the user data of an assignment: ``standby`` and warm-up tasks, ``{subtopology: partitions}``.

    ``next_rebalance_ms``: when the member rejoins on its own, in ms since the epoch (0: at once; missing: never). The
    result is empty if there is no user data, or its version is newer.
    """
    reader = _open(data)
    if reader is None:
        return {}
    if reader.version >= _WITH_SUPPORTED:
        reader.int32("commonlySupportedVersion")
    _tasks(reader, "activeTasks")
    tasks: dict[str, Any] = {"standby": merged(reader.array("standbyTasks", lambda: _standby_task(reader)))}
    if reader.version >= _WITH_NEXT and 0 <= (time := _next_rebalance(reader)) <= MAX_TIMESTAMP:
        tasks["next_rebalance_ms"] = time
    return tasks


def _open(data: bytes | None) -> Reader | None:
    if not data:
        return None
    reader = Reader(data)
    reader.version = reader.int32("version")
    if reader.version < 1:
        raise MalformedRecord(f"version: {reader.version} is below 1")
    return reader if reader.version <= _HIGHEST else None


def _task(reader: Reader, what: str) -> tuple[str, int]:
    subtopology, partition = reader.int32(what), reader.int32(what)
    size = reader.int32(what) if reader.version >= _WITH_NAMES else 0
    try:
        name = reader.raw(2 * size, what).decode("utf-16-be") if size > 0 else ""
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"{what}: not UTF-16") from error
    return (f"{name}__{subtopology}" if name else str(subtopology)), partition


def _tasks(reader: Reader, what: str) -> None:
    reader.array(what, lambda: _task(reader, what))


def _standby_task(reader: Reader) -> tuple[str, list[int]]:
    subtopology, number = _task(reader, "standbyTasks")
    if number < 0:
        raise MalformedRecord(f"standbyTasks: {number} is not a partition number")
    what = "standbyTasks.partitions"
    reader.array(what, lambda: (_text(reader, what), reader.int32(what)))
    return subtopology, [number]


def _text(reader: Reader, what: str) -> bytes:
    """Read a text that Java's DataOutputStream.writeUTF wrote."""
    return reader.raw(reader.int16(what) & 0xFFFF, what)


def _next_rebalance(reader: Reader) -> int:
    """Read the time of the next rebalance (ms), after the topics and hosts that precede it."""
    reader.array("topics", lambda: (reader.int32("topics"), _text(reader, "topics")))
    _skip_hosts(reader, "partitionsByHost")
    _skip_hosts(reader, "standbyPartitionsByHost")
    reader.int32("errorCode")
    return reader.int64("nextRebalanceMs")


def _skip_hosts(reader: Reader, what: str) -> None:
    def partitions() -> list[tuple[int, int]]:
        return reader.array(what, lambda: (reader.int32(what), reader.int32(what)))

    reader.array(what, lambda: (_text(reader, what), reader.int32(what), partitions()))
