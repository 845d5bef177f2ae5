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
