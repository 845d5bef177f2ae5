"""Kafka's binary encoding, fixed and flexible (KIP-482), and record layouts as tables, one line a field.

Anybody may have written the bytes, so every step checks what is left: input that ends too early, or announces more
elements than it has bytes for, is refused with the field's name.

Names, versions and order of fields are those of ``group-coordinator/src/main/resources/common/message``, Kafka 4.3.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, TypeVar

from assignors.errors import BadInput

T = TypeVar("T")

_INT8 = Struct(">b")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
#: Bytes of the longest unsigned varint that fits 32 bits.
_VARINT_BYTES = 5
#: Bytes of the longest string that Kafka reads, whatever the length's own width.
_STRING_BYTES = 0x7FFF


class MalformedRecord(BadInput):
    """The bytes of a record do not follow Kafka's encoding."""


class NewerRecord(MalformedRecord):
    """A record type, or a version of one, that a later release of Kafka introduced."""


class MalformedMember(MalformedRecord):
    """A member's metadata in a group record, written by its client, is malformed."""


class Reader:
    """Reads one value after the other.

    Args:
        flexible: lengths are varints, and structs end with tagged fields.
        version: of the struct in the bytes.
    """

    __slots__ = ("_at", "_data", "flexible", "version")

    def __init__(self, data: bytes, *, flexible: bool = False, version: int = 0) -> None:
        self._data = data
        self._at = 0
        self.flexible = flexible
        self.version = version

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return len(self._data) - self._at

    def _fixed(self, form: Struct, what: str) -> int:
        at = self._at
        if at + form.size > len(self._data):
            raise MalformedRecord(f"{what}: the value ends after {len(self._data)} bytes, inside this field")
        self._at = at + form.size
        value: int = form.unpack_from(self._data, at)[0]
        return value

    def int8(self, what: str) -> int:
        """A signed byte."""
        return self._fixed(_INT8, what)

    def int16(self, what: str) -> int:
        """A signed 16-bit number."""
        return self._fixed(_INT16, what)

    def int32(self, what: str) -> int:
        """A signed 32-bit number."""
        return self._fixed(_INT32, what)

    def int64(self, what: str) -> int:
        """A signed 64-bit number."""
        return self._fixed(_INT64, what)

    def varint(self, what: str) -> int:
        """An unsigned number, seven bits a byte, the lowest first."""
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self._fixed(_INT8, what)
            value |= (byte & 0x7F) << 7 * index
            if byte >= 0:
                return value
        raise MalformedRecord(f"{what}: a length of more than {_VARINT_BYTES} bytes")

    def _length(self, what: str, *, wide: bool) -> int:
        """A length; below 0 is null, as Kafka reads it. Flexible versions store it plus one."""
        if self.flexible:
            return self.varint(what) - 1
        return self.int32(what) if wide else self.int16(what)

    def _take(self, size: int, what: str) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise MalformedRecord(f"{what}: {size} bytes announced, {len(taken)} there")
        self._at += size
        return taken

    def raw(self, size: int, what: str) -> bytes:
        """Read so many bytes."""
        return self._take(size, what)

    def nullable_string(self, what: str) -> str | None:
        """Text, or None."""
        size = self._length(what, wide=False)
        if size < 0:
            return None
        if size > _STRING_BYTES:
            raise MalformedRecord(f"{what}: {size} bytes announced, a string has {_STRING_BYTES} at most")
        try:
            return self._take(size, what).decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"{what}: not UTF-8") from error

    def string(self, what: str) -> str:
        """Text."""
        text = self.nullable_string(what)
        if text is None:
            raise MalformedRecord(f"{what}: null")
        return text

    def nullable_bytes(self, what: str) -> bytes | None:
        """Bytes, or None."""
        size = self._length(what, wide=True)
        return None if size < 0 else self._take(size, what)

    def uuid(self, what: str) -> str:
        """An id as Kafka prints it: base64 url-safe, no padding."""
        return base64.urlsafe_b64encode(self._take(16, what)).decode().rstrip("=")

    def nullable_array(self, what: str, element: Callable[[], T]) -> list[T] | None:
        """Elements, each read by ``element``; or None."""
        size = self._length(what, wide=True)
        if size < 0:
            return None
        if size > self.left:  # every element takes a byte at least
            raise MalformedRecord(f"{what}: {size} elements announced, {self.left} bytes left")
        return [element() for _ in range(size)]

    def array(self, what: str, element: Callable[[], T]) -> list[T]:
        """Elements, each read by ``element``."""
        elements = self.nullable_array(what, element)
        if elements is None:
            raise MalformedRecord(f"{what}: null")
        return elements

    def partitions(self, what: str) -> list[int]:
        """Read partition numbers."""
        numbers = self.array(what, lambda: self.int32(what))
        if numbers and min(numbers) < 0:
            raise MalformedRecord(f"{what}: {min(numbers)} is no partition")
        return numbers

    def tagged(self) -> dict[int, bytes]:
        """The tagged fields at the end of a struct; none in versions that are not flexible."""
        if not self.flexible:
            return {}
        found = {}
        for _ in range(self.varint("number of tagged fields")):
            tag = self.varint("tag")
            found[tag] = self._take(self.varint("size of a tagged field"), f"tagged field {tag}")
        return found


