"""Decodes Kafka's binary encoding, fixed and flexible (KIP-482); record layouts are tables with one line per field.

Any client may have written the bytes, so every step checks the remaining bytes: input that ends too early, or announces
more elements than it has bytes for, is refused with the field's name.

Names, versions and order of fields are those of ``group-coordinator/src/main/resources/common/message``, Kafka 4.3.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from assignors.errors import BadInput

T = TypeVar("T")
#: Bytes of the longest unsigned varint that fits 32 bits.
_MAX_VARINT_BYTES = 5
#: The longest string that Kafka reads, in bytes; it does not depend on the width of the length field.
_MAX_STRING_BYTES = 0x7FFF


class MalformedRecord(BadInput):
    """The bytes of a record do not follow Kafka's encoding."""


class NewerRecord(MalformedRecord):
    """The record's type or version was introduced by a later release of Kafka."""


class MalformedMember(MalformedRecord):
    """A member's metadata in a group record, which the member's client wrote, is malformed."""


def _integer(layout: str) -> "Callable[[Reader, str], int]":
    number_struct = Struct(layout)
    size, unpack = number_struct.size, number_struct.unpack_from

    def read(reader: "Reader", what: str) -> int:
        at = reader.at
        if at + size > len(reader.data):
            raise MalformedRecord(f"{what}: the value ends after {len(reader.data)} bytes, inside this field")
        reader.at = at + size
        value: int = unpack(reader.data, at)[0]
        return value

    return read


class Reader:
    """Reads consecutive values from bytes; ``what`` is the field's name in error messages.

    Attributes:
        at: the index of the next byte of ``data``.
        flexible: lengths are varints, and structs end with tagged fields.
        version: the version of the struct in the bytes.
    """

    __slots__ = ("at", "data", "flexible", "version")

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self.data, self.at = data, 0
        self.flexible, self.version = flexible, 0

    @property
    def bytes_left(self) -> int:
        """The number of unread bytes."""
        return len(self.data) - self.at

    #: Signed numbers, the highest byte first.
    int8, int16, int32, int64 = _integer(">b"), _integer(">h"), _integer(">i"), _integer(">q")

    def varint(self, what: str) -> int:
        """Read an unsigned number with seven bits per byte, the lowest bits first."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.int8(what)
            value |= (byte & 0x7F) << 7 * index
            if byte >= 0:
                return value
        raise MalformedRecord(f"{what}: the number takes more than {_MAX_VARINT_BYTES} bytes")

    def _length(self, what: str, *, is_array: bool) -> int:
        """Read a length: negative means null, as in Kafka; flexible versions store the length plus one."""
        if self.flexible:
            return self.varint(what) - 1
        return self.int32(what) if is_array else self.int16(what)

    def raw(self, size: int, what: str) -> bytes:
        """Read ``size`` bytes."""
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise MalformedRecord(f"{what}: the length is {size} bytes, but {len(taken)} follow")
        self.at += size
        return taken

    def nullable_string(self, what: str) -> str | None:
        """Read a nullable string of Kafka's encoding; None for null."""
        size = self._length(what, is_array=False)
        if size < 0:
            return None
        if size > _MAX_STRING_BYTES:
            raise MalformedRecord(f"{what}: the length is {size} bytes; a string has at most {_MAX_STRING_BYTES}")
        try:
            return self.raw(size, what).decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"{what}: not UTF-8") from error

    def string(self, what: str) -> str:
        """Read a string of Kafka's encoding; null is an error."""
        text = self.nullable_string(what)
        if text is None:
            raise MalformedRecord(f"{what}: null")
        return text

    def nullable_bytes(self, what: str) -> bytes | None:
        """Read a byte string that may be null; return None for null."""
        size = self._length(what, is_array=True)
        return None if size < 0 else self.raw(size, what)

    def uuid(self, what: str) -> str:
        """Read a UUID and return it as Kafka prints it: url-safe base64 without padding."""
        return base64.urlsafe_b64encode(self.raw(16, what)).decode().rstrip("=")

    def nullable_array(self, what: str, read_element: Callable[[], T]) -> list[T] | None:
        """Read an array, calling ``read_element`` for each element; return None for null."""
        size = self._length(what, is_array=True)
        if size < 0:
            return None
        if size > self.bytes_left:  # every element takes at least one byte
            raise MalformedRecord(f"{what}: the length is {size} elements, but {self.bytes_left} bytes follow")
        return [read_element() for _ in range(size)]

    def array(self, what: str, read_element: Callable[[], T]) -> list[T]:
        """Read an array, calling ``read_element`` for each element; null is an error."""
        elements = self.nullable_array(what, read_element)
        if elements is None:
            raise MalformedRecord(f"{what}: null")
        return elements

    def partitions(self, what: str) -> list[int]:
        """Read an array of partition numbers."""
        numbers = self.array(what, lambda: self.int32(what))
        if numbers and min(numbers) < 0:
            raise MalformedRecord(f"{what}: {min(numbers)} is not a partition number")
        return numbers

    def tagged_fields(self) -> dict[int, bytes]:
        """Read the tagged fields at the end of a struct; versions that are not flexible have no tagged fields."""
        fields = {}
        for _ in range(self.varint("number of tagged fields") if self.flexible else 0):
            tag = self.varint("tag")
            fields[tag] = self.raw(self.varint("size of a tagged field"), f"tagged field {tag}")
        return fields


