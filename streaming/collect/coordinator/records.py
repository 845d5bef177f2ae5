"""The record types of ``__consumer_offsets`` and their decoder.

A key begins with its record type as int16 and the group id, a value with its version; a value of None is a
tombstone. Types missing in :data:`_TYPES` (partition metadata, share state) are :class:`Other`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from streaming.collect.coordinator import classic, consumer, share, streams
from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.modern import GroupPart, ModernKind
from streaming.collect.coordinator.schema import Field, Value, read_fields
from streaming.collect.encoding import MalformedRecord, NewerRecord, Reader

OFFSETS_TOPIC = "__consumer_offsets"

_TYPE = Struct(">h")
_COMMIT_TYPES = (b"\x00\x00", b"\x00\x01")
#: Length of a commit's key with empty names.
_SHORTEST_KEY = 10
#: OffsetCommitValue 3, as Kafka 2.1 to 4.x write it: int16 version, int64 offset, int32 leaderEpoch, metadata as a
#: string after its int16 length (-1: null), int64 commitTimestamp. ``_PLAIN_BYTES``: its length without metadata.
_PLAIN_VERSION = b"\x00\x03"
_PLAIN_BYTES = 24
_NULL = 0xFFFF


class RawRecord(NamedTuple):
    """One record of the offsets topic; ``timestamp`` in ms, ``leader_epoch`` −1 if unknown."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int = -1


class OffsetCommit(NamedTuple):
    """Types 0 and 1: a committed offset; ``timestamp`` (ms) None: the offset was removed."""

    group_id: str
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Other:
    """A record whose type, or group, is not used."""

    type: int


CoordinatorRecord = OffsetCommit | ClassicGroup | GroupPart | Other


@dataclass(frozen=True, slots=True)
class _Type:
    """One record type; ``make`` is called with the group id, the key's other fields and the value."""

    make: Callable[..., CoordinatorRecord]
    value: Value
    key: tuple[Field, ...] = ()


def _part(kind: ModernKind, part: str, value: Value, *key: Field) -> _Type:
    return _Type(partial(GroupPart, kind=kind, part=part), value, key)


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
_PATTERN = Field("regularExpression", Reader.string, "key")
_TYPES = {
    0: _COMMIT,
    1: _COMMIT,
    2: _Type(ClassicGroup, classic.GENERATION),
    3: _part("consumer", "epoch", consumer.EPOCH),
    5: _part("consumer", "subscriptions", consumer.SUBSCRIPTION, _MEMBER),
    6: _part("consumer", "target_epoch", consumer.TARGET_EPOCH),
    7: _part("consumer", "targets", consumer.TARGET, _MEMBER),
    8: _part("consumer", "currents", consumer.CURRENT, _MEMBER),
    10: _part("share", "subscriptions", share.SUBSCRIPTION, _MEMBER),
    11: _part("share", "epoch", share.EPOCH),
    12: _part("share", "target_epoch", share.TARGET_EPOCH),
    13: _part("share", "targets", share.TARGET, _MEMBER),
    14: _part("share", "currents", share.CURRENT, _MEMBER),
    16: _part("consumer", "regexes", consumer.PATTERN, _PATTERN),
    17: _part("streams", "epoch", streams.EPOCH),
    19: _part("streams", "subscriptions", streams.SUBSCRIPTION, _MEMBER),
    20: _part("streams", "target_epoch", streams.TARGET_EPOCH),
    21: _part("streams", "targets", streams.TARGET, _MEMBER),
    22: _part("streams", "currents", streams.CURRENT, _MEMBER),
    23: _part("streams", "topology", streams.TOPOLOGY),
}


def decode(
    key: bytes | None, value: bytes | None, is_wanted: Callable[[str], bool] = lambda _: True
) -> CoordinatorRecord:
    """Decode one record.

    Args:
        key: the record's key.
        value: its value; None for a tombstone.
        is_wanted: selects groups; records of others are :class:`Other`, except offset commits.

    Raises:
        NewerRecord: the type, or the value's version, is newer than Kafka 4.3.
        MalformedRecord: key or value is malformed; the message names the field. No bytes raise anything else.
    """
    return read_plain_commit(key, value) or decode_any(key, value, is_wanted)


def decode_any(key: bytes | None, value: bytes | None, is_wanted: Callable[[str], bool]) -> CoordinatorRecord:
    """Decode one record by the layout of its type; see :func:`decode`."""
    if key is None or len(key) < _TYPE.size:
        raise MalformedRecord(f"key: {key!r} has no record type")
    number: int = _TYPE.unpack_from(key)[0]
    kind = _TYPES.get(number)
    if kind is None and number > max(_TYPES):
        raise NewerRecord(f"record type {number}")
    if kind is None:
        return Other(number)
    reader = Reader(key)
    reader.int16("key.type")
    group_id = reader.string("key.group")
    if not is_wanted(group_id):
        return Other(number)
    where = read_fields(reader, "key", kind.key)
    return kind.make(group_id=group_id, value=None if value is None else kind.value.read(value), **where)


def read_plain_commit(key: bytes | None, value: bytes | None) -> OffsetCommit | None:
    """Read an offset commit, or its tombstone, in today's layout and with ASCII names; None: another record.

    Nearly all records of the topic are such commits, and this is ten times as fast as the general decoder.
    """
    if key is None or len(key) < _SHORTEST_KEY or key[:2] not in _COMMIT_TYPES or not key[4:-4].isascii():
        return None
    topic_at = 6 + (key[2] << 8 | key[3])
    if len(key) < topic_at + 4 or topic_at + (key[topic_at - 2] << 8 | key[topic_at - 1]) + 4 != len(key):
        return None
    timestamp = offset = None
    if value is not None:
        if value[:2] != _PLAIN_VERSION or len(value) < _PLAIN_BYTES:
            return None
        metadata = value[14] << 8 | value[15]
        if len(value) != _PLAIN_BYTES + (0 if metadata == _NULL else metadata) or not value[16:-8].isascii():
            return None
        timestamp = int.from_bytes(value[-8:], signed=True)
        offset = int.from_bytes(value[2:10], signed=True)
    group_id, topic = key[4 : topic_at - 2].decode(), key[topic_at:-4].decode()
    return OffsetCommit(group_id, topic, int.from_bytes(key[-4:], signed=True), timestamp, offset)
