"""Layouts of the coordinator's records as tables: a line a field, in the order of Kafka's message definitions.

Names, versions and order are those of ``group-coordinator/src/main/resources/common/message`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.collect.encoding import MalformedRecord, Reader

#: Reads one field: the reader, and the field's full name for a refusal.
Read = Callable[[Reader, str], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    Args:
        name: as in Kafka's definition.
        read: how it is read.
        to: what it is called here; None: it is read and dropped.
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
        name: as in Kafka's definition.
        fields: in order; what follows the last that is of use is left out.
        make: called with the fields that have a name here.
        newest: the newest known version.
        flexible: the first flexible version.
        tags: tag → field, of the tagged fields that are of use.
        whole: whether ``fields`` are all there are, so that nothing may follow them (in a version without tags).
    """

    name: str
    fields: tuple[Field, ...]
    make: Callable[..., Any]
    newest: int = 0
    flexible: int = 0
    tags: Mapping[int, Field] = field(default_factory=dict)
    whole: bool = False

    def read(self, data: bytes) -> Any:
        """What ``make`` gives for these bytes.

        Raises:
            MalformedRecord: they are no such value, or of a version that is not known; the message names the field.
        """
        reader = Reader(data)
        reader.version = reader.int16(f"{self.name}.version")
        if not 0 <= reader.version <= self.newest:
            raise MalformedRecord(f"{self.name}.version: {reader.version} is not known (0 to {self.newest})")
        reader.flexible = reader.version >= self.flexible
        found = read_fields(reader, self.name, self.fields)
        if self.whole and not reader.flexible and reader.left:
            raise MalformedRecord(f"{self.name}: {reader.left} bytes follow the last field")
        if self.tags:
            for tag, content in reader.tagged().items():
                known = self.tags.get(tag)
                if known is not None and known.to is not None:
                    found[known.to] = known.read(Reader(content, flexible=True), f"{self.name}.{known.name}")
        return self.make(**found)


def structs(*fields: Field, make: Callable[..., Any] = dict) -> Read:
    """Reads an array of structs with these fields, each given to ``make``."""

    def one(reader: Reader, what: str) -> Any:
        found = read_fields(reader, what, fields)
        reader.tagged()
        return make(**found)

    return lambda reader, what: reader.array(what, lambda: one(reader, what))


def only(value: Any) -> Any:
    """The ``make`` of a value with one field of use, which has to be called ``value`` here."""
    return value


def strings(reader: Reader, what: str) -> tuple[str, ...]:
    """An array of texts."""
    return tuple(reader.array(what, lambda: reader.string(what)))


def read_fields(reader: Reader, what: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    """The fields that the reader's version has and that have a name here."""
    found = {}
    for one in fields:
        if reader.version >= one.since:
            value = one.read(reader, f"{what}.{one.name}")
            if one.to is not None:
                found[one.to] = value
    return found
