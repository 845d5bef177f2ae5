"""Timestamps of log messages, including timestamps without a year or a date."""

import re
from datetime import UTC, datetime
from typing import Final

from streaming.collect.broker_log.events import LogTimestamp
from streaming.collect.broker_log.layouts import MONTHS, last_timestamp, timestamp_of

#: Text about the log layouts that are tested.
KNOWN_LAYOUTS: Final = (
    "log4j, logback and Spring Boot patterns, Python's logging, librdkafka's and Go's loggers, JSON (log4j2, "
    "docker, Kubernetes), Kubernetes CRI, docker compose, syslog, journald and java.util.logging; "
    "timestamps in ISO 8601, of log4j, or since the epoch"
)
_MONTH_PATTERN: Final = rf"(?<!\w)(?P<month>{'|'.join(MONTHS)})"
_MINUTE: Final = r"(?P<minute>\d\d):(?P<second>\d\d)"
#: Syslog's timestamp has no year.
_DATE_WITHOUT_YEAR: Final = re.compile(
    rf"{_MONTH_PATTERN} +(?P<day>\d{{1,2}}) (?P<hour>\d\d):{_MINUTE}(?:[.,](?P<fraction>\d{{1,6}}))?(?!\d)"
)
#: ``java.util.logging`` and Kibana.
_AMERICAN_TIMESTAMP: Final = re.compile(
    rf"{_MONTH_PATTERN} (?P<day>\d{{1,2}}), (?P<year>\d{{4}})(?: @)? (?P<hour>\d{{1,2}}):{_MINUTE}"
    r"(?:\.(?P<fraction>\d{3}))?(?: (?P<half>[AP])M)?"
)
#: Logback's default pattern has no date.
_NO_DATE: Final = re.compile(rf"(?<![\d:.-])(?<!\d{{4}} )(?P<hour>\d\d):{_MINUTE}[.,](?P<fraction>\d{{3}})(?!\d)")
_DAY_MS: Final = 86_400_000


def timestamp_in(header: str, outside: LogTimestamp | None, newest_ms: int) -> LogTimestamp:
    """Return the first timestamp of: the header's, ``outside``, an American or incomplete one of the header, -1 ms.

    ``outside``: timestamp of the document around the message. ``newest_ms``: modification time of the file, from which
    a missing year or date is derived.
    """
    return last_timestamp(header) or outside or _american(header) or _incomplete(header, newest_ms) or LogTimestamp(-1)


def _american(header: str) -> LogTimestamp | None:
    match = _AMERICAN_TIMESTAMP.search(header)
    if match is None:
        return None
    hour = int(match["hour"]) if match["half"] is None else int(match["hour"]) % 12 + 12 * (match["half"] == "P")
    return timestamp_of({**match.groupdict(), "hour": hour})


def _incomplete(header: str, newest_ms: int) -> LogTimestamp | None:
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
