"""Classic groups: one record (type 2) is one generation, with what each consumer said and was assigned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET

from streaming.collect.coordinator import connect, embedded, streams_data
from streaming.collect.coordinator.connect import CONNECT
from streaming.collect.coordinator.embedded import CONSUMER
from streaming.collect.coordinator.schema import Field, Value, structs
from streaming.collect.coordinator.streams_data import STREAM
from streaming.collect.encoding import MalformedMember, MalformedRecord, Reader
from streaming.wire.events import GroupObserved, Kind, ObservedMember


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a classic group; what members say and are assigned is known of consumers and Connect only.

    ``delay_ms``: how long Connect's lost tasks still wait for their worker; None where there is no such delay.
    """

    protocol_type: str
    number: int
    protocol: str | None
    leader: str | None
    members: tuple[ObservedMember, ...]
    kind: Kind = "consumer"
    delay_ms: int | None = None


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
        kind=UNSET if group.kind == "consumer" else group.kind,
        delay_ms=UNSET if group.delay_ms is None else group.delay_ms,
    )


def following(before: Generation | None, now: Generation | None) -> Generation | None:
    """``now`` as it follows ``before``: a group whose last member left has no protocol any more, but its kind."""
    if before is None or now is None or now.members or before.protocol_type != now.protocol_type:
        return now
    return replace(now, kind=before.kind)


def _generation(members: list[dict[str, Any]], **fields: Any) -> Generation:
    found = Generation(**fields, members=())
    if found.protocol_type == CONNECT:
        return _workers(found, members)
    if found.protocol_type != CONSUMER:
        return replace(found, members=tuple(_member(one, topics=[], assigned={}) for one in members))
    kind: Kind = "streams" if found.protocol == STREAM else "consumer"
    return replace(found, kind=kind, members=tuple(_consumer(one, found.protocol) for one in members))


def _member(fields: dict[str, Any], **more: Any) -> ObservedMember:
    known = {name: value for name, value in fields.items() if name not in ("subscription", "assignment")}
    return ObservedMember(**known, **more)


def _consumer(fields: dict[str, Any], protocol: str | None) -> ObservedMember:
    more: dict[str, Any] = {}
    with _of_member("subscription", fields["member_id"]):
        said = embedded.read_subscription(fields["subscription"], protocol)
        instance = streams_data.read_instance(said.user_data) if protocol == STREAM else None
        if instance is not None:
            more["process_id"] = instance.process_id
            more |= {} if instance.endpoint is None else {"endpoint": instance.endpoint}
    with _of_member("assignment", fields["member_id"]):
        assigned, user_data = embedded.read_given(fields["assignment"])
        given = streams_data.read_given(user_data) if protocol == STREAM else None
        if given is not None:
            more["standby"] = given.standby
            more |= {} if given.next_rebalance_ms is None else {"next_rebalance_ms": given.next_rebalance_ms}
    return _member(
        fields,
        topics=list(said.topics),
        assigned=assigned,
        owned=said.owned,
        owned_generation=said.owned_generation,
        rack_id=said.rack_id,
        **more,
    )


def _workers(group: Generation, members: list[dict[str, Any]]) -> Generation:
    found, delays = [], []
    for fields in members:
        with _of_member("subscription", fields["member_id"]):
            worker = connect.read_worker(fields["subscription"], group.protocol)
        with _of_member("assignment", fields["member_id"]):
            given = connect.read_assignment(fields["assignment"], group.protocol)
        delays.append(given.delay_ms)
        found.append(
            _member(
                fields,
                topics=[],
                assigned=connect.runs(worker, given, group.protocol),
                owned=worker.owned,
                pending_revocation=given.revoked,
                endpoint=UNSET if worker.url is None else worker.url,
            )
        )
    delay = max(delays, default=0)
    return replace(group, kind="connect", members=tuple(found), delay_ms=delay if delay > 0 else None)


@contextmanager
def _of_member(what: str, member_id: str) -> Iterator[None]:
    """Says in a refusal whose bytes are meant."""
    try:
        yield
    except MalformedRecord as error:
        raise MalformedMember(f"{what} of member {member_id}: {error}") from error


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
    whole=True,
)