#: Kafka counts versions of a record type from 0, one per change; a number above this comes from another system.
_MAX_PLAUSIBLE_VERSION = 99
#: A function that reads one field; its second argument is the field's full name for error messages.
Decoder = Callable[[Reader, str], Any]


class Field(NamedTuple):
    """A field of a struct on the wire: the attribute that stores it (``to``; None: skip it), and its first version."""

    name: str
    read: Decoder
    to: str | None = None
    since: int = 0


class Value(NamedTuple):
    """The layout of a record type's value.

    Attributes:
        fields: the fields in order, up to the last field that is used.
        factory: called with the fields that have an attribute name.
        newest: the newest known version.
        flexible: the first flexible version.
        tags: tag → field, for the tagged fields that are used.
        whole: ``fields`` contains all fields, so a version without tags has no bytes after the last field.
    """

    name: str
    fields: tuple[Field, ...]
    factory: Callable[..., Any]
    newest: int = 0
    flexible: int = 0
    tags: Mapping[int, Field] = {}
    whole: bool = False

    def read(self, data: bytes) -> Any:
        """Decode the value of a record."""
        reader = Reader(data)
        reader.version = reader.int16(f"{self.name}.version")
        if self.newest < reader.version <= _MAX_PLAUSIBLE_VERSION:
            raise NewerRecord(f"{self.name} version {reader.version}")
        if not 0 <= reader.version <= self.newest:
            raise MalformedRecord(f"{self.name}.version: {reader.version} is not known (0 to {self.newest})")
        reader.flexible = reader.version >= self.flexible
        values = read_fields(reader, self.name, self.fields)
        if self.whole and not reader.flexible and reader.bytes_left:
            raise MalformedRecord(f"{self.name}: {reader.bytes_left} bytes follow the last field")
        for tag, content in reader.tagged_fields().items() if self.tags else ():
            if tag in self.tags:
                values |= read_fields(Reader(content, flexible=True), self.name, (self.tags[tag],))
        return self.factory(**values)


def versioned(data: bytes) -> Reader:
    """Return a reader of embedded metadata that has read its version; raise MalformedRecord if it is negative."""
    reader = Reader(data)
    reader.version = reader.int16("version")
    if reader.version < 0:
        raise MalformedRecord(f"version: {reader.version} is below 0")
    return reader


def structs(*fields: Field, factory: Callable[..., Any] = dict) -> Decoder:
    """Return a function that reads an array of structs; it calls ``factory`` with the fields of each struct."""

    def read_struct(reader: Reader, what: str) -> Any:
        values = read_fields(reader, what, fields)
        reader.tagged_fields()
        return factory(**values)

    return lambda reader, what: reader.array(what, lambda: read_struct(reader, what))


def strings(reader: Reader, what: str) -> tuple[str, ...]:
    """Read an array of strings of Kafka's encoding."""
    return tuple(reader.array(what, lambda: reader.string(what)))


def read_fields(reader: Reader, what: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Decode the fields that exist in the reader's version, and return the values by attribute name."""
    values = {}
    for name, read, to, since in fields:
        if reader.version >= since:
            value = read(reader, f"{what}.{name}")
            if to is not None:
                values[to] = value
    return values


def merged(entries: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    """Return sorted topics with their sorted, distinct partitions; topics without partitions are omitted."""
    numbers: dict[str, set[int]] = {}
    for name, more in entries:
        numbers.setdefault(name, set()).update(more)
    return {name: sorted(numbers[name]) for name in sorted(numbers) if numbers[name]}
