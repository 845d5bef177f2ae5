"""The records of ``__consumer_offsets`` as types, and their bytes read.

Field names, versions and order: ``group-coordinator/src/main/resources/common/message`` of Apache Kafka 4.3.
A key starts with its record type as int16, a value with its version. A value of None is a tombstone. Types that
say nothing about members (share and streams groups, partition metadata) are read as :class:`Other`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct

from streaming.collect.embedded import CONSUMER, Said, read_assignment, read_subscription
from streaming.collect.encoding import MalformedRecord, Reader
from streaming.wire.events import Partitions

#: ``{topic id: partitions}``.
IdPartitions = dict[str, tuple[int, ...]]

OFFSET_COMMIT_TYPES = (0, 1)
_TYPE = Struct(">h")
#: First flexible version of a value; types 3 and above have one version, flexible.
_GROUP_METADATA_FLEXIBLE = 4
_OFFSET_COMMIT_FLEXIBLE = 4
_STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Types 0 and 1: a committed offset; ``timestamp`` (ms) None: it was removed."""

    group_id: str
    topic: str
    partition: int
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member in :class:`ClassicGeneration`; what it ``said`` and is ``assigned`` is known of consumers only."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int | None
    session_timeout_ms: int
    said: Said
    assigned: Partitions


