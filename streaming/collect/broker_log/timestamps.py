"""Timestamps of log lines, in the formats of log4j, container runtimes and log shippers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from streaming.collect.broker_log.events import LogTimestamp

_CLOCK: Final = (
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[,.](?P<fraction>\d{1,9}))?"
    r"(?:\s?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)(?![\w:]))?"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Dates with their time: ISO 8601 (log4j's default, ``%d{ISO8601}``, CRI, docker), its basic form
#: (``%d{ISO8601_BASIC}``), and ``%d{DATE}`` or a web server's.
_FORMATS: Final = (
    re.compile(rf"(?<!\d)(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T]{_CLOCK}", re.ASCII),
    re.compile(
        r"(?<!\d)(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)T(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)"
        r"(?:[,.](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d{4})?(?!\w)",
        re.ASCII,
    ),
    re.compile(
        rf"(?<!\d)(?P<day>\d{{1,2}})[ /-](?P<month>{'|'.join(_MONTHS)})[ /-](?P<year>\d{{4}})[ :]{_CLOCK}", re.ASCII
    ),
)
#: Seconds or milliseconds since the epoch (``%d{UNIX}``, ``%d{UNIX_MILLIS}``), from 2001 to 2286.
_EPOCH_BEGIN_MS, _EPOCH_END_MS = 10**12, 10**13
_EPOCH: Final = re.compile(r"(?<![\w.:-])(?P<ms>\d{13}|(?P<s>\d{10})(?:\.(?P<fraction>\d{1,9}))?)(?![\w.:-])", re.ASCII)


def last_timestamp(text: str) -> LogTimestamp | None:
    """Return the last timestamp in a text; None: it has no readable one."""
    for pattern in _FORMATS:
        found = [timestamp for match in pattern.finditer(text) if (timestamp := _dated(match)) is not None]
        if found:
            return found[-1]
    found = [_epoch(match) for match in _EPOCH.finditer(text)]
    return found[-1] if found else None


def epoch_timestamp(number: float) -> LogTimestamp | None:
    """Return the timestamp for seconds or milliseconds since the epoch; None: the number is neither."""
    if _EPOCH_BEGIN_MS <= number < _EPOCH_END_MS:
        return LogTimestamp(int(number))
    if _EPOCH_BEGIN_MS <= number * 1000 < _EPOCH_END_MS:
        return LogTimestamp(int(number * 1000), 1 if number % 1 else 1000)
    return None


def _dated(match: re.Match[str]) -> LogTimestamp | None:
    part = match.groupdict()
    month = part["month"]
    try:
        second = datetime(
            int(part["year"]),
            int(month) if month.isdigit() else _MONTHS.index(month) + 1,
            int(part["day"]),
            int(part["hour"]),
            int(part["minute"]),
            int(part["second"]),
            tzinfo=_zone(part["zone"]),
        )
    except ValueError:
        return None
    ms, precision_ms = _fraction(part["fraction"])
    return LogTimestamp(int(second.timestamp()) * 1000 + ms, precision_ms)


def _epoch(match: re.Match[str]) -> LogTimestamp:
    if match["s"] is None:
        return LogTimestamp(int(match["ms"]))
    ms, precision_ms = _fraction(match["fraction"])
    return LogTimestamp(int(match["s"]) * 1000 + ms, precision_ms)


def _fraction(digits: str | None) -> tuple[int, int]:
    if digits is None:
        return 0, 1000
    return int(digits[:3].ljust(3, "0")), 10 ** max(0, 3 - len(digits))


def _zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
