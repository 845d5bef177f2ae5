"""The texts in a line of a log: containers and JSON unwrapped, each text with the timestamp around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from streaming.collect.broker_log.events import LogTimestamp
from streaming.collect.broker_log.layouts import COLOURS, MONTHS, field_timestamp, last_timestamp, timestamp_of

#: Layouts that are tested, in words for people.
KNOWN_LAYOUTS: Final = (
    "log4j, logback and Spring Boot patterns, Python's logging, librdkafka's and Go's loggers, JSON (log4j2, "
    "docker, Kubernetes), Kubernetes CRI, docker compose, syslog, journald and java.util.logging; "
    "timestamps in ISO 8601, of log4j, or since the epoch"
)
_DEPTH: Final = 4
_MONTH: Final = rf"(?<!\w)(?P<month>{'|'.join(MONTHS)})"
_MINUTE: Final = r"(?P<minute>\d\d):(?P<second>\d\d)"
#: Syslog's timestamp has no year.
_NO_YEAR: Final = re.compile(
    rf"{_MONTH} +(?P<day>\d{{1,2}}) (?P<hour>\d\d):{_MINUTE}(?:[.,](?P<fraction>\d{{1,6}}))?(?!\d)"
)
#: ``java.util.logging`` and Kibana.
_AMERICAN: Final = re.compile(
    rf"{_MONTH} (?P<day>\d{{1,2}}), (?P<year>\d{{4}})(?: @)? (?P<hour>\d{{1,2}}):{_MINUTE}"
    r"(?:\.(?P<fraction>\d{3}))?(?: (?P<half>[AP])M)?"
)
#: Logback's default pattern has no date.
_NO_DATE: Final = re.compile(rf"(?<![\d:.-])(?P<hour>\d\d):{_MINUTE}[.,](?P<fraction>\d{{3}})(?!\d)")
_DAY_MS: Final = 86_400_000


class Text(NamedTuple):
    """A text that may be a message, behind its header.

    Attributes:
        outside: the timestamp of the document around the text.
        fields: the JSON object that the text is a field of; empty: it is none.
    """

    text: str
    outside: LogTimestamp | None
    fields: dict[str, Any]


def texts(line: str) -> Iterator[Text]:
    """Yield the texts in a line: the line itself, or the strings of the JSON in it."""
    yield from _texts(COLOURS.sub("", line) if "\x1b" in line else line, None, {}, 0)


def _texts(text: str, outside: LogTimestamp | None, fields: dict[str, Any], depth: int) -> Iterator[Text]:
    opened = text.find('{"') if depth < _DEPTH and "payload: {" not in text else -1
    value = read_json(text[opened:]) if opened >= 0 else {}
    if not value:
        yield Text(text, outside, fields)
        return
    timestamp = field_timestamp(value) or last_timestamp(text[:opened]) or outside
    for inner in value.values():
        if isinstance(inner, str) and inner:
            yield from _texts(inner.splitlines()[0], timestamp, value, depth + 1)
        elif isinstance(inner, dict):
            yield from _texts(json.dumps(inner), timestamp, {}, depth + 1)


def read_json(text: str) -> dict[str, Any]:
    """Return the JSON object that a text begins with; empty: there is none."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def timestamp_in(header: str, outside: LogTimestamp | None, newest_ms: int) -> LogTimestamp:
    """Return the timestamp in a message's header, else ``outside``, that of the document around it; -1 ms: none.

    ``newest_ms``: the time of the file. It gives the year, or the day, that a header lacks.
    """
    return last_timestamp(header) or outside or _american(header) or _incomplete(header, newest_ms) or LogTimestamp(-1)


def _american(header: str) -> LogTimestamp | None:
    match = _AMERICAN.search(header)
    if match is None:
        return None
    hour = int(match["hour"]) if match["half"] is None else int(match["hour"]) % 12 + 12 * (match["half"] == "P")
    return timestamp_of({**match.groupdict(), "hour": hour})


def _incomplete(header: str, newest_ms: int) -> LogTimestamp | None:
    """Return the newest time, up to the file's, that a timestamp without a year or a date can mean."""
    newest = datetime.fromtimestamp(newest_ms / 1000, tz=UTC)
    if match := _NO_YEAR.search(header):
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
