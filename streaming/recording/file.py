"""A recording: one file with the membership events, outputs, settings and versions of some groups.

The file is gzip-compressed UTF-8 text. Each line is a JSON value behind its CRC-32 in hexadecimal: first
the header, then a record a line, last a footer with the number of records. So any damage has a line number.
"""

from __future__ import annotations

import gzip
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import IO, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from assignors.errors import BadInput
from streaming.episodes.incidents import Thresholds
from streaming.monitor.outputs import Listing, Sinks
from streaming.records.codec import UNREADABLE, Record, RecordHeaders

#: Version of the file format.
VERSION: Final = 1
_LAYOUT: Final = "rebalance-monitor recording"
#: Longest line: the longest record, with every byte escaped.
_MAX_LINE: Final = 200 * 2**20
#: Roles of the topics, in the order of :class:`~streaming.monitor.outputs.Sinks`.
ROLES: Final = ("membership", "diffs", "assignments", "dead_letters", "episodes", "incidents")
#: The role of a topic whose records are in a recording.
Role = Literal["membership", "diffs", "assignments", "episodes", "incidents"]
_T = TypeVar("_T")


class DamagedRecording(BadInput):
    """The file is no recording, or is damaged; the message names the place."""


class _Line(Struct, frozen=True, kw_only=True, rename="camel"):
    """Frozen, keyword-only, camelCase in JSON."""


class RecordedSettings(_Line, frozen=True):
    """The settings that outputs depend on; ``max_bytes`` by the role of the topic."""

    quiet_ms: int
    storm_turns: int
    expected_partitions: int
    listing: Listing
    thresholds: Thresholds
    max_bytes: dict[str, int]

    @classmethod
    def of(cls, sinks: Sinks) -> RecordedSettings:
        """Return the settings of a stream or a replay."""
        roles = {getattr(sinks, role): role for role in ROLES}
        return cls(
            quiet_ms=sinks.quiet_ms,
            storm_turns=sinks.storm_turns,
            expected_partitions=sinks.expected_partitions,
            listing=sinks.listing,
            thresholds=sinks.thresholds,
            max_bytes={roles[topic]: limit for topic, limit in sinks.max_bytes.items() if topic in roles},
        )

    @property
    def sinks(self) -> Sinks:
        """Where outputs of a replay go: topics called by their roles."""
        return Sinks(
            *ROLES[:4],
            partitions=dict.fromkeys(ROLES, 1),
            max_bytes=self.max_bytes,
            episodes="episodes",
            quiet_ms=self.quiet_ms,
            storm_turns=self.storm_turns,
            incidents="incidents",
            thresholds=self.thresholds,
            expected_partitions=self.expected_partitions,
            listing=self.listing,
        )


class RecordingHeader(_Line, frozen=True):
    """The first line. ``begin`` and ``end``: the time that is of interest; events before it are there too."""

    monitor: str
    groups: list[str]
    begin: int
    end: int
    settings: RecordedSettings
    layout: str = _LAYOUT
    version: int = VERSION
    anonymised: bool = False


class RecordedRecord(_Line, frozen=True, omit_defaults=True):
    """A record of a topic. ``topic`` is its role; bytes that are not UTF-8 are base64 behind ``base64:``."""

    topic: Role
    partition: int = 0
    offset: int = 0
    key: str | None = None
    value: str | None = None
    headers: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def record(self) -> Record:
        """The record as it was in its topic."""
        headers = [(name, _bytes(value)) for name, value in self.headers]
        return Record.of(self.partition, self.offset, _bytes(self.key), _bytes(self.value), headers)


class _Footer(_Line, frozen=True):
    records: int


_BASE64: Final = "base64:"


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = _BASE64
    return _BASE64 + b64encode(data).decode() if text.startswith(_BASE64) else text


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return b64decode(text.removeprefix(_BASE64)) if text.startswith(_BASE64) else text.encode()


def recorded(
    topic: Role, key: bytes | None, value: bytes | None, headers: RecordHeaders, place: tuple[int, int] = (0, 0)
) -> RecordedRecord:
    """Return a record of a topic as a line of a recording; ``place``: its partition and offset."""
    return RecordedRecord(
        topic=topic,
        partition=place[0],
        offset=place[1],
        key=_text(key),
        value=_text(value),
        headers=[(name, _text(data)) for name, data in headers],
    )


def write_recording(file: IO[bytes], header: RecordingHeader, records: Iterable[RecordedRecord]) -> int:
    """Write a recording; return its number of records. Equal content gives equal bytes."""
    encode = msgspec.json.Encoder().encode
    count = 0
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:

        def write(line: Struct) -> None:
            text = encode(line)
            packed.write(b"%08x %s\n" % (zlib.crc32(text), text))

        write(header)
        for record in records:
            write(record)
            count += 1
        write(_Footer(records=count))
    return count


class Recording:
    """Reads a recording: its header at once, its records one by one.

    Args:
        file: the file, which the caller closes.
        name: its name in messages.

    Raises:
        DamagedRecording: it is no recording, or of another version.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._name = name
        self._lines = self._checked_lines(file)
        try:
            first = next(self._lines)
        except StopIteration:
            raise DamagedRecording(f"{name}: is empty; write it again with `record`") from None
        self.header = self._decode(first, RecordingHeader, 1)
        if self.header.layout != _LAYOUT or self.header.version != VERSION:
            raise DamagedRecording(
                f"{name}: version {self.header.version} of {self.header.layout!r}; this release reads version "
                f"{VERSION}: record it again"
            )

    def records(self) -> Iterator[RecordedRecord]:
        """Yield all records.

        Raises:
            DamagedRecording: a line is damaged, or lines are missing; the message names the line.
        """
        count = 0
        for number, line in enumerate(self._lines, 2):
            if line.startswith(b'{"records":'):
                if self._decode(line, _Footer, number).records != count:
                    raise DamagedRecording(
                        f"{self._name}: line {number}: {count} records before it, others are missing"
                    )
                if next(self._lines, None) is not None:
                    raise DamagedRecording(f"{self._name}: line {number + 1}: there is more after the last line")
                return
            record = self._decode(line, RecordedRecord, number)
            count += 1
            yield record
        raise DamagedRecording(f"{self._name}: ends after line {count + 1}, before its last line")

    def _checked_lines(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield the JSON of each line, whose checksum is right."""
        number = 1
        try:
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                while line := unpacked.readline(_MAX_LINE):
                    checksum, _, text = line.removesuffix(b"\n").partition(b" ")
                    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
                        raise DamagedRecording(f"{self._name}: line {number} is damaged: its checksum is wrong")
                    yield text
                    number += 1
        except gzip.BadGzipFile as error:
            place = f"line {number}" if number > 1 else "is no recording"
            raise DamagedRecording(f"{self._name}: {place}: {error}") from error
        except EOFError as error:
            raise DamagedRecording(f"{self._name}: line {number}: the file is cut off there") from error
        except zlib.error as error:
            raise DamagedRecording(f"{self._name}: line {number} can't be unpacked: {error}") from error

    def _decode(self, line: bytes, shape: type[_T], number: int) -> _T:
        try:
            return msgspec.json.decode(line, type=shape)
        except UNREADABLE as error:
            raise DamagedRecording(f"{self._name}: line {number}: {error}") from error
