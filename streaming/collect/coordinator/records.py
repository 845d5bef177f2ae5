"""The record types of ``__consumer_offsets``, and the decoder of their records.

A key begins with its record type as int16 and the group id, a value with its version; a value of None is a
tombstone. Types missing in :data:`_TYPES` (partition metadata, share state) are not decoded.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from streaming.collect.coordinator import classic, modern, schema
from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.modern import STABLE, EpochGroupKind, GroupRecordPart
from streaming.collect.coordinator.schema import Decoder, Field, Reader, Value, strings, structs
from streaming.records.events import ObservedMember

OFFSETS_TOPIC = "__consumer_offsets"
_COMMIT_TYPES = (b"\x00\x00", b"\x00\x01")
#: The length in bytes of an offset commit's key with empty names.
_MIN_KEY_BYTES = 10
#: Length without metadata of OffsetCommitValue 3, as Kafka 2.1 to 4.x write it: int16 version, int64 offset, int32
#: leaderEpoch, metadata as a string after its int16 length (-1: null), int64 commitTimestamp.
_PLAIN_VALUE_BYTES = 24
_NULL = 0xFFFF


class RawRecord(NamedTuple):
    """One record of the offsets topic; ``timestamp`` is in ms, and ``leader_epoch`` is −1 if unknown."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int = -1


class OffsetCommit(NamedTuple):
    """An offset commit (types 0 and 1); ``timestamp`` (ms) is None if the offset was removed."""

    group_id: str
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None = None


CoordinatorRecord = OffsetCommit | ClassicGroup | GroupRecordPart


class _RecordType(NamedTuple):
    """One record type of ``__consumer_offsets``; ``factory`` gets the group id, the other key fields, and the value."""

    factory: Callable[..., CoordinatorRecord]
    value: Value
    key: tuple[Field, ...] = ()


_COMMIT_TYPE = _RecordType(
    lambda value, **key_fields: OffsetCommit(**key_fields, **(value or {"timestamp": None})),
    Value(
        "OffsetCommitValue",
        (
            Field("offset", Reader.int64, "offset"),
            Field("leaderEpoch", Reader.int32, since=3),
            Field("metadata", Reader.nullable_string),
            Field("commitTimestamp", Reader.int64, "timestamp"),
        ),
        factory=dict,
        newest=4,
        flexible=4,
    ),
    (Field("topic", Reader.string, "topic"), Field("partition", Reader.int32, "partition")),
)


def _partitions_reader(name: str, read: Decoder) -> Decoder:
    entries = structs(
        Field(name, read, "key"),
        Field("partitions", Reader.partitions, "numbers"),
        factory=lambda key, numbers: (key, tuple(sorted(numbers))),
    )
    return lambda reader, what: dict(entries(reader, what))


_PARTITIONS = _partitions_reader("topicId", Reader.uuid)
_TASKS = _partitions_reader("subtopologyId", Reader.string)


def _session_timeout(reader: Reader, what: str) -> int | None:
    # A nullable struct in a tagged field begins with a varint, 0 for null. Taken from records of Kafka 4.3.1.
    return reader.int32(f"{what}.sessionTimeoutMs") if reader.varint(what) else None


def _endpoint(reader: Reader, what: str) -> str | UnsetType:
    """Read a nullable struct with host and port; its first byte is negative for null."""
    if reader.int8(what) < 0:
        return UNSET
    host, port = reader.string(f"{what}.host"), reader.int16(f"{what}.port") & 0xFFFF
    reader.tagged_fields()
    return f"{host}:{port}"


_INDEXES = Field("indexes", lambda reader, what: reader.array(what, lambda: reader.int16(what)))
_TOPIC_NAMES = structs(
    Field("name", Reader.string, "name"),
    Field("partitions", Reader.int32),
    Field("replicationFactor", Reader.int16),
    Field("topicConfigs", structs(Field("key", Reader.string), Field("value", Reader.string))),
    factory=lambda name: name,
)
_SUBTOPOLOGIES = structs(
    Field("subtopologyId", Reader.string),
    Field("sourceTopics", strings, "sources"),
    Field("sourceTopicRegex", strings),
    Field("stateChangelogTopics", _TOPIC_NAMES),
    Field("repartitionSinkTopics", strings),
    Field("repartitionSourceTopics", _TOPIC_NAMES, "repartitions"),
    # Each has indexes of sourceTopics, sourceTopicRegex and repartitionSourceTopics.
    Field("copartitionGroups", structs(_INDEXES, _INDEXES, _INDEXES)),
    factory=lambda sources, repartitions: (*sources, *repartitions),
)


