"""Decodes Connect workers' metadata in classic group records, with connectors as topics and tasks as partitions.

The layouts are those of ``ConnectProtocol`` (``connect.protocol`` eager, in records ``default``) and of
``IncrementalCooperativeConnectProtocol`` (compatible, sessioned). The protocol's name selects the layout, as in the
worker; a version below 0 is refused. A connector's own instance is its task −1.

An incremental assignment has only new and revoked tasks. A worker runs the tasks that it reported when it joined
(``allocation``), without the revoked tasks and with the new tasks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from assignors.assignment import subtract, union
from streaming.collect.coordinator.schema import Decoder, Field, MalformedRecord, Reader, merged, read_fields, versioned
from streaming.records.events import CONNECTOR, Holding

#: ``protocolType`` of Connect's groups.
CONNECT = "connect"
#: Protocol name in the records → the first version of its layout.
SUBPROTOCOL_VERSIONS = {"default": 0, "compatible": 1, "sessioned": 1}
_INCREMENTAL = 1


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """A worker's assignment (incremental: only new tasks); lost tasks are reassigned after ``delay_ms``."""

    assigned: Holding = field(default_factory=dict)
    revoked: Holding = field(default_factory=dict)
    delay_ms: int = 0


def read_worker(data: bytes, protocol: str | None) -> dict[str, Any]:
    """Decode a worker's subscription: ``endpoint`` and its tasks (``owned``); empty bytes have no endpoint."""
    if not data:
        return {"owned": {}}
    fields = read_fields(_open(data, protocol), "workerState", _STATE_FIELDS)
    allocation = fields.pop("allocation", None)
    return fields | {"owned": {} if allocation is None else read_assignment(allocation, protocol).assigned}


def read_assignment(data: bytes, protocol: str | None) -> WorkerAssignment:
    """Decode a worker's assignment."""
    return WorkerAssignment(**read_fields(_open(data, protocol), "assignment", _ASSIGNMENT_FIELDS))


def running_tasks(owned: Holding, assignment: WorkerAssignment, protocol: str | None) -> Holding:
    """Return the tasks that a worker runs after a generation; ``owned``: the tasks that it ran before."""
    if SUBPROTOCOL_VERSIONS.get(protocol or "", 0) < _INCREMENTAL:
        return assignment.assigned
    kept = subtract(owned, assignment.revoked)
    return {name: list(tasks) for name, tasks in sorted(union(kept, assignment.assigned).items())}


def _open(data: bytes, protocol: str | None) -> Reader:
    """Return a reader of a worker's bytes after their version field; the protocol determines the layout's version."""
    if protocol not in SUBPROTOCOL_VERSIONS:
        raise MalformedRecord(f"protocol: {protocol!r} is not one of Connect's ({', '.join(SUBPROTOCOL_VERSIONS)})")
    reader = versioned(data)
    reader.version = SUBPROTOCOL_VERSIONS[protocol]
    return reader


def _read_optional(read: Decoder, default: Callable[[], Any]) -> Decoder:
    return lambda reader, what: read(reader, what) if reader.bytes_left or reader.version < _INCREMENTAL else default()


def _read_connect_work(reader: Reader, what: str) -> Holding:
    def connector() -> tuple[str, list[int]]:
        name = reader.string(f"{what}.connector")
        tasks = reader.array(f"{what}.tasks", lambda: reader.int32(f"{what}.tasks"))
        if tasks and min(tasks) < CONNECTOR:
            raise MalformedRecord(f"{what}.tasks: {min(tasks)} is not a task number")
        return name, tasks

    read = reader.nullable_array if reader.version >= _INCREMENTAL else reader.array
    return merged(read(what, connector) or ())


_STATE_FIELDS = (
    Field("url", Reader.string, "endpoint"),
    Field("configOffset", Reader.int64),
    Field("allocation", _read_optional(Reader.nullable_bytes, lambda: None), "allocation", since=_INCREMENTAL),
)
_ASSIGNMENT_FIELDS = (
    Field("error", Reader.int16),
    Field("leader", Reader.string),
    Field("leaderUrl", Reader.string),
    Field("configOffset", Reader.int64),
    Field("assignment", _read_optional(_read_connect_work, dict), "assigned"),
    Field("revoked", _read_optional(_read_connect_work, dict), "revoked", since=_INCREMENTAL),
    Field("delay", _read_optional(Reader.int32, lambda: 0), "delay_ms", since=_INCREMENTAL),
)
