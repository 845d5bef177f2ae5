"""Decodes classic groups: each record (type 2) is one generation, with every member's subscription and assignment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from msgspec import UNSET

from streaming.collect.coordinator import connect, embedded, streams_data
from streaming.collect.coordinator.connect import CONNECT
from streaming.collect.coordinator.embedded import CONSUMER
from streaming.collect.coordinator.schema import Field, MalformedMember, MalformedRecord, Reader, Value, structs
from streaming.collect.coordinator.streams_data import STREAM
from streaming.records.events import GroupObserved, Kind, ObservedMember


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a classic group; subscriptions and assignments are decoded only for consumers and Connect.

    ``delay_ms``: Connect's remaining delay before it reassigns lost tasks; None if there is no delay.
    """

    protocol_type: str
    number: int
    protocol: str | None
    leader: str | None
    members: tuple[ObservedMember, ...]
    kind: Kind = "consumer"
    delay_ms: int | None = None


class ClassicGroup(NamedTuple):
    """A record of type 2; its value is None if the group was deleted."""

    group_id: str
    value: Generation | None


def view(group_id: str, group: Generation, timestamp: int) -> GroupObserved | None:
    """Return a snapshot of a classic group; None before its first generation, while the group only has offsets."""
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


def with_last_kind(before: Generation | None, now: Generation | None) -> Generation | None:
    """Return ``now``, with the kind of ``before`` if ``now`` has no members: an empty group has no protocol name."""
    if before is None or now is None or now.members or before.protocol_type != now.protocol_type:
        return now
    return replace(now, kind=before.kind)


def _generation(members: list[dict[str, Any]], **fields: Any) -> Generation:
    generation = Generation(**fields, members=())
    protocol = generation.protocol
    if generation.protocol_type == CONNECT:
        return _workers(generation, members)
    if generation.protocol_type == CONSUMER:
        kind: Kind = "streams" if protocol == STREAM else "consumer"
        return replace(generation, kind=kind, members=tuple(_consumer(member, protocol) for member in members))
    return replace(generation, members=tuple(_member(member, topics=[], assigned={}) for member in members))


def _member(fields: dict[str, Any], **more: Any) -> ObservedMember:
    identity = {name: value for name, value in fields.items() if name not in ("subscription", "assignment")}
    return ObservedMember(**identity, **more)


def _consumer(fields: dict[str, Any], protocol: str | None) -> ObservedMember:
    more: dict[str, Any] = {}
    with _naming("subscription", fields["member_id"]):
        subscription = embedded.read_subscription(fields["subscription"], protocol)
        instance = streams_data.read_instance(subscription.user_data) if protocol == STREAM else None
        if instance is not None:
            more |= instance._asdict()
    with _naming("assignment", fields["member_id"]):
        assigned, user_data = embedded.read_assignment(fields["assignment"])
        tasks = streams_data.read_assigned_tasks(user_data) if protocol == STREAM else None
        if tasks is not None:
            more |= tasks._asdict()
    return _member(
        fields,
        topics=list(subscription.topics),
        assigned=assigned,
        owned=subscription.owned,
        owned_generation=subscription.owned_generation,
        rack_id=subscription.rack_id,
        **more,
    )


def _workers(group: Generation, members: list[dict[str, Any]]) -> Generation:
    workers, delays = [], []
    for fields in members:
        with _naming("subscription", fields["member_id"]):
            worker = connect.read_worker(fields["subscription"], group.protocol)
        with _naming("assignment", fields["member_id"]):
            assignment = connect.read_assignment(fields["assignment"], group.protocol)
        delays.append(assignment.delay_ms)
        workers.append(
            _member(
                fields,
                topics=[],
                assigned=connect.running_tasks(worker, assignment, group.protocol),
                owned=worker.owned,
                pending_revocation=assignment.revoked,
                endpoint=UNSET if worker.url is None else worker.url,
            )
        )
    delay = max(delays, default=0)
    return replace(group, kind="connect", members=tuple(workers), delay_ms=delay if delay > 0 else None)


@contextmanager
def _naming(what: str, member_id: str) -> Iterator[None]:
    try:
        yield
    except MalformedRecord as error:
        raise MalformedMember(f"{what} of member {member_id}: {error}") from error


GROUP_FIELDS = (
    Field("protocolType", Reader.string, "protocol_type"),
    Field("generation", Reader.int32, "number"),
    Field("protocol", Reader.nullable_string, "protocol"),
    Field("leader", Reader.nullable_string, "leader"),
    Field("currentStateTimestamp", Reader.int64, since=2),
)
MEMBER_FIELDS = (
    Field("memberId", Reader.string, "member_id"),
    Field("groupInstanceId", Reader.nullable_string, "group_instance_id", since=3),
    Field("clientId", Reader.string, "client_id"),
    Field("clientHost", Reader.string, "client_host"),
    Field("rebalanceTimeout", Reader.int32, "rebalance_timeout_ms", since=1),
    Field("sessionTimeout", Reader.int32, "session_timeout_ms"),
    Field("subscription", lambda reader, what: reader.nullable_bytes(what) or b"", "subscription"),
    Field("assignment", lambda reader, what: reader.nullable_bytes(what) or b"", "assignment"),
)
GENERATION = Value(
    "GroupMetadataValue",
    (*GROUP_FIELDS, Field("members", structs(*MEMBER_FIELDS), "members")),
    make=_generation,
    newest=4,
    flexible=4,
    whole=True,
)
