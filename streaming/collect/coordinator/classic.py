"""Decodes classic groups: each record (type 2) is one generation, with every member's subscription and assignment."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType, structs

from streaming.collect.coordinator import connect, embedded
from streaming.collect.coordinator.schema import Field, MalformedMember, MalformedRecord, Reader, Value
from streaming.collect.coordinator.schema import structs as read_structs
from streaming.records.events import GroupObserved, Kind, ObservedMember


class ClassicGroup(NamedTuple):
    """A classic group's record: a snapshot without group id and time; None if the group was deleted."""

    group_id: str
    value: GroupObserved | None


def has_generation(group: GroupObserved) -> bool:
    """Return False before a classic group's first generation, while the group has only offsets."""
    return (group.generation or 0) > 0 or bool(group.members)


def keep_last_kind(before: GroupObserved | None, now: GroupObserved | None) -> GroupObserved | None:
    """Return the snapshot ``now``; if its group is empty, with the kind of the earlier snapshot ``before``."""
    if before is None or now is None or now.members or before.protocol_type != now.protocol_type:
        return now
    return structs.replace(now, kind=before.kind)


def _generation(
    members: list[dict[str, Any]], protocol_type: str, number: int, protocol: str | None, leader: str | None
) -> GroupObserved:
    kind: Kind | UnsetType = UNSET
    delays: list[int] = []
    if protocol_type == connect.CONNECT:
        kind, workers = "connect", [_read_worker(fields, protocol) for fields in members]
        observed, delays = [member for member, _ in workers], [delay for _, delay in workers]
    elif protocol_type == "consumer":
        kind = "streams" if protocol == embedded.STREAMS_ASSIGNOR else UNSET
        observed = [_read_consumer(fields, protocol) for fields in members]
    else:
        observed = [_member_without_metadata(fields) for fields in members]
    return GroupObserved(
        group_id="",
        timestamp=0,
        members=observed,
        generation=number,
        protocol_type=protocol_type or None,
        protocol=protocol,
        leader=leader,
        state="Stable" if observed else "Empty",
        kind=kind,
        delay_ms=max((delay for delay in delays if delay > 0), default=UNSET),
    )


def _read_consumer(fields: dict[str, Any], protocol: str | None) -> ObservedMember:
    subscription, assignment = fields.pop("subscription"), fields.pop("assignment")
    with _name_member_in_errors("subscription", fields["member_id"]):
        more = embedded.read_subscription(subscription, protocol)
    with _name_member_in_errors("assignment", fields["member_id"]):
        more |= embedded.read_assignment(assignment, protocol)
    return ObservedMember(**fields, **more)


def _read_worker(fields: dict[str, Any], protocol: str | None) -> tuple[ObservedMember, int]:
    """Return the worker that a Connect member's metadata describes, and the leader's delay (ms) for lost tasks."""
    subscription, assignment = fields.pop("subscription"), fields.pop("assignment")
    with _name_member_in_errors("subscription", fields["member_id"]):
        fields |= connect.read_worker(subscription, protocol)
    with _name_member_in_errors("assignment", fields["member_id"]):
        tasks = connect.read_assignment(assignment, protocol) if assignment else connect.WorkerAssignment()
    running = connect.running_tasks(fields["owned"], tasks, protocol)
    return ObservedMember(**fields, topics=[], assigned=running, pending_revocation=tasks.revoked), tasks.delay_ms


def _member_without_metadata(fields: dict[str, Any]) -> ObservedMember:
    """Return a member whose metadata are omitted, because the group's protocol type is unknown."""
    del fields["subscription"], fields["assignment"]
    return ObservedMember(**fields, topics=[], assigned={})


@contextmanager
def _name_member_in_errors(what: str, member_id: str) -> Iterator[None]:
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
GENERATION_VALUE = Value(
    "GroupMetadataValue",
    (*GROUP_FIELDS, Field("members", read_structs(*MEMBER_FIELDS), "members")),
    factory=_generation,
    newest=4,
    flexible=4,
    whole=True,
)
