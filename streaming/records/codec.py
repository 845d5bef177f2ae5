"""Encodes records as in the CloudEvents Kafka protocol binding: binary mode, with a JSON value.

Attributes are ``ce_*`` headers, and the value has only the data (CloudEvents Kafka binding 1.0.2, §3.2).
Times are in RFC 3339, UTC. They come from the data, never from a clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec

from assignors.errors import BadInput
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.events import CONNECTOR, EVENT_TYPES, Annotation, Event, EventData, GroupObserved

#: ``[(name, value)]``, as Kafka clients accept and return headers.
Headers = list[tuple[str, bytes]]
#: Headers of a record from any producer, in which values may be null.
RecordHeaders = Sequence[tuple[str, bytes | None]]
SPEC_VERSION = b"1.0"
CONTENT_TYPE = b"application/json"
#: The headers of a record that the monitor writes, in this order.
HEADER_NAMES = ("ce_specversion", "ce_type", "ce_id", "ce_source", "ce_time", "content-type")
_SPEC_VERSION_HEADER: Final = (HEADER_NAMES[0], SPEC_VERSION)
_LAST_HEADER: Final = (HEADER_NAMES[-1], CONTENT_TYPE)
#: The largest record, as :func:`record_bytes` counts: ``max.message.bytes`` of the topics that the monitor creates.
MAX_RECORD_BYTES = 10 * 2**20
#: The largest record for topics with a larger limit: the whole buffer of a Java producer has 32 MiB.
RECORD_BYTES_LIMIT = 30 * 2**20
#: How deep lists and objects in a value may be nested; the monitor's own records have five levels. Readers without a
#: limit accept as many levels as their stack allows.
MAX_DEPTH: Final = 100
#: Exceptions of decoders for unreadable bytes: malformed, of another type, not UTF-8, nested too deep.
DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_T = TypeVar("_T")
#: Braces as brackets, and all bytes except brackets, braces and quotes.
_AS_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NON_BRACKET_BYTES: Final = bytes(set(range(256)) - set(b'[{]}"'))
#: Spaces between two tokens of JSON.
_SPACES: Final = (b" ", b"\n", b"\r", b"\t")
#: Types of records whose values list members' partitions.
_TYPES_WITH_PARTITIONS: Final = (GroupObserved, Diff, LatestAssignment)
#: The JSON bytes of a struct.
encode = msgspec.json.Encoder().encode


class UnknownEventType(BadInput):
    """The header ce_type names no membership event."""


class MalformedEvent(BadInput):
    """The record can't be parsed as a membership event."""


class RecordTooLarge(BadInput):
    """A record that results from the event is larger than its topic accepts."""


class MissingKey(BadInput):
    """The record has no key, which must be the group id."""