def _source_topics(reader: Reader, what: str) -> tuple[str, ...]:
    """Return the topics that a topology's subtopologies read, ascending, without topics of patterns."""
    return tuple(sorted({topic for topics in _SUBTOPOLOGIES(reader, what) for topic in topics}))


def _metadata(
    topics: tuple[str, ...] = (), regex: str | None = None, server_assignor: str | None = None, **identity: Any
) -> modern.MemberMetadata:
    member = ObservedMember(member_id="", topics=[*topics], assigned={}, **identity)
    return modern.MemberMetadata(member, regex, server_assignor)


_INSTANCE_ID = Field("instanceId", Reader.nullable_string, "group_instance_id")
_RACK = Field("rackId", Reader.nullable_string, "rack_id")
_CLIENT_FIELDS = (Field("clientId", Reader.string, "client_id"), Field("clientHost", Reader.string, "client_host"))
_TOPICS = Field("subscribedTopicNames", strings, "topics")
_REBALANCE_TIMEOUT = Field("rebalanceTimeoutMs", Reader.int32, "rebalance_timeout_ms")
_EPOCH_FIELD = Field("epoch", Reader.int32, "value")
_TARGET_EPOCH = Field("assignmentEpoch", Reader.int32, "value")
_TARGET_PARTITIONS = Field("topicPartitions", _PARTITIONS, "value")
_ASSIGNED_FIELD = Field("assignedPartitions", _PARTITIONS, "active")
_TASK_FIELDS = tuple(Field(f"{role}Tasks", _TASKS, role) for role in ("active", "standby", "warmup"))


def _only_field(value: Any) -> Any:
    return value


_MEMBER = (Field("memberId", Reader.string, "key"),)
#: A group's part → its name in that of the record type, the key's fields, and the constructor of the value.
_PARTS: dict[str, tuple[str, tuple[Field, ...], Callable[..., Any]]] = {
    "epoch": ("Metadata", (), _only_field),
    "subscriptions": ("MemberMetadata", _MEMBER, _metadata),
    "target_epoch": ("TargetAssignmentMetadata", (), _only_field),
    "targets": ("TargetAssignmentMember", _MEMBER, _only_field),
    "assignments": ("CurrentMemberAssignment", _MEMBER, modern.CurrentMemberAssignment),
    "regexes": ("RegularExpression", (Field("regularExpression", Reader.string, "key"),), _only_field),
    "topology": ("Topology", (), modern.Topology),
}


def _record(kind: EpochGroupKind, part: str, *fields: Field, **more: Any) -> _RecordType:
    name, key, factory = _PARTS[part]
    value = Value(f"{kind.capitalize()}Group{name}Value", fields, **{"factory": factory, **more})
    return _RecordType(partial(GroupRecordPart, kind=kind, part=part), value, key)


def _progress(*names: str) -> tuple[Field, ...]:
    states = dict(enumerate(names))
    return (
        Field("memberEpoch", Reader.int32, "member_epoch"),
        Field("previousMemberEpoch", Reader.int32, "previous_member_epoch"),
        Field("state", lambda reader, what: states.get(reader.int8(what), "UNKNOWN"), "state"),
    )


