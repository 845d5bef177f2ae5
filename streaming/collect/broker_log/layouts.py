"""Finds a coordinator's message in a log line of any layout.

Operators choose the layout (a log4j pattern, JSON, docker, Kubernetes, a log shipper). Most layouts have the
coordinator's prefix, a logger's name or a timestamp.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Any, Final, NamedTuple

from streaming.collect.broker_log.events import CoordinatorEvent, LogTimestamp
from streaming.collect.broker_log.messages import OPENING_TEXTS, read_message

_CLOCK: Final = (
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[,.](?P<fraction>\d{1,9}))?"
    r"(?:\s?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)(?![\w:]))?"
)
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Dates with their time: ISO 8601 (log4j's default, ``%d{ISO8601}``, CRI, docker), its basic form
#: (``%d{ISO8601_BASIC}``), ``%d{DATE}`` or a web server's, ``dd.MM.yyyy``, and Spark's default (``yy/MM/dd``).
_TIMESTAMP_PATTERNS: Final = (
    re.compile(rf"(?<!\d)(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T]{_CLOCK}", re.ASCII),
    re.compile(
        r"(?<!\d)(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)T(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)"
        r"(?:[,.](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d{4})?(?!\w)",
        re.ASCII,
    ),
    re.compile(
        rf"(?<!\d)(?P<day>\d{{1,2}})[ /-](?P<month>{'|'.join(MONTHS)})[ /-](?P<year>\d{{4}})[ :]{_CLOCK}", re.ASCII
    ),
    re.compile(rf"(?<![\d.])(?P<day>\d\d)\.(?P<month>\d\d)\.(?P<year>\d{{4}}) {_CLOCK}", re.ASCII),
    re.compile(rf"(?<![\d/])(?P<year>\d\d)/(?P<month>\d\d)/(?P<day>\d\d) {_CLOCK}(?= [A-Z]{{4,5}} )", re.ASCII),
)
#: Seconds or milliseconds since the epoch (``%d{UNIX}``, ``%d{UNIX_MILLIS}``), from 2001 to 2286.
_EPOCH_BEGIN_MS, _EPOCH_END_MS = 10**12, 10**13
_EPOCH: Final = re.compile(r"(?<![\w.:-])(?P<ms>\d{13}|(?P<s>\d{10})(?:\.(?P<fraction>\d{1,9}))?)(?![\w.:-])", re.ASCII)


def last_timestamp(text: str) -> LogTimestamp | None:
    """Return the last timestamp in a text; None if the text has no readable timestamp."""
    for pattern in _TIMESTAMP_PATTERNS:
        timestamps = [*filter(None, (timestamp_of(match.groupdict()) for match in pattern.finditer(text)))]
        if timestamps:
            return timestamps[-1]
    timestamps = [_epoch(match) for match in _EPOCH.finditer(text)]
    return timestamps[-1] if timestamps else None


def epoch_timestamp(number: float) -> LogTimestamp | None:
    """Return the timestamp for a number of seconds or milliseconds since the epoch; None if it is out of range."""
    if _EPOCH_BEGIN_MS <= number < _EPOCH_END_MS:
        return LogTimestamp(int(number))
    if _EPOCH_BEGIN_MS <= number * 1000 < _EPOCH_END_MS:
        return LogTimestamp(int(number * 1000), 1 if number % 1 else 1000)
    return None


def timestamp_of(part: Mapping[str, str | Any]) -> LogTimestamp | None:
    """Return the timestamp for the named groups of a match of :data:`_FORMATS`; None if no such date exists."""
    month = int(part["month"]) if part["month"].isdigit() else MONTHS.index(part["month"]) + 1
    year = f"20{part['year']}"[-4:]
    date, time = f"{year}-{month:02}-{part['day']:0>2}", f"{part['hour']:0>2}:{part['minute']}:{part['second']}"
    try:
        second = datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=_parse_zone(part.get("zone")))
    except ValueError:
        return None
    ms, precision_ms = _parse_fraction(part["fraction"])
    return LogTimestamp(int(second.timestamp()) * 1000 + ms, precision_ms)


def _epoch(match: re.Match[str]) -> LogTimestamp:
    if match["s"] is None:
        return LogTimestamp(int(match["ms"]))
    ms, precision_ms = _parse_fraction(match["fraction"])
    return LogTimestamp(int(match["s"]) * 1000 + ms, precision_ms)


def _parse_fraction(digits: str | None) -> tuple[int, int]:
    if digits is None:
        return 0, 1000
    return int(digits[:3].ljust(3, "0")), 10 ** max(0, 3 - len(digits))


def _parse_zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


#: The tested log layouts, for messages to users.
KNOWN_LAYOUTS: Final = (
    "log4j patterns such as `[%d] %p %m (%c)%n`, JSON (log4j2, docker, Kubernetes CRI), logfmt, "
    "and lines behind a prefix of kubectl or docker compose"
)
#: The most levels of nested JSON.
_MAX_JSON_DEPTH: Final = 4
#: The prefix of every message: GroupCoordinator.scala, GroupMetadataManager.scala, GroupCoordinatorService.java.
_LINE_PREFIX: Final = re.compile(
    r"\[(?:GroupCoordinator (?:id=)?[0-9]+(?: topic=[\w.-]+ partition=[0-9]+)?|"
    r"GroupMetadataManager brokerId=[0-9]+)\]:? ?"
)
_OPENING_RE: Final = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(OPENING_TEXTS, key=len, reverse=True)))})")
COLOUR_CODES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_JSON_START: Final = re.compile(r"\{\s*\"")
#: A coordinator's logger, as log4j writes it: ``%c``, ``%c{1}``, ``%logger{36}``, with ``%L`` or ``%M`` or ``%F``.
_LOGGER_NAME: Final = (
    r"(?:[\w$]+\.)*"
    r"(?:coordinator\.group\.[\w.$]+|Group(?:Coordinator|Metadata)\w*|(?:Classic|Generic|Consumer|Share|Streams)Group)"
    r"\$?(?:[.:#][\w.$:<>-]*)?"
)
_LEADING_LOGGER_PATTERN: Final = re.compile(rf"(?<![\w.$])(?!GroupCoordinator (?:id=)?[0-9]){_LOGGER_NAME}")
_TRAILING_LOGGER_PATTERN: Final = re.compile(rf"\s+[(\[]{_LOGGER_NAME}[)\]]")
#: The thread after the message (``%t``), and an empty thread context (``%X``).
_TRAILING_THREAD_NAME: Final = re.compile(
    r"\s+(?:[\[(](?:data-plane-|control-plane-)?"
    r"(?:kafka-request-handler|group-coordinator|group-metadata-manager|executor-|kafka-scheduler|"
    r"metadata-loader|broker-|quorum-controller|pool-|main)[^\[\]()]*[\])]|\{\})\s*\Z"
)
#: JSON fields with a timestamp: ``@timestamp``, ``time``, ``ts``, ``timeMillis``, ``date``, …
_TIME_FIELD: Final = re.compile(r"time|date|\bts\b|^t$|epoch", re.IGNORECASE)
#: A thread or context that may follow a message whose end is unknown.
_TRAILING_BRACKETS: Final = re.compile(r"(?:\s+(?:\[[^\[\]]*\]|\{[^{}]*\}))+\Z")
_QUOTED_TEXT: Final = re.compile(r'(?:[^"\\]|\\.|"")*')


class LogText(NamedTuple):
    """A text in a log line that may contain a coordinator's message.

    Attributes:
        outer: the timestamp of the JSON document around the text.
        fields: the JSON object that has the text as a field; empty if the text is not in JSON.
    """

    text: str
    outer: LogTimestamp | None
    fields: dict[str, Any]


def texts(line: str) -> Iterator[LogText]:
    """Yield the texts in a log line: the line itself, or every string of the JSON in the line."""
    yield from _texts(COLOUR_CODES.sub("", line) if "\x1b" in line else line, None, {}, 0)


def _texts(value: object, outer: LogTimestamp | None, fields: dict[str, Any], depth: int) -> Iterator[LogText]:
    if isinstance(value, str):
        json_start = _JSON_START.search(value) if depth < _MAX_JSON_DEPTH and "payload: {" not in value else None
        document = read_json(value[json_start.start() :]) if json_start else {}
        if json_start and document:
            yield from _texts(document, last_timestamp(value[: json_start.start()]) or outer, {}, depth)
        else:
            yield LogText(value, outer, fields)
    elif isinstance(value, dict) and depth < _MAX_JSON_DEPTH:
        timestamp = field_timestamp(value) or outer
        for nested in value.values():
            yield from _texts(nested, timestamp, value, depth + 1)
    elif isinstance(value, list) and depth < _MAX_JSON_DEPTH:
        for nested in value:
            yield from _texts(nested, outer, fields, depth + 1)


def read_json(text: str) -> dict[str, Any]:
    """Return the JSON object with which a text begins; an empty dict if there is none."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_line(line: str) -> CoordinatorEvent | None:
    """Return the event that a log line reports; None if the line has no known message."""
    if "\x1b" in line:
        line = COLOUR_CODES.sub("", line)
    for text in texts(line) if _JSON_START.search(line) else ():
        if (event := read_text(text)) is not None:
            return event
    return read_text(LogText(line, None, {}))


