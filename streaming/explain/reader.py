"""Conversion of a log file's bytes into events of groups, with counts of the lines."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from streaming.collect.broker_log.events import LogTimestamp
from streaming.collect.broker_log.layouts import MONTHS, LogText, last_timestamp, read_text, texts, timestamp_of
from streaming.collect.broker_log.log import LineScanner
from streaming.explain.clients import read_client
from streaming.explain.events import ClientEvent, LogEvent
from streaming.explain.tools import DumpReader, MemberTable

#: Every relevant line contains one of these. Almost all relevant lines contain ``roup``: "group", "Group", "groupId".
_RELEVANT_SUBSTRINGS: Final = (
    b"roup",
    b"CONSUMER-ID",
    b"poll timeout has expired",
    b"member_id was not recognized",
    b"clients.consumer.internals",
)
#: The first of the two lines that ``java.util.logging`` writes per message, with the time, the class and the method.
_TWO_LINE_HEADER: Final = re.compile(r"^\w{3} \d{1,2}, \d{4} [\d:]+ [AP]M org\.apache\.kafka\.")
#: Matches those lines with "group" that are worth decoding.
_RELEVANT_LINE: Final = re.compile(
    rb"ebalanc|[Jj]oin|[Gg]eneration|[Ll]eav|[Ll]eft|epoch|[Aa]ssign|[Rr]evok|fenced|member|Member|oordinator|"
    rb"is dead|is now empty|[Ll]oad|lost|Lost|poll|onverted|session|synced|CONSUMER-ID|changed from|heartbeat"
)
_GROUP_SIZE: Final = re.compile(r"(?:with|The group has) (\d+) members")
#: Matches lines about rebalances, which this module should understand.
_REBALANCE_WORDS: Final = re.compile(r"(?<!trigger r)(?<!trigger a r)ebalanc|LeaveGroup|[Jj]oin.* group")
#: The largest number of events that wait for a line with the name of their group.
_MAX_LINES_WITHOUT_GROUP: Final = 100
_MAX_EXAMPLES: Final = 3
_EXAMPLE_LENGTH: Final = 200


@dataclass(slots=True)
class LineCounts:
    """Counts of the lines in logs.

    Attributes:
        understood_lines: number of lines that reported an event of a group.
        not_understood: number of lines about rebalances without a known message; ``examples`` has the first of them.
        lines_without_group: number of understood lines that are left out, because the log does not name their group.
        newest: the newest timestamp, ms; -1 if there are no timestamps.
    """

    read: int = 0
    understood_lines: int = 0
    not_understood: int = 0
    lines_without_group: int = 0
    examples: list[str] = field(default_factory=list)
    newest: int = -1


class LogReader:
    """Reads one log file that was last written at ``newest_ms``, so that timestamps in it are not newer.

    ``counts``: the counts of all files, to which those of this file are added.
    """

    def __init__(self, name: str, newest_ms: int, counts: LineCounts) -> None:
        self._name, self._newest_ms, self._counts = name, newest_ms, counts
        # Tools list a whole group in one line.
        self._scanner = LineScanner(_RELEVANT_SUBSTRINGS, _RELEVANT_LINE, max_line_bytes=2**20)
        self._table = MemberTable()
        self._dump_reader = DumpReader()
        self._groups: dict[str, str] = {}
        self._named_groups: set[str] = set()
        self._is_named = False
        self._pending_header = ""
        self._waiting_events: deque[LogEvent] = deque(maxlen=_MAX_LINES_WITHOUT_GROUP)

    def read(self, chunk: bytes) -> Iterator[LogEvent]:
        """Yield the events in the lines that end in this chunk of the file."""
        for number, line in self._scanner.scan(chunk):
            yield from self._read_line(number, line)

    def finish(self) -> Iterator[LogEvent]:
        """Yield the events in the last line of a log, if the file does not end with a line break."""
        for number, line in self._scanner.finish():
            yield from self._read_line(number, line)
        self._counts.lines_without_group += len(self._waiting_events)
        last = next(texts(self._scanner.last))
        self._counts.newest = max(self._counts.newest, header_timestamp(last.text, last.outer, self._newest_ms).ms)
        self._counts.read += self._scanner.read

    def _read_line(self, number: int, line: str) -> Iterator[LogEvent]:
        if self._table.columns:
            event = self._table.row(line)
            self._scanner.follow = bool(self._table.columns)
            if event is not None:
                yield self._add_position(event, number)
            if event is not None or self._scanner.follow:
                return
        if "CONSUMER-ID" in line and self._table.header(line):
            self._scanner.follow = True
            return
        if _TWO_LINE_HEADER.match(line):
            self._pending_header, self._scanner.follow = line, True
            return
        event = self._event(line)
        self._pending_header = ""
        if event is None:
            if _REBALANCE_WORDS.search(line) and not self._is_named:
                self._counts.not_understood += 1
                if len(self._counts.examples) < _MAX_EXAMPLES:
                    self._counts.examples.append(line.strip()[:_EXAMPLE_LENGTH])
        elif not event.group_id:
            self._counts.lines_without_group += (
                len(self._waiting_events) == _MAX_LINES_WITHOUT_GROUP
            )  # drops the oldest
            self._waiting_events.append(self._add_position(event, number))
        else:
            for waiting in [*self._waiting_events]:
                if waiting.client is not None and (group := self._group_of(waiting.client)):
                    self._waiting_events.remove(waiting)
                    yield structs.replace(waiting, group_id=group)
            yield self._add_position(event, number)

    def _event(self, line: str) -> LogEvent | None:
        self._is_named = "payload: " in line
        if self._is_named:
            return self._dump_reader.read(line)
        for text in texts(line):
            event = self._coordinator(text) or self._client(text)
            if event is not None:
                return event
        return None

    def _coordinator(self, text: LogText) -> LogEvent | None:
        if "[thrd:" in text.text or ("clientId=" in text.text and "groupId=" in text.text):
            return None  # a client's message
        event = read_text(text)
        if event is None:
            return None
        timestamp = event.timestamp or header_timestamp(text.text, text.outer, self._newest_ms)
        size = _GROUP_SIZE.search(text.text)
        return LogEvent(
            group_id=event.group_id,
            at=timestamp.ms,
            precision_ms=timestamp.precision_ms,
            coordinator=event,
            size=None if size is None else int(size[1]),
            is_empty=" in Empty state" in text.text or " in state Empty" in text.text,
        )

    def _client(self, text: LogText) -> LogEvent | None:
        message = read_client(text, self._name)
        if message is None:
            return None
        event, group = message.event, message.group_id
        self._is_named = event is None  # a client's message about something else
        if group is not None:
            self._named_groups.add(group)
        if event is None:
            return None
        if group is not None:
            self._groups[event.actor] = group
        group = group or self._group_of(event)
        timestamp = header_timestamp(self._pending_header + message.header, text.outer, self._newest_ms)
        return LogEvent(group_id=group, at=timestamp.ms, precision_ms=timestamp.precision_ms, client=event)

    def _group_of(self, event: ClientEvent) -> str:
        """Return the group that the client named, else the log's only group; empty if the log has several or none."""
        return self._groups.get(event.actor) or (next(iter(self._named_groups)) if len(self._named_groups) == 1 else "")

    def _add_position(self, event: LogEvent, number: int) -> LogEvent:
        self._counts.understood_lines += 1
        self._counts.newest = max(self._counts.newest, event.at)
        return structs.replace(event, place=(self._name, number))