_TYPES = {
    0: _COMMIT_TYPE,
    1: _COMMIT_TYPE,
    2: _RecordType(ClassicGroup, classic.GENERATION_VALUE),
    3: _record("consumer", "epoch", _EPOCH_FIELD),
    5: _record(
        "consumer",
        "subscriptions",
        _INSTANCE_ID,
        _RACK,
        *_CLIENT_FIELDS,
        _TOPICS,
        Field("subscribedTopicRegex", lambda reader, what: reader.nullable_string(what) or None, "regex"),
        _REBALANCE_TIMEOUT,
        Field("serverAssignor", Reader.nullable_string, "server_assignor"),
        tags={0: Field("classicMemberMetadata", _session_timeout, "session_timeout_ms")},
    ),
    6: _record("consumer", "target_epoch", _TARGET_EPOCH),
    7: _record("consumer", "targets", _TARGET_PARTITIONS),
    8: _record(
        "consumer",
        "assignments",
        *_progress(STABLE, "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"),
        _ASSIGNED_FIELD,
        Field("partitionsPendingRevocation", _PARTITIONS, "pending_revocation"),
    ),
    10: _record("share", "subscriptions", _RACK, *_CLIENT_FIELDS, _TOPICS),
    11: _record("share", "epoch", _EPOCH_FIELD),
    12: _record("share", "target_epoch", _TARGET_EPOCH),
    13: _record("share", "targets", _TARGET_PARTITIONS),
    14: _record("share", "assignments", *_progress(STABLE), _ASSIGNED_FIELD),
    16: _record("consumer", "regexes", Field("topics", strings, "value")),
    17: _record(
        "streams",
        "epoch",
        Field("epoch", Reader.int32, "number"),
        Field("metadataHash", Reader.int64),
        factory=modern.StreamsEpoch,
        tags={0: Field("validatedTopologyEpoch", Reader.int32, "validated_topology")},
    ),
    19: _record(
        "streams",
        "subscriptions",
        _INSTANCE_ID,
        _RACK,
        *_CLIENT_FIELDS,
        _REBALANCE_TIMEOUT,
        Field("topologyEpoch", Reader.int32),
        Field("processId", Reader.string, "process_id"),
        Field("userEndpoint", _endpoint, "endpoint"),
    ),
    20: _record("streams", "target_epoch", _TARGET_EPOCH),
    21: _record("streams", "targets", Field("activeTasks", _TASKS, "value")),
    22: _record(
        "streams",
        "assignments",
        *_progress("UNKNOWN", STABLE, "UNREVOKED_TASKS", "UNRELEASED_TASKS"),
        *_TASK_FIELDS,
        Field("activeTasksPendingRevocation", _TASKS, "pending_revocation"),
    ),
    23: _record(
        "streams", "topology", Field("epoch", Reader.int32, "epoch"), Field("subtopologies", _source_topics, "topics")
    ),
}


def decode(
    key: bytes | None, value: bytes | None, is_wanted: Callable[[str], bool] = lambda _: True
) -> CoordinatorRecord | None:
    """Decode one record; return None for unused types and unwanted groups, but decode every plain offset commit.

    Raises:
        NewerRecord: the type, or the value's version, is newer than Kafka 4.3.
        MalformedRecord: key or value is malformed; the message names the field. Malformed bytes raise no other error.
    """
    return read_plain_commit(key, value) or decode_slowly(key, value, is_wanted)


def decode_slowly(key: bytes | None, value: bytes | None, is_wanted: Callable[[str], bool]) -> CoordinatorRecord | None:
    """Decode one record of any type with the table of its fields; :func:`decode` describes result and errors."""
    if key is None or len(key) < len(_COMMIT_TYPES[0]):
        raise schema.MalformedRecord(f"key: {key!r} has no record type")
    reader = Reader(key)
    number = reader.int16("key.type")
    kind = _TYPES.get(number)
    if kind is None and number > max(_TYPES):
        raise schema.NewerRecord(f"record type {number}")
    if kind is None:
        return None
    group_id = reader.string("key.group")
    if not is_wanted(group_id):
        return None
    key_fields = schema.read_fields(reader, "key", kind.key)
    return kind.factory(group_id=group_id, value=None if value is None else kind.value.read(value), **key_fields)


def read_plain_commit(key: bytes | None, value: bytes | None) -> OffsetCommit | None:
    """Read an offset commit or its tombstone in the current layout with ASCII names; None for other records.

    Nearly all records of the topic are such commits, and this function is ten times as fast as the general decoder.
    """
    if key is None or len(key) < _MIN_KEY_BYTES or key[:2] not in _COMMIT_TYPES or not key[4:-4].isascii():
        return None
    topic_start = 6 + (key[2] << 8 | key[3])
    if len(key) < topic_start + 4 or topic_start + (key[topic_start - 2] << 8 | key[topic_start - 1]) + 4 != len(key):
        return None
    timestamp = offset = None
    if value is not None:
        if value[:2] != b"\x00\x03" or len(value) < _PLAIN_VALUE_BYTES:
            return None
        metadata = value[14] << 8 | value[15]
        if len(value) != _PLAIN_VALUE_BYTES + (0 if metadata == _NULL else metadata) or not value[16:-8].isascii():
            return None
        timestamp = int.from_bytes(value[-8:], signed=True)
        offset = int.from_bytes(value[2:10], signed=True)
    group_id, topic = key[4 : topic_start - 2].decode(), key[topic_start:-4].decode()
    return OffsetCommit(group_id, topic, int.from_bytes(key[-4:], signed=True), timestamp, offset)