def read_text(text: LogText) -> CoordinatorEvent | None:
    """Return the coordinator's event that a text from a log line contains; None if it contains no known message."""
    line = text.text.rstrip()
    if (prefix := _LINE_PREFIX.search(line)) is not None:
        return _read_message_at(text, line, prefix.start(), prefix.end())
    for message_start in islice(_OPENING_RE.finditer(line), 5):  # the words may also occur in the operator's layout
        if (event := _read_message_at(text, line, message_start.start(), message_start.start())) is not None:
            return event
    return None


def _read_message_at(context: LogText, line: str, header_end: int, start: int) -> CoordinatorEvent | None:
    header, message = line[:header_end], line[start:]
    is_exact = bool(context.fields) and not header
    if header.endswith('"'):
        message, is_exact = _unquote(message), True
    text = _strip_trailer(message)
    is_exact = is_exact or len(text) < len(message) or _LEADING_LOGGER_PATTERN.search(header) is not None
    timestamp = last_timestamp(header) or last_timestamp(line[start + len(text) :]) or context.outer
    for candidate in (text,) if is_exact else (_strip_end(text, _TRAILING_BRACKETS), text):
        if (event := read_message(candidate, timestamp, is_exact=is_exact)) is not None:
            return event
    return read_message(text, timestamp, is_exact=False, is_beginning=True)


