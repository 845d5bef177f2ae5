"""Kafka's binary encoding of records, read: fixed and flexible (KIP-482) versions.

A reader walks over bytes that anybody may have written, so every step checks what is left: input that ends too
early, or announces more elements than it has bytes for, is refused with the field's name.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from struct import Struct
from typing import TypeVar

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
