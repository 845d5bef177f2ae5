"""A recording: one file with the membership events, outputs, settings and versions of some groups.

The file is gzip-compressed UTF-8 text. Each line is a JSON value behind its CRC-32 in hexadecimal, so that damage is
reported with its line number: first the header, then a record a line, last a footer with the number of records. A
recording can be replayed without a cluster.
"""

import gzip
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Final, Literal, NamedTuple, Self, TypeVar, cast

import msgspec
from msgspec import Struct, field, structs

from assignors.errors import BadInput
from streaming.episodes.incidents import IncidentLimits
from streaming.monitor.outputs import ListedMembers, Sinks
from streaming.recording.history import RecordedHistory, ReplayedOutput, event_time
from streaming.records.codec import DECODE_ERRORS, Record, RecordHeaders, ce_attributes
from streaming.records.diffs import Diff
from streaming.records.events import Wire

#: Version of the file format.
VERSION: Final = 1
_LAYOUT_NAME: Final = "rebalance-monitor recording"
#: Longest line: the longest record, with every byte escaped.
_MAX_LINE_BYTES: Final = 200 * 2**20
#: Roles of the topics, in the order of :class:`~streaming.monitor.outputs.Sinks`.
TOPIC_ROLES: Final = ("membership", "diffs", "assignments", "dead_letters", "episodes", "incidents")
#: The role of a topic whose records are in a recording.
TopicRole = Literal["membership", "diffs", "assignments", "episodes", "incidents"]
_T = TypeVar("_T")


class RecordedSettings(Wire, frozen=True):
    """The settings that determine a replay's outputs; ``max_bytes``: size limit of each topic's records, by role."""

    quiet_ms: int
    storm_turns: int
    expected_partitions: int
    listing: ListedMembers
    thresholds: IncidentLimits
    max_bytes: dict[str, int]

    @classmethod
    def of(cls, sinks: Sinks) -> Self:
        """Return the settings of a stream or a replay in the form in which recordings store them."""
        roles = {getattr(sinks, role): role for role in TOPIC_ROLES}
        max_bytes = {roles[topic]: limit for topic, limit in sinks.max_bytes.items() if topic in roles}
        return cls(**{name: getattr(sinks, name) for name in cls.__struct_fields__} | {"max_bytes": max_bytes})

    @property
    def sinks(self) -> Sinks:
        """The output topics of a replay, each named by its role."""
        partitions = dict.fromkeys(TOPIC_ROLES, 1)
        return Sinks(*TOPIC_ROLES[:4], partitions, episodes="episodes", incidents="incidents", **structs.asdict(self))


class RecordingHeader(Wire, frozen=True):
    """The first line of a recording. ``begin``, ``end`` (ms): the period to show; the file also has earlier events."""

    monitor: str
    groups: list[str]
    begin: int
    end: int
    settings: RecordedSettings
    layout: str = _LAYOUT_NAME
    version: int = VERSION
    anonymised: bool = False


class RecordedRecord(Wire, frozen=True, omit_defaults=True):
    """A record of a topic, which ``topic`` names by its role. Bytes that are not UTF-8 are ``base64:`` and Base64."""

    topic: TopicRole
    partition: int = 0
    offset: int = 0
    key: str | None = None
    value: str | None = None
    headers: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def record(self) -> Record:
        """The recorded Kafka record, with the partition and offset that it had in its topic."""
        headers = [(name, _decode_bytes(value)) for name, value in self.headers]
        return Record.of(self.partition, self.offset, _decode_bytes(self.key), _decode_bytes(self.value), headers)


class _Footer(Wire, frozen=True):
    records: int


_BASE64_PREFIX: Final = "base64:"


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = _BASE64_PREFIX
    return _BASE64_PREFIX + b64encode(data).decode() if text.startswith(_BASE64_PREFIX) else text


def _decode_bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return b64decode(text.removeprefix(_BASE64_PREFIX)) if text.startswith(_BASE64_PREFIX) else text.encode()


def record_log(log: Sequence[Record], begin: int, sinks: Sinks) -> Iterator[RecordedRecord]:
    """Yield the records of a recording: the log, diffs since ``begin`` (ms), and the content of compacted topics.

    ``sinks``: topics named by their roles, as :attr:`RecordedSettings.sinks`.
    """
    for record in log:
        yield _recorded_line("membership", record, record.key, record.value, record.all_headers)
    history = RecordedHistory(sinks)
    for output in history.play(log):
        if isinstance(output.value, Diff) and event_time(output.source) >= begin:
            write = output.write
            yield _recorded_line("diffs", output.source, write.key, write.value, write.headers)
    for topic, key, value in history.values():
        yield RecordedRecord(topic=cast("TopicRole", topic), key=_text(key), value=_text(value))


def _recorded_line(
    topic: TopicRole, source: Record, key: bytes | None, value: bytes | None, headers: RecordHeaders
) -> RecordedRecord:
    """Return a record of a topic as a line of a recording, with the partition and offset of ``source``."""
    texts = [(name, _text(data)) for name, data in headers]
    place = {"partition": source.partition, "offset": source.offset}
    return RecordedRecord(topic=topic, **place, key=_text(key), value=_text(value), headers=texts)


