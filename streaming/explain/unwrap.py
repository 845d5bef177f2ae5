"""The texts in a line of a log: containers and JSON unwrapped, each text with the timestamp around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from streaming.collect.broker_log.events import LogTimestamp
from streaming.collect.broker_log.layouts import epoch_timestamp, last_timestamp

#: Layouts that are tested, in words for people.
KNOWN_LAYOUTS: Final = (
    "log4j, logback and Spring Boot patterns, Python's logging, librdkafka's and Go's loggers, JSON (log4j2, "
    "docker, Kubernetes), Kubernetes CRI, docker compose, syslog, journald and java.util.logging; "
    "timestamps in ISO 8601, of log4j, or since the epoch"
)
_DEPTH: Final = 4
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TIME_FIELD: Final = re.compile(r"time|date|\bts\b|^t$|epoch", re.IGNORECASE)
_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
#: Syslog's timestamp has no year.
_NO_YEAR: Final = re.compile(rf"(?<!\w)({_MONTHS}) +(\d{{1,2}}) (\d\d):(\d\d):(\d\d)(?:[.,](\d{{1,6}}))?(?!\d)")
#: ``java.util.logging`` and Kibana.
_AMERICAN: Final = re.compile(
    rf"(?<!\w)({_MONTHS}) (\d{{1,2}}), (\d{{4}})(?: @)? (\d{{1,2}}):(\d\d):(\d\d)(?:\.(\d{{3}}))?(?: ([AP])M)?"
)
#: Logback's default pattern has no date.
_NO_DATE: Final = re.compile(r"(?<![\d:.-])(\d\d):(\d\d):(\d\d)[.,](\d{3})(?!\d)")
_DAY_MS: Final = 86_400_000


class Text(NamedTuple):
    """A text that may be a message.

    Attributes:
        text: with what is before the message.
        outside: the timestamp of what the text was wrapped in.
        fields: the JSON object that the text is a field of; empty: it is none.
    """

    text: str
    outside: LogTimestamp | None
    fields: dict[str, object]


def texts(line: str) -> Iterator[Text]:
    """Yield the texts in a line: the line itself, or the strings of the JSON that it has."""
    if "\x1b" in line:
        line = _COLOURS.sub("", line)
    yield from _texts(line, None, {}, 0)


def _texts(text: str, outside: LogTimestamp | None, fields: dict[str, object], depth: int) -> Iterator[Text]:
    opened = text.find('{"') if depth < _DEPTH else -1
    if opened >= 0 and "payload: {" not in text:
        try:
            value, _ = json.JSONDecoder().raw_decode(text[opened:])
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            moment = _field_timestamp(value) or last_timestamp(text[:opened]) or outside
            for inner in value.values():
                if isinstance(inner, str):
                    for part in inner.splitlines()[:1]:
                        yield from _texts(part, moment, value, depth + 1)
                elif isinstance(inner, dict):
                    yield from _texts(json.dumps(inner), moment, {}, depth + 1)
            return
    yield Text(text, outside, fields)


def _field_timestamp(fields: dict[str, object]) -> LogTimestamp | None:
    for name, value in fields.items():
        if isinstance(value, dict) and isinstance(seconds := value.get("epochSecond"), int):
            nanos = value.get("nanoOfSecond")
            return epoch_timestamp(seconds + (nanos / 1e9 if isinstance(nanos, int) else 0))
        if not _TIME_FIELD.search(name) or isinstance(value, bool):
            continue
        if isinstance(value, str) and (moment := last_timestamp(value)) is not None:
            return moment
        if isinstance(value, int | float) and (moment := epoch_timestamp(value)) is not None:
            return moment
    return None


def moment_of(header: str, outside: LogTimestamp | None, newest_ms: int) -> LogTimestamp | None:
    """Return the timestamp of a message.

    Args:
        header: the text before the message.
        outside: the timestamp of what it was wrapped in.
        newest_ms: no message is newer: the time of the file. It gives the year, or the day, that a header lacks.
    """
    return last_timestamp(header) or outside or _american(header) or _incomplete(header, newest_ms)


def _american(header: str) -> LogTimestamp | None:
    match = _AMERICAN.search(header)
    if match is None:
        return None
    hour = int(match[4]) if match[8] is None else int(match[4]) % 12 + 12 * (match[8] == "P")
    month = _MONTHS.split("|").index(match[1]) + 1
    try:
        at = datetime(int(match[3]), month, int(match[2]), hour, int(match[5]), int(match[6]), tzinfo=UTC)
    except ValueError:
        return None
    return LogTimestamp(int(at.timestamp()) * 1000 + int(match[7] or 0), 1 if match[7] else 1000)


def _incomplete(header: str, newest_ms: int) -> LogTimestamp | None:
    """Return the newest moment, up to the file's, that a timestamp without a year or a date can mean."""
    newest = datetime.fromtimestamp(newest_ms / 1000, tz=UTC)
    match = _NO_YEAR.search(header)
    if match is not None:
        month = _MONTHS.split("|").index(match[1]) + 1
        for year in (newest.year, newest.year - 1):
            try:
                at = datetime(year, month, int(match[2]), int(match[3]), int(match[4]), int(match[5]), tzinfo=UTC)
            except ValueError:
                continue
            ms = int(at.timestamp()) * 1000 + int((match[6] or "0").ljust(3, "0")[:3])
            if ms <= newest_ms + _DAY_MS:
                return LogTimestamp(ms, 1 if match[6] else 1000)
    match = _NO_DATE.search(header)
    if match is None:
        return None
    hours, minutes, seconds, ms = map(int, match.groups())
    day = newest_ms - newest_ms % _DAY_MS
    at_ms = day + ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms
    return LogTimestamp(at_ms if at_ms <= newest_ms + 1000 else at_ms - _DAY_MS)