#: Text about the log layouts that are tested.
KNOWN_LAYOUTS: Final = (
    "log4j, logback and Spring Boot patterns, Python's logging, librdkafka's and Go's loggers, JSON (log4j2, "
    "docker, Kubernetes), Kubernetes CRI, docker compose, syslog, journald and java.util.logging; "
    "timestamps in ISO 8601, of log4j, or since the epoch"
)
_MONTH_PATTERN: Final = rf"(?<!\w)(?P<month>{'|'.join(MONTHS)})"
_MINUTE_RE: Final = r"(?P<minute>\d\d):(?P<second>\d\d)"
#: Syslog's timestamp has no year.
_DATE_WITHOUT_YEAR: Final = re.compile(
    rf"{_MONTH_PATTERN} +(?P<day>\d{{1,2}}) (?P<hour>\d\d):{_MINUTE_RE}(?:[.,](?P<fraction>\d{{1,6}}))?(?!\d)"
)
#: ``java.util.logging`` and Kibana.
_AMERICAN_TIMESTAMP: Final = re.compile(
    rf"{_MONTH_PATTERN} (?P<day>\d{{1,2}}), (?P<year>\d{{4}})(?: @)? (?P<hour>\d{{1,2}}):{_MINUTE_RE}"
    r"(?:\.(?P<fraction>\d{3}))?(?: (?P<half>[AP])M)?"
)
#: Logback's default pattern has no date.
_NO_DATE: Final = re.compile(rf"(?<![\d:.-])(?<!\d{{4}} )(?P<hour>\d\d):{_MINUTE_RE}[.,](?P<fraction>\d{{3}})(?!\d)")
_DAY_MS: Final = 86_400_000


def header_timestamp(header: str, outer: LogTimestamp | None, newest_ms: int) -> LogTimestamp:
    """Return the first timestamp of: the header's, ``outer``, an American or incomplete one of the header, -1 ms.

    ``outer``: timestamp of the document around the message. ``newest_ms``: modification time of the file, from which
    a missing year or date is derived.
    """
    return last_timestamp(header) or outer or _usa_time(header) or _partial_time(header, newest_ms) or LogTimestamp(-1)


def _usa_time(header: str) -> LogTimestamp | None:
    match = _AMERICAN_TIMESTAMP.search(header)
    if match is None:
        return None
    hour = int(match["hour"]) if match["half"] is None else int(match["hour"]) % 12 + 12 * (match["half"] == "P")
    return timestamp_of({**match.groupdict(), "hour": hour})


def _partial_time(header: str, newest_ms: int) -> LogTimestamp | None:
    """Return the newest possible time of a timestamp without a year or a date, not after the file's modification."""
    newest = datetime.fromtimestamp(newest_ms / 1000, tz=UTC)
    if match := _DATE_WITHOUT_YEAR.search(header):
        for year in (newest.year, newest.year - 1):
            timestamp = timestamp_of({**match.groupdict(), "year": year})
            if timestamp is not None and timestamp.ms <= newest_ms + _DAY_MS:
                return timestamp
    if match := _NO_DATE.search(header):
        date = {"year": newest.year, "month": str(newest.month), "day": newest.day}
        timestamp = timestamp_of({**match.groupdict(), **date})
        if timestamp is not None and timestamp.ms > newest_ms + 1000:
            return LogTimestamp(timestamp.ms - _DAY_MS)
        return timestamp
    return None
