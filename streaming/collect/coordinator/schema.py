"""Record layouts as tables, one line a field, in the order of Kafka's message definitions.

Names, versions and order are those of ``group-coordinator/src/main/resources/common/message`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.collect.encoding import MalformedRecord, NewerRecord, Reader

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
        """Read a value.

        Raises:
            NewerRecord: of a version that a later Kafka may write.
            MalformedRecord: malformed; the message names the field.
        """
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