@dataclass(frozen=True, slots=True)
class ClassicGeneration:
    """The value of type 2: one generation of a classic group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[ClassicMember, ...]


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """Type 2."""

    group_id: str
    value: ClassicGeneration | None


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """Type 3: the group epoch of a consumer group (KIP-848)."""

    group_id: str
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Subscription:
    """The value of type 5: a member and what it subscribes to."""

    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    session_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """Type 5."""

    group_id: str
    member_id: str
    value: Subscription | None


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """Type 6: the group epoch that the target assignment was computed for."""

    group_id: str
    epoch: int | None


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """Type 7: what a member shall own."""

    group_id: str
    member_id: str
    partitions: IdPartitions | None


@dataclass(frozen=True, slots=True)
class Current:
    """The value of type 8: what a member owns and still has to give up."""

    member_epoch: int
    previous_member_epoch: int
    state: str
    assigned: IdPartitions
    pending_revocation: IdPartitions


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """Type 8."""

    group_id: str
    member_id: str
    value: Current | None


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """Type 16: the topics that a subscribed pattern stands for now."""

    group_id: str
    regex: str
    topics: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Other:
    """A record of a type, or of a group, that is not used here."""

    type: int


Record = (
    OffsetCommit
    | ClassicGroup
    | GroupEpoch
    | MemberSubscription
    | TargetEpoch
    | TargetAssignment
    | CurrentAssignment
    | ResolvedRegex
    | Other
)


def decode(key: bytes | None, value: bytes | None, wanted: Callable[[str], bool] = lambda _: True) -> Record:
    """The record in these bytes.

    Args:
        key: the record's key.
        value: its value; None for a tombstone.
        wanted: whether a group's records are to be read; of others only the key is.

    Raises:
        MalformedRecord: key or value does not follow the layout of its type and version, or has a version that is
            not known; the message names the field. Nothing else is raised, whatever the bytes.
    """
    if key is None or len(key) < _TYPE.size:
        raise MalformedRecord(f"key: {key!r} has no record type")
    kind: int = _TYPE.unpack_from(key)[0]
    reading = _DECODERS.get(kind)
    if reading is None:
        return Other(kind)
    reader = Reader(key)
    reader.int16("key.type")
    group_id = reader.string("key.group")
    return reading(group_id, reader, value) if wanted(group_id) else Other(kind)


def _open(value: bytes, what: str, known: int, flexible: int) -> tuple[Reader, int]:
    """A reader behind the version, and the version."""
    reader = Reader(value)
    version = reader.int16(f"{what}.version")
    if not 0 <= version <= known:
        raise MalformedRecord(f"{what}.version: {version} is not known (0 to {known})")
    reader.flexible = version >= flexible
    return reader, version


def _offset_commit(group_id: str, key: Reader, value: bytes | None) -> OffsetCommit:
    where = group_id, key.string("key.topic"), key.int32("key.partition")
    if value is None:
        return OffsetCommit(*where, None)
    reader, version = _open(value, "OffsetCommitValue", 4, _OFFSET_COMMIT_FLEXIBLE)
    reader.int64("OffsetCommitValue.offset")
    if version >= 3:  # noqa: PLR2004 - versions as in OffsetCommitValue.json
        reader.int32("OffsetCommitValue.leaderEpoch")
    reader.nullable_string("OffsetCommitValue.metadata")
    return OffsetCommit(*where, reader.int64("OffsetCommitValue.commitTimestamp"))


def _classic_group(group_id: str, key: Reader, value: bytes | None) -> ClassicGroup:
    del key  # the group alone
    if value is None:
        return ClassicGroup(group_id, None)
    reader, version = _open(value, "GroupMetadataValue", 4, _GROUP_METADATA_FLEXIBLE)
    protocol_type = reader.string("GroupMetadataValue.protocolType")
    generation = reader.int32("GroupMetadataValue.generation")
    protocol = reader.nullable_string("GroupMetadataValue.protocol")
    leader = reader.nullable_string("GroupMetadataValue.leader")
    if version >= 2:  # noqa: PLR2004 - versions as in GroupMetadataValue.json
        reader.int64("GroupMetadataValue.currentStateTimestamp")
    members = reader.array(
        "GroupMetadataValue.members",
        lambda: _classic_member(reader, version, consumer=protocol_type == CONSUMER, protocol=protocol),
    )
    return ClassicGroup(
        group_id, ClassicGeneration(protocol_type, generation, protocol, leader, tuple(members))
    )


def _classic_member(reader: Reader, version: int, *, consumer: bool, protocol: str | None) -> ClassicMember:
    member_id = reader.string("members.memberId")
    instance_id = reader.nullable_string("members.groupInstanceId") if version >= 3 else None  # noqa: PLR2004
    client_id, client_host = reader.string("members.clientId"), reader.string("members.clientHost")
    rebalance_timeout_ms = reader.int32("members.rebalanceTimeout") if version >= 1 else None
    session_timeout_ms = reader.int32("members.sessionTimeout")
    subscription = reader.nullable_bytes("members.subscription") or b""
    assignment = reader.nullable_bytes("members.assignment") or b""
    reader.tagged()
    said, assigned = Said(), {}
    if consumer:
        with _of_member("subscription", member_id):
            said = read_subscription(subscription, protocol)
        with _of_member("assignment", member_id):
            assigned = read_assignment(assignment)
    return ClassicMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        said,
        assigned,
    )


@contextmanager
def _of_member(what: str, member_id: str) -> Iterator[None]:
    """Says in a refusal whose bytes are meant."""
    try:
        yield
    except MalformedRecord as error:
        raise MalformedRecord(f"{what} of member {member_id}: {error}") from error


def _group_epoch(group_id: str, key: Reader, value: bytes | None) -> GroupEpoch:
    del key  # the group alone
    if value is None:
        return GroupEpoch(group_id, None)
    reader, _ = _open(value, "ConsumerGroupMetadataValue", 0, 0)
    return GroupEpoch(group_id, reader.int32("ConsumerGroupMetadataValue.epoch"))


def _member_subscription(group_id: str, key: Reader, value: bytes | None) -> MemberSubscription:
    who = group_id, key.string("key.memberId")
    if value is None:
        return MemberSubscription(*who, None)
    name = "ConsumerGroupMemberMetadataValue"
    reader, _ = _open(value, name, 0, 0)
    instance = reader.nullable_string(f"{name}.instanceId")
    rack = reader.nullable_string(f"{name}.rackId")
    client, host = reader.string(f"{name}.clientId"), reader.string(f"{name}.clientHost")
    topics = reader.nullable_array(
        f"{name}.subscribedTopicNames", lambda: reader.string(f"{name}.subscribedTopicNames")
    )
    regex = reader.nullable_string(f"{name}.subscribedTopicRegex")
    timeout = reader.int32(f"{name}.rebalanceTimeoutMs")
    assignor = reader.nullable_string(f"{name}.serverAssignor")
    classic = reader.tagged().get(0)
    session: int | None = None
    if classic is not None:  # a classic member in a group that is being migrated
        inner = Reader(classic, flexible=True)
        # A nullable struct in a tagged field opens with a varint: 0 for null. Seen in records of 4.3.1.
        if inner.varint(f"{name}.classicMemberMetadata"):
            session = inner.int32(f"{name}.classicMemberMetadata.sessionTimeoutMs")
    value_read = Subscription(
        instance, rack, client, host, tuple(topics or ()), regex or None, timeout, assignor, session
    )
    return MemberSubscription(*who, value_read)


def _target_epoch(group_id: str, key: Reader, value: bytes | None) -> TargetEpoch:
    del key  # the group alone
    if value is None:
        return TargetEpoch(group_id, None)
    name = "ConsumerGroupTargetAssignmentMetadataValue"
    reader, _ = _open(value, name, 0, 0)
    return TargetEpoch(group_id, reader.int32(f"{name}.assignmentEpoch"))


def _target_assignment(group_id: str, key: Reader, value: bytes | None) -> TargetAssignment:
    who = group_id, key.string("key.memberId")
    if value is None:
        return TargetAssignment(*who, None)
    name = "ConsumerGroupTargetAssignmentMemberValue"
    reader, _ = _open(value, name, 0, 0)
    return TargetAssignment(*who, _partitions(reader, f"{name}.topicPartitions"))


def _current_assignment(group_id: str, key: Reader, value: bytes | None) -> CurrentAssignment:
    who = group_id, key.string("key.memberId")
    if value is None:
        return CurrentAssignment(*who, None)
    name = "ConsumerGroupCurrentMemberAssignmentValue"
    reader, _ = _open(value, name, 0, 0)
    epoch, previous = reader.int32(f"{name}.memberEpoch"), reader.int32(f"{name}.previousMemberEpoch")
    state = _STATES.get(reader.int8(f"{name}.state"), "UNKNOWN")
    assigned = _partitions(reader, f"{name}.assignedPartitions")
    pending = _partitions(reader, f"{name}.partitionsPendingRevocation")
    return CurrentAssignment(*who, Current(epoch, previous, state, assigned, pending))


def _partitions(reader: Reader, what: str) -> IdPartitions:
    def topic() -> tuple[str, tuple[int, ...]]:
        topic_id = reader.uuid(f"{what}.topicId")
        numbers = reader.partitions(f"{what}.partitions")
        reader.tagged()
        return topic_id, tuple(sorted(numbers))

    return dict(reader.nullable_array(what, topic) or ())


def _resolved_regex(group_id: str, key: Reader, value: bytes | None) -> ResolvedRegex:
    which = group_id, key.string("key.regularExpression")
    if value is None:
        return ResolvedRegex(*which, None)
    name = "ConsumerGroupRegularExpressionValue"
    reader, _ = _open(value, name, 0, 0)
    return ResolvedRegex(
        *which, tuple(reader.array(f"{name}.topics", lambda: reader.string(f"{name}.topics")))
    )


_DECODERS: dict[int, Callable[[str, Reader, bytes | None], Record]] = {
    0: _offset_commit,
    1: _offset_commit,
    2: _classic_group,
    3: _group_epoch,
    5: _member_subscription,
    6: _target_epoch,
    7: _target_assignment,
    8: _current_assignment,
    16: _resolved_regex,
}