def _unquote(text: str) -> str:
    """Return a text up to its closing quote, without escapes (logfmt: backslashes; CSV: doubled quotes)."""
    quoted_text = _QUOTED_TEXT.match(text)
    return re.sub(r'\\(.)|""', lambda match: match[1] or '"', quoted_text[0] if quoted_text else text, flags=re.DOTALL)


def _strip_trailer(message: str) -> str:
    logger_matches = list(_TRAILING_LOGGER_PATTERN.finditer(message))
    if logger_matches:
        return message[: logger_matches[-1].start()].rstrip()
    for _ in range(3):
        message = _strip_end(message, _TRAILING_THREAD_NAME)
    return message.rstrip()


def _strip_end(text: str, pattern: re.Pattern[str]) -> str:
    match = pattern.search(text, max(0, len(text) - 300))
    return text if match is None else text[: match.start()]


def field_timestamp(fields: dict[str, object]) -> LogTimestamp | None:
    """Return the first timestamp among the fields of a JSON object; None if no field has one."""
    for name, value in fields.items():
        if isinstance(value, dict) and isinstance(seconds := value.get("epochSecond"), int):
            nanoseconds = value.get("nanoOfSecond")
            return epoch_timestamp(seconds + (nanoseconds / 1e9 if isinstance(nanoseconds, int) else 0))
        if not _TIME_FIELD.search(name) or not isinstance(value, str | int | float) or isinstance(value, bool):
            continue
        timestamp = last_timestamp(value) if isinstance(value, str) else epoch_timestamp(value)
        if timestamp is not None:
            return timestamp
    return None