def write_recording(file: IO[bytes], header: RecordingHeader, records: Iterable[RecordedRecord]) -> int:
    """Write a recording; return its number of records. Equal content gives equal bytes."""
    encode = msgspec.json.Encoder().encode
    count = 0
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as gzip_file:

        def write(line: Struct) -> None:
            text = encode(line)
            gzip_file.write(b"%08x %s\n" % (zlib.crc32(text), text))

        write(header)
        for record in records:
            write(record)
            count += 1
        write(_Footer(records=count))
    return count


class Recording(NamedTuple):
    """The content of a recording file, which is complete and undamaged."""

    header: RecordingHeader
    log: list[Record]
    outputs: list[RecordedRecord]

    def steps(self) -> Iterator[list[ReplayedOutput]]:
        """Replay the log; yield the outputs of each event from the time ``header.begin`` on."""
        history = RecordedHistory(self.header.settings.sinks)
        for outputs in history.steps(self.log):
            yield [output for output in outputs if event_time(output.source) >= self.header.begin]

    def differences(self) -> Iterator[str]:
        """Yield a line for each difference between recorded outputs and the outputs of a replay."""
        again = list(record_log(self.log, self.header.begin, self.header.settings.sinks))[len(self.log) :]
        replayed = {_output_key(line): line for line in again}
        for line in self.outputs:
            replayed_line = replayed.pop(_output_key(line), None)
            if replayed_line is None:
                yield f"{_output_title(line)}: a replay does not give it"
            elif replayed_line != line:
                yield f"{_output_title(line)}: a replay gives other content"
        yield from (f"{_output_title(line)}: only a replay gives it" for line in replayed.values())


def _output_key(line: RecordedRecord) -> tuple[str, str | None]:
    return line.topic, ce_attributes(line.record.all_headers).get("id") if line.topic == "diffs" else line.key


def _output_title(line: RecordedRecord) -> str:
    topic, name = _output_key(line)
    return f"{topic} {line.key} {name}" if topic == "diffs" else f"{topic} {name}"


def read_recording(file: IO[bytes], name: str, group: str | None = None) -> Recording:
    """Return a recording, of all groups or of one; raise BadInput with ``name`` and the line if it can't be read."""
    lines = _read_checked_lines(file, name)
    first = next(lines, None)
    if first is None:
        raise BadInput(f"{name}: is empty; write it again with `record`")
    header = _decode(first, RecordingHeader, name, 1)
    if header.layout != _LAYOUT_NAME or header.version != VERSION:
        found_version = f"version {header.version} of {header.layout!r}"
        raise BadInput(f"{name}: {found_version}; this release reads version {VERSION}: record it again")
    log: list[Record] = []
    outputs: list[RecordedRecord] = []
    for line in _read_body_records(lines, name):
        is_numbered = line.topic in ("episodes", "incidents")
        if group is not None and group != ((line.key or "").rpartition("/")[0] if is_numbered else line.key):
            continue
        if line.topic == "membership":
            log.append(line.record)
        else:
            outputs.append(line)
    return Recording(header, log, outputs)


def _read_body_records(lines: Iterator[bytes], name: str) -> Iterator[RecordedRecord]:
    """Yield a recording's records; raise BadInput if its last line, the footer, is missing or has another count."""
    count = 0
    for number, line in enumerate(lines, 2):
        if line.startswith(b'{"records":'):
            if _decode(line, _Footer, name, number).records != count:
                raise BadInput(f"{name}: line {number}: only {count} records precede this line; others are missing")
            if next(lines, None) is not None:
                raise BadInput(f"{name}: line {number + 1}: data follows the last record")
            return
        yield _decode(line, RecordedRecord, name, number)
        count += 1
    raise BadInput(f"{name}: is cut off after line {count + 1}; its last line is missing")


def _read_checked_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the JSON of each line, after a check of its checksum."""
    number = 1
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked_file:
            while line := unpacked_file.readline(_MAX_LINE_BYTES):
                checksum, _, text = line.removesuffix(b"\n").partition(b" ")
                if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
                    raise BadInput(f"{name}: line {number} is damaged: its checksum is wrong")
                yield text
                number += 1
    except gzip.BadGzipFile as error:
        place = f"line {number}" if number > 1 else "is not a recording"
        raise BadInput(f"{name}: {place}: {error}") from error
    except EOFError as error:
        raise BadInput(f"{name}: line {number}: the file is cut off there") from error
    except zlib.error as error:
        raise BadInput(f"{name}: line {number} can't be unpacked: {error}") from error


def _decode(line: bytes, line_type: type[_T], name: str, number: int) -> _T:
    try:
        return msgspec.json.decode(line, type=line_type)
    except DECODE_ERRORS as error:
        raise BadInput(f"{name}: line {number}: {error}") from error
