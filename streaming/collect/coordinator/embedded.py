"""Decodes consumers' metadata (the embedded consumer protocol) in classic group records; any client may write it.

The layouts are those of ``ConsumerProtocolSubscription.json`` (v0 to v3) and ``ConsumerProtocolAssignment.json``.
The decoder refuses what Kafka's ``ConsumerProtocol`` refuses: a negative version, null topics, names or partitions, and
counts larger than the bytes. As in Kafka, a newer version is read as the newest known version, an empty rack as None,
and trailing bytes are ignored. Beyond Kafka, it refuses partitions below 0 and names that are not UTF-8.

The user data belongs to the assignor. For ``sticky`` it is the member's previous partitions and, from v1, their
generation (StickyAssignor), because an eager member owns nothing while it joins. For ``cooperative-sticky`` it is
the generation of the owned partitions, an int32 (CooperativeStickyAssignor since 3.0): a subscription below v2
has no field for it (KIP-792).

For Kafka Streams it has the layouts of ``SubscriptionInfo`` and ``AssignmentInfo``, versions 1 to 11. The assignment
itself has the active tasks, by partition; the user data adds standby tasks and the time of the next rebalance. A
warm-up task looks like a standby task. Newer versions are not read, as in older releases of Streams.
"""

from contextlib import suppress
from typing import Any
from uuid import UUID

from streaming.collect.coordinator.schema import MalformedRecord, Reader, merged, strings, versioned
from streaming.records.events import MAX_TIMESTAMP, Partitions

#: The first versions of a subscription with a generation (KIP-792) and with a rack (KIP-881).
_GENERATION_VERSION, _RACK_VERSION = 2, 3
#: The assignor name of Kafka Streams members.
STREAMS_ASSIGNOR = "stream"
_MAX_STREAMS_VERSION = 11
#: First versions of SubscriptionInfo with the endpoint, the newest supported version, and offset sums for tasks.
_ENDPOINT_VERSION, _SUPPORTED_VERSION, _TASK_SUMS_VERSION = 2, 3, 7
#: The first version of AssignmentInfo with the time of the next rebalance; the first version of both with named
#: topologies.
_NEXT_REBALANCE_VERSION, _TASK_NAMES_VERSION = 7, 10


def read_subscription(data: bytes, protocol: str | None) -> dict[str, Any]:
    """Decode a subscription under an assignor into fields of ``ObservedMember``; empty bytes subscribe to nothing."""
    if not data:
        return {"topics": []}
    reader = versioned(data)
    topics, user_data = [*strings(reader, "topics")], reader.nullable_bytes("userData")
    owned: Partitions = {}
    generation, rack = -1, None
    # Some clients write version 1 without its field; Kafka's own leader refuses those.
    if reader.version >= 1 and reader.bytes_left:
        owned = _partitions(reader, "ownedPartitions")
        generation = reader.int32("generationId") if reader.version >= _GENERATION_VERSION else -1
        rack = (reader.nullable_string("rackId") or None) if reader.version >= _RACK_VERSION else None
    if protocol == "sticky" and user_data:
        # As StickyAssignor.deserializeTopicPartitionAssignment: malformed data means no owned partitions.
        owned, generation, assignor_data = {}, -1, Reader(user_data)
        with suppress(MalformedRecord):  # v0 has no generation
            owned = _partitions(assignor_data, "userData")
            generation = assignor_data.int32("userData.generation")
    elif protocol == "cooperative-sticky" and user_data and generation < 0:
        with suppress(MalformedRecord):
            generation = Reader(user_data).int32("userData.generation")
    fields = {"topics": topics, "owned": owned, "owned_generation": generation, "rack_id": rack}
    return fields | (read_instance(user_data) if protocol == STREAMS_ASSIGNOR else {})


def read_assignment(data: bytes, protocol: str | None) -> dict[str, Any]:
    """Decode an assignment under an assignor into fields of ``ObservedMember``; empty bytes assign nothing."""
    if not data:
        return {"assigned": {}}
    reader = versioned(data)
    assigned, user_data = _partitions(reader, "assignedPartitions"), reader.nullable_bytes("userData")
    return {"assigned": assigned} | (read_assigned_tasks(user_data) if protocol == STREAMS_ASSIGNOR else {})


def _partitions(reader: Reader, what: str) -> Partitions:
    """Read partitions by topic, without topics that have no partitions; topics and partitions are sorted and unique."""
    return merged(reader.array(what, lambda: (reader.string(f"{what}.topic"), reader.partitions(f"{what}.partitions"))))


def read_instance(data: bytes | None) -> dict[str, str]:
    """Decode ``process_id`` and ``endpoint`` from a subscription's user data; empty if the data is missing or newer."""
    reader = _streams_reader(data)
    if reader is None:
        return {}
    if reader.version >= _SUPPORTED_VERSION:
        reader.int32("latestSupportedVersion")
    process_id = str(UUID(bytes=reader.raw(16, "processId")))
    if reader.version < _TASK_SUMS_VERSION:
        _skip_tasks(reader, "prevTasks")
        _skip_tasks(reader, "standbyTasks")
    endpoint = reader.nullable_bytes("userEndPoint") if reader.version >= _ENDPOINT_VERSION else None
    try:
        return {"process_id": process_id} | ({"endpoint": endpoint.decode()} if endpoint else {})
    except UnicodeDecodeError as error:
        raise MalformedRecord("userEndPoint: not UTF-8") from error


def read_assigned_tasks(data: bytes | None) -> dict[str, Any]:
    """Decode ``standby`` and warm-up tasks, ``{subtopology: partitions}``, from an assignment's user data.

    ``next_rebalance_ms``: when the member rejoins on its own, in ms since the epoch (0: at once; missing: never). The
    result is empty if there is no user data, or its version is newer.
    """
    reader = _streams_reader(data)
    if reader is None:
        return {}
    if reader.version >= _SUPPORTED_VERSION:
        reader.int32("commonlySupportedVersion")
    _skip_tasks(reader, "activeTasks")
    tasks: dict[str, Any] = {"standby": merged(reader.array("standbyTasks", lambda: _standby_task(reader)))}
    if reader.version >= _NEXT_REBALANCE_VERSION and 0 <= (time := _next_rebalance(reader)) <= MAX_TIMESTAMP:
        tasks["next_rebalance_ms"] = time
    return tasks


def _streams_reader(data: bytes | None) -> Reader | None:
    if not data:
        return None
    reader = Reader(data)
    reader.version = reader.int32("version")
    if reader.version < 1:
        raise MalformedRecord(f"version: {reader.version} is below 1")
    return reader if reader.version <= _MAX_STREAMS_VERSION else None


def _read_task(reader: Reader, what: str) -> tuple[str, int]:
    subtopology, partition = reader.int32(what), reader.int32(what)
    size = reader.int32(what) if reader.version >= _TASK_NAMES_VERSION else 0
    try:
        name = reader.raw(2 * size, what).decode("utf-16-be") if size > 0 else ""
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"{what}: not UTF-16") from error
    return (f"{name}__{subtopology}" if name else str(subtopology)), partition


def _skip_tasks(reader: Reader, what: str) -> None:
    reader.array(what, lambda: _read_task(reader, what))


def _standby_task(reader: Reader) -> tuple[str, list[int]]:
    subtopology, number = _read_task(reader, "standbyTasks")
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
