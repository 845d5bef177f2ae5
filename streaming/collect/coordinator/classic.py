"""Classic groups: one record (type 2) is one generation, with what each consumer said and was assigned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from streaming.collect.coordinator.embedded import CONSUMER, Said, read_assignment, read_subscription
from streaming.collect.coordinator.schema import Field, Value, structs
from streaming.collect.encoding import MalformedRecord, Reader
from streaming.wire.events import GroupObserved, ObservedMember


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a classic group; what members say and are assigned is known of consumers only."""

    protocol_type: str
    number: int
    protocol: str | None
    leader: str | None
    members: tuple[ObservedMember, ...]


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """Type 2; without a value: the group is gone."""

    group_id: str
    value: Generation | None


def view(group_id: str, group: Generation, timestamp: int) -> GroupObserved | None:
    """The full view of a classic group; None before its first generation: it holds offsets, nobody has joined."""
    if group.number <= 0 and not group.members:
        return None
    return GroupObserved(
        group_id=group_id,
        timestamp=timestamp,
        members=list(group.members),
        generation=group.number,
        group_protocol="classic",
        protocol_type=group.protocol_type or None,
        protocol=group.protocol,
        leader=group.leader,
        state="Stable" if group.members else "Empty",
    )


def _generation(members: list[dict[str, Any]], **fields: Any) -> Generation:
    found = Generation(**fields, members=())
    return Generation(**fields, members=tuple(_member(one, found) for one in members))


def _member(fields: dict[str, Any], group: Generation) -> ObservedMember:
    subscription, assignment = fields.pop("subscription"), fields.pop("assignment")
    said, assigned = Said(), {}
    if group.protocol_type == CONSUMER:
        with _of_member("subscription", fields["member_id"]):
            said = read_subscription(subscription, group.protocol)
        with _of_member("assignment", fields["member_id"]):
            assigned = read_assignment(assignment)
    return ObservedMember(
        topics=list(said.topics),
        assigned=assigned,
        owned=said.owned,
        owned_generation=said.owned_generation,
        rack_id=said.rack_id,
        **fields,
    )


@contextmanager
def _of_member(what: str, member_id: str) -> Iterator[None]:
    """Says in a refusal whose bytes are meant."""
    try:
        yield
    except MalformedRecord as error:
        raise MalformedRecord(f"{what} of member {member_id}: {error}") from error


def _bytes(reader: Reader, what: str) -> bytes:
    return reader.nullable_bytes(what) or b""


GENERATION = Value(
    "GroupMetadataValue",
    (
        Field("protocolType", Reader.string, "protocol_type"),
        Field("generation", Reader.int32, "number"),
        Field("protocol", Reader.nullable_string, "protocol"),
        Field("leader", Reader.nullable_string, "leader"),
        Field("currentStateTimestamp", Reader.int64, since=2),
        Field(
            "members",
            structs(
                Field("memberId", Reader.string, "member_id"),
                Field("groupInstanceId", Reader.nullable_string, "group_instance_id", since=3),
                Field("clientId", Reader.string, "client_id"),
                Field("clientHost", Reader.string, "client_host"),
                Field("rebalanceTimeout", Reader.int32, "rebalance_timeout_ms", since=1),
                Field("sessionTimeout", Reader.int32, "session_timeout_ms"),
                Field("subscription", _bytes, "subscription"),
                Field("assignment", _bytes, "assignment"),
            ),
            "members",
        ),
    ),
    make=_generation,
    newest=4,
    flexible=4,
)