class Record(NamedTuple):
    """A record of the membership topic. ``type``, ``id``, ``source`` and ``time``: bytes of the ``ce_*`` headers.

    ``headers`` None: exactly the headers that this codec writes.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    type: bytes | None
    id: bytes | None
    source: bytes | None
    time: bytes | None
    headers: RecordHeaders | None

    @classmethod
    def of(cls, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: RecordHeaders) -> Self:
        """Return the record with all its headers; if several headers have the same name, the last one counts."""
        ce = dict(headers)
        attributes = (ce.get("ce_type"), ce.get("ce_id"), ce.get("ce_source"), ce.get("ce_time"))
        return cls(partition, offset, key, value, *attributes, headers)

    @property
    def all_headers(self) -> RecordHeaders:
        """Return all headers of the record that became a dead letter."""
        if self.headers is not None:
            return self.headers
        attributes = (self.type, self.id, self.source, self.time)
        return list(zip(HEADER_NAMES, (SPEC_VERSION, *attributes, CONTENT_TYPE), strict=True))


def decode(decoder: msgspec.json.Decoder[_T], value: bytes) -> _T:
    """Decode the value of a record from any producer.

    Raises an error of :data:`UNREADABLE` if the value does not match the decoder's type, is nested deeper than
    :data:`MAX_DEPTH`, lists a member twice, or has a task number -1 outside Connect.
    """
    # Each level takes two brackets, so a short value can't be nested too deep. Almost all events are short.
    if len(value) > 2 * MAX_DEPTH and _nesting_depth(value) > MAX_DEPTH:
        raise msgspec.DecodeError(f"nested deeper than the limit, {MAX_DEPTH}")
    result = decoder.decode(value)
    if isinstance(result, GroupObserved) and len({m.member_id for m in result.members}) < len(result.members):
        raise msgspec.ValidationError("a member is listed twice - at `$.members`")
    return _drop_unknown_tasks(result, value)


def _drop_unknown_tasks(result: _T, value: bytes) -> _T:
    """Return the decoded value; refuse partition -1 (a connector itself) in groups other than Connect's."""
    if not isinstance(result, _TYPES_WITH_PARTITIONS) or result.kind == "connect":
        return result
    # The search for a space is far faster than the search for two bytes, and usually finds that there is no space.
    if not (b"[-" in value or b",-" in value or any(space in value and space + b"-" in value for space in _SPACES)):
        return result
    for member_id, held in result.holdings():
        for topic, numbers in held.items():
            if numbers and min(numbers) <= CONNECTOR:
                place = f"{member_id}: partition {min(numbers)} of {topic}"
                raise msgspec.ValidationError(f"{place}; only Connect's tasks (kind connect) have the number -1")
    return result


def _nesting_depth(value: bytes) -> int:
    """Return the nesting depth of a JSON value, or an upper bound up to the limit; any number if it is malformed."""
    opening_count = value.count(b"[") + value.count(b"{")
    if opening_count <= MAX_DEPTH:
        return opening_count
    if b"\\" in value:
        value = value.replace(rb"\\", b"").replace(rb"\"", b"")
    # Two adjacent quotes are now a string without brackets, or the end of one string and the start of the next.
    outside_of_strings = b"".join(value.translate(None, _NON_BRACKET_BYTES).replace(b'""', b"").split(b'"')[::2])
    brackets, depth = outside_of_strings.translate(_AS_BRACKETS), 0
    while b"[]" in brackets and depth <= MAX_DEPTH:  # remove the innermost pairs
        brackets, depth = brackets.replace(b"[]", b""), depth + 1
    return depth + brackets.count(b"[")


@cache
def _decoder(ce_type: str) -> msgspec.json.Decoder[EventData]:
    return msgspec.json.Decoder(EVENT_TYPES[ce_type])


def epoch_ms(digits: str) -> int:
    """Return ms since the epoch for digits in ms, or for ten digits in seconds, as ``date +%s`` prints."""
    return int(digits) * (1000 if len(digits) == len("1700000000") else 1)


def raw_json(value: bytes) -> msgspec.Raw:
    """Return a record's JSON value unchanged, but without line breaks."""
    return msgspec.Raw(msgspec.json.format(value, indent=-1) if b"\n" in value or b"\r" in value else value)


def raw_records(records: Iterable[Any]) -> Iterator[msgspec.Raw]:
    """Yield the unchanged JSON values of the given records."""
    return (raw_json(record.value) for record in records)