#: Kafka counts versions of a record type from 0, one a change; a higher number is another system's bytes.
_NEWEST_PLAUSIBLE = 99
#: Reads one field, given its full name for error messages.
Read = Callable[[Reader, str], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    Args:
        to: its name here; None: skipped.
        since: the first version that has it.
    """

    name: str
    read: Read
    to: str | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a record type.

    Args:
        fields: in order, up to the last one that is used.
        make: called with the fields that have a name here.
        newest: the newest known version.
        flexible: the first flexible version.
        tags: tag → field, of the tagged fields that are used.
        whole: ``fields`` are all fields, so that a version without tags has no more bytes.
    """

    name: str
    fields: tuple[Field, ...]
    make: Callable[..., Any]
    newest: int = 0
    flexible: int = 0
    tags: Mapping[int, Field] = field(default_factory=dict)
    whole: bool = False

    def read(self, data: bytes) -> Any:
        """Read a value."""
        reader = Reader(data)
        reader.version = reader.int16(f"{self.name}.version")
        if self.newest < reader.version <= _NEWEST_PLAUSIBLE:
            raise NewerRecord(f"{self.name} version {reader.version}")
        if not 0 <= reader.version <= self.newest:
            raise MalformedRecord(f"{self.name}.version: {reader.version} is not known (0 to {self.newest})")
        reader.flexible = reader.version >= self.flexible
        values = read_fields(reader, self.name, self.fields)
        if self.whole and not reader.flexible and reader.left:
            raise MalformedRecord(f"{self.name}: {reader.left} bytes follow the last field")
        if self.tags:
            for tag, content in reader.tagged().items():
                tagged = self.tags.get(tag)
                if tagged is not None and tagged.to is not None:
                    values[tagged.to] = tagged.read(Reader(content, flexible=True), f"{self.name}.{tagged.name}")
        return self.make(**values)


def structs(*fields: Field, make: Callable[..., Any] = dict) -> Read:
    """Return the reader of an array of structs; ``make`` is called with the fields of each."""

    def read_struct(reader: Reader, what: str) -> Any:
        values = read_fields(reader, what, fields)
        reader.tagged()
        return make(**values)

    return lambda reader, what: reader.array(what, lambda: read_struct(reader, what))


def only(value: Any) -> Any:
    """The ``make`` of a value with one used field, named ``value``."""
    return value


def strings(reader: Reader, what: str) -> tuple[str, ...]:
    """Read an array of strings."""
    return tuple(reader.array(what, lambda: reader.string(what)))


def read_fields(reader: Reader, what: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Read the fields of the reader's version; return those that have a name here."""
    values = {}
    for entry in fields:
        if reader.version >= entry.since:
            value = entry.read(reader, f"{what}.{entry.name}")
            if entry.to is not None:
                values[entry.to] = value
    return values
