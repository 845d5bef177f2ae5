"""The record types of ``__consumer_offsets``, and their bytes read.

A key starts with its record type as int16 and the group id, a value with its version; a value of None is a
tombstone. Types that are not in :data:`_TYPES` (partition metadata, share state, those to come) are :class:`Other`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from streaming.collect.coordinator import classic, consumer, share, streams
from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.consumer import ConsumerGroupPart
from streaming.collect.coordinator.parts import GroupPart
from streaming.collect.coordinator.schema import Field, Value, read_fields
from streaming.collect.coordinator.share import ShareGroupPart
from streaming.collect.coordinator.streams import StreamsGroupPart
from streaming.collect.encoding import MalformedRecord, Reader

_TYPE = Struct(">h")
#: How keys of offset commits begin.
_COMMITS = (b"\x00\x00", b"\x00\x01")
#: Of one with empty names.
_SHORTEST_KEY = 10
#: OffsetCommitValue 3, as Kafka 2.1 to 4.x write it: int16 version, int64 offset, int32 leaderEpoch, metadata as a
#: string behind its int16 length (-1: null), int64 commitTimestamp; its length without metadata.
_PLAIN_VALUE = b"\x00\x03"
_PLAIN_BYTES = 24
_NULL = 0xFFFF


class OffsetCommit(NamedTuple):
    """Types 0 and 1: a committed offset; ``timestamp`` (ms) None: it was removed."""

    group_id: str
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Other:
    """A record of a type, or of a group, that is not used here."""

    type: int


CoordinatorRecord = OffsetCommit | ClassicGroup | GroupPart | Other


@dataclass(frozen=True, slots=True)
class _Type:
    """One record type: ``make`` is called with the group id, the key's further fields and the value."""

    make: Callable[..., CoordinatorRecord]
    value: Value
    key: tuple[Field, ...] = ()


def _part(group: type[GroupPart], part: str, value: Value, *key: Field) -> _Type:
    return _Type(partial(group, part=part), value, key)


def _commit(value: tuple[int, int] | None, **where: Any) -> OffsetCommit:
    timestamp, offset = (None, None) if value is None else value
    return OffsetCommit(timestamp=timestamp, offset=offset, **where)


_COMMIT = _Type(
    _commit,
    Value(
        "OffsetCommitValue",
        (
            Field("offset", Reader.int64, "offset"),
            Field("leaderEpoch", Reader.int32, since=3),
            Field("metadata", Reader.nullable_string),
            Field("commitTimestamp", Reader.int64, "timestamp"),
        ),
        make=lambda timestamp, offset: (timestamp, offset),
        newest=4,
        flexible=4,
    ),
    (Field("topic", Reader.string, "topic"), Field("partition", Reader.int32, "partition")),
)
_MEMBER = Field("memberId", Reader.string, "key")
_TYPES = {
    0: _COMMIT,
    1: _COMMIT,
    2: _Type(ClassicGroup, classic.GENERATION),
    3: _part(ConsumerGroupPart, "epoch", consumer.EPOCH),
    5: _part(ConsumerGroupPart, "subscriptions", consumer.SUBSCRIPTION, _MEMBER),
    6: _part(ConsumerGroupPart, "target_epoch", consumer.TARGET_EPOCH),
    7: _part(ConsumerGroupPart, "targets", consumer.TARGET, _MEMBER),
    8: _part(ConsumerGroupPart, "currents", consumer.CURRENT, _MEMBER),
    10: _part(ShareGroupPart, "subscriptions", share.SUBSCRIPTION, _MEMBER),
    11: _part(ShareGroupPart, "epoch", share.EPOCH),
    12: _part(ShareGroupPart, "target_epoch", share.TARGET_EPOCH),
    13: _part(ShareGroupPart, "targets", share.TARGET, _MEMBER),
    14: _part(ShareGroupPart, "currents", share.CURRENT, _MEMBER),
    16: _part(
        ConsumerGroupPart, "regexes", consumer.PATTERN, Field("regularExpression", Reader.string, "key")
    ),
    17: _part(StreamsGroupPart, "epoch", streams.EPOCH),
    19: _part(StreamsGroupPart, "subscriptions", streams.SUBSCRIPTION, _MEMBER),
    20: _part(StreamsGroupPart, "target_epoch", streams.TARGET_EPOCH),
    21: _part(StreamsGroupPart, "targets", streams.TARGET, _MEMBER),
    22: _part(StreamsGroupPart, "currents", streams.CURRENT, _MEMBER),
    23: _part(StreamsGroupPart, "topology", streams.TOPOLOGY),
}


def committing(key: bytes | None, value: bytes | None) -> bytes | None:
    """The group of an offset commit, or of its tombstone, in the layout of today's brokers.

    For the millions that are passed over: :func:`decode` reads these and all others, and says what is wrong with
    them. None: of another type or layout, malformed, or with names that are not ASCII.
    """
    if key is None or len(key) < _SHORTEST_KEY or key[:2] not in _COMMITS or not key[4:-4].isascii():
        return None
    topic_at = 6 + (key[2] << 8 | key[3])
    if len(key) < topic_at + 4 or topic_at + (key[topic_at - 2] << 8 | key[topic_at - 1]) + 4 != len(key):
        return None
    # Nearly all have no metadata.
    if value is not None and (
        len(value) != _PLAIN_BYTES or value[14:16] != b"\0\0" or value[:2] != _PLAIN_VALUE
    ):
        if value[:2] != _PLAIN_VALUE or len(value) < _PLAIN_BYTES:
            return None
        metadata = value[14] << 8 | value[15]
        if len(value) != _PLAIN_BYTES + (0 if metadata == _NULL else metadata) or not value[16:-8].isascii():
            return None
    return key[4 : topic_at - 2]


def place(key: bytes, group: bytes) -> tuple[str, int]:
    """Topic and partition of such a commit of this group."""
    return key[len(group) + 6 : -4].decode(), int.from_bytes(key[-4:], signed=True)


def offset_and_time(value: bytes) -> tuple[int, int]:
    """The offset of such a commit, and when it was committed (ms)."""
    return int.from_bytes(value[2:10], signed=True), int.from_bytes(value[-8:], signed=True)


def decode(
    key: bytes | None, value: bytes | None, wanted: Callable[[str], bool] = lambda _: True
) -> CoordinatorRecord:
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
    number: int = _TYPE.unpack_from(key)[0]
    kind = _TYPES.get(number)
    if kind is None:
        return Other(number)
    reader = Reader(key)
    reader.int16("key.type")
    group_id = reader.string("key.group")
    if not wanted(group_id):
        return Other(number)
    where = read_fields(reader, "key", kind.key)
    return kind.make(group_id=group_id, value=None if value is None else kind.value.read(value), **where)