def rfc3339(timestamp_ms: int) -> str:
    """Return a time in ms since the epoch as text, such as ``2023-11-14T22:13:20.000Z``."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    try:
        return f"{_rfc3339_second(seconds)}.{milliseconds:03d}Z"
    except (OverflowError, ValueError, OSError) as error:
        raise MalformedEvent(f"timestamp: {timestamp_ms} is not a time in milliseconds") from error


@lru_cache(maxsize=4096)  # many events are from the same second; formatting takes ten times as long as the look-up
def _rfc3339_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}"


def headers(ce_type: str, ce_source: str, ce_id: str, timestamp_ms: int) -> Headers:
    """Return the CloudEvents headers of one record."""
    type_header, source_header = _sender(ce_type, ce_source)
    time_header = ("ce_time", rfc3339(timestamp_ms).encode())
    return [_SPEC_VERSION_HEADER, type_header, ("ce_id", ce_id.encode()), source_header, time_header, _LAST_HEADER]


@lru_cache(maxsize=1024)  # a few programs write most of the records
def _sender(ce_type: str, ce_source: str) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    return ("ce_type", ce_type.encode()), ("ce_source", ce_source.encode())


def encode_event(event: Event) -> tuple[bytes, bytes, Headers]:
    """Return the key, value and headers of the record of a membership event."""
    data = event.data
    return (data.group_id.encode(), encode(data), headers(event.type, event.source, event.id, data.timestamp))


def _decode_value(ce_type: str, value: bytes) -> EventData:
    """Decode an event's value; a null field counts as left out, as many programs write absent fields as null."""
    try:
        return decode(_decoder(ce_type), value)
    except msgspec.ValidationError:
        if b"null" not in value:
            raise
        data = msgspec.convert(_drop_nulls(msgspec.json.decode(value)), EVENT_TYPES[ce_type])
        return _drop_unknown_tasks(data, value)


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_nulls(part) for name, part in value.items() if part is not None}
    return [_drop_nulls(part) for part in value] if isinstance(value, list) else value


def decode_event(key: bytes | None, value: bytes | None, ce: Mapping[str, str]) -> Event:
    """Return the membership event of a record. ``ce``: its ``ce_*`` headers, names without ``ce_``.

    Raises:
        MissingKey: the record has no key.
        UnknownEventType: ``ce_type`` is not one of :data:`streaming.records.events.EVENT_TYPES`.
        MalformedEvent: a header is missing, the value does not parse, or the key is not the group id.
    """
    if key is None:
        raise MissingKey
    if not (ce.get("type") and ce.get("id") and ce.get("source")):
        name = next(name for name in ("type", "id", "source") if not ce.get(name))
        raise MalformedEvent(f"header ce_{name}: missing; membership events are CloudEvents in binary mode")
    if ce["type"] not in EVENT_TYPES:
        raise UnknownEventType(f"header ce_type: {ce['type']!r} is not one of {', '.join(sorted(EVENT_TYPES))}")
    if value is None:
        raise MalformedEvent("value: missing (null)")
    try:
        data = _decode_value(ce["type"], value)
    except DECODE_ERRORS as error:
        raise MalformedEvent(f"value of {ce['type']}: {error}") from error
    if data.group_id.encode() != key and not isinstance(data, Annotation):
        raise MalformedEvent(f"key: {key!r} is not the groupId {data.group_id!r} of the value")
    return Event(ce["source"], ce["id"], data)


def record_bytes(key: bytes | None, value: bytes | None, record_headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return the largest size of a record alone in its batch, bytes; clients and brokers compare it with their limits.

    Like Kafka's ``AbstractRecords.estimateSizeInBytesUpperBound``: 61 bytes per batch, 21 per record, 5 per length.
    """
    total = 97 + len(key or b"") + len(value or b"")
    for name, data in record_headers:
        total += 10 + len(name.encode()) + len(data or b"")
    return total


def ce_attributes(record_headers: Iterable[tuple[str, bytes | None]] | None) -> dict[str, str]:
    """Return ``{attribute: text}`` of a record's ``ce_*`` headers; values that are not UTF-8 are left out."""
    attributes: dict[str, str] = {}
    for name, value in record_headers or ():
        if name.startswith("ce_") and value is not None:
            try:
                attributes[name[3:]] = value.decode()
            except UnicodeDecodeError:
                continue
    return attributes


def read(record: Record) -> Event:
    """Return the membership event of a record; raises the errors of :func:`decode_event`."""
    try:
        ce = {
            "type": (record.type or b"").decode(),
            "id": (record.id or b"").decode(),
            "source": (record.source or b"").decode(),
        }
    except UnicodeDecodeError as error:
        name = next(name for name in ("type", "id", "source") if getattr(record, name) == error.object)
        raise MalformedEvent(f"header ce_{name}: not UTF-8") from error
    return decode_event(record.key, record.value, ce)
