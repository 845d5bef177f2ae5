"""The message in a line of a log, whatever the layout: header and trailer off, containers unwrapped.

What stands around a message is the broker operator's choice (log4j's pattern, JSON, docker, Kubernetes, a log
shipper). Only three things are common to all: the coordinator's prefix, a logger's name, a timestamp.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from msgspec import structs

from streaming.collect.broker_log.events import CoordinatorEvent, Moment
from streaming.collect.broker_log.messages import OPENINGS, read_beginning, read_message
from streaming.collect.broker_log.moments import epoch_moment, last_moment

#: Layouts that are tested, in words for people.
KNOWN_LAYOUTS: Final = (
    "log4j patterns such as `[%d] %p %m (%c)%n`, JSON (log4j2, docker, Kubernetes CRI), logfmt, "
    "and lines behind a prefix of kubectl or docker compose"
)
#: Characters behind a message, and how many threads or contexts.
_TRAILER_LENGTH: Final = 300
_TRAILERS: Final = 3
#: Words that begin a message may stand in front of it, in what an operator's layout adds.
_OPENINGS_TRIED: Final = 5
#: How deep strings of JSON in JSON are looked at.
_DEPTH: Final = 4
#: The prefix of every message: GroupCoordinator.scala, GroupMetadataManager.scala, GroupCoordinatorService.java.
_PREFIX: Final = re.compile(
    r"\[(?:GroupCoordinator (?:id=)?[0-9]+(?: topic=[\w.-]+ partition=[0-9]+)?|"
    r"GroupMetadataManager brokerId=[0-9]+)\]:? ?"
)
_OPENING: Final = re.compile(
    rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(OPENINGS, key=len, reverse=True)))})"
)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_JSON: Final = re.compile(r"\{\s*\"")
#: A coordinator's logger, as log4j writes it: ``%c``, ``%c{1}``, ``%logger{36}``, with ``%L`` or ``%M`` or ``%F``.
_LOGGER: Final = (
    r"(?:[\w$]+\.)*"
    r"(?:coordinator\.group\.[\w.$]+|Group(?:Coordinator|Metadata)\w*|(?:Classic|Generic|Consumer|Share|Streams)Group)"
    r"\$?(?:[.:#][\w.$:<>-]*)?"
)
_LOGGER_AHEAD: Final = re.compile(rf"(?<![\w.$])(?!GroupCoordinator (?:id=)?[0-9]){_LOGGER}")
_LOGGER_BEHIND: Final = re.compile(rf"\s+[(\[]{_LOGGER}[)\]]")
#: The thread behind the message (``%t``), and an empty thread context (``%X``).
_THREAD_BEHIND: Final = re.compile(
    r"\s+(?:[\[(](?:data-plane-|control-plane-)?"
    r"(?:kafka-request-handler|group-coordinator|group-metadata-manager|executor-|kafka-scheduler|"
    r"metadata-loader|broker-|quorum-controller|pool-|main)[^\[\]()]*[\])]|\{\})\s*\Z"
)
#: Fields of JSON that hold a timestamp: ``@timestamp``, ``time``, ``ts``, ``timeMillis``, ``date``, …
_TIME_FIELD: Final = re.compile(r"time|date|\bts\b|^t$|epoch", re.IGNORECASE)
#: What may be a thread or a context, behind a message of which nothing says where it ends.
_BRACKETS_BEHIND: Final = re.compile(r"(?:\s+(?:\[[^\[\]]*\]|\{[^{}]*\}))+\Z")
_QUOTED: Final = re.compile(r'(?:[^"\\]|\\.|"")*')


class LogLine(NamedTuple):
    """A coordinator's message in a line; ``event`` is None where its wording is not known."""

    event: CoordinatorEvent | None


def read_line(line: str, depth: int = 0) -> LogLine | None:
    """Return the coordinator's message in a line; None: the line has none.

    Args:
        line: one line, without its end.
        depth: how many layers of JSON are unwrapped already.
    """
    if "\x1b" in line:
        line = _COLOURS.sub("", line)
    opened = _JSON.search(line) if depth < _DEPTH else None
    if opened is not None:
        found = _read_json(line[opened.start() :], last_moment(line[: opened.start()]), depth)
        if found is not None:
            return found
    return _read_text(line, is_field=depth > 0)


def _read_text(line: str, *, is_field: bool) -> LogLine | None:
    """``is_field``: the line is a field of JSON, and nothing but the message if that begins it."""
    line = line.rstrip()
    prefix = _PREFIX.search(line)
    if prefix is not None:
        return _read_at(line, prefix.start(), prefix.end(), is_exact=is_field and prefix.start() == 0)
    for opening in islice(_OPENING.finditer(line), _OPENINGS_TRIED):
        start = opening.start()
        found = _read_at(line, start, start, is_exact=is_field and start == 0)
        if found.event is not None:
            return found
    return None


def _read_at(line: str, header_end: int, start: int, *, is_exact: bool = False) -> LogLine:
    """Read the message that begins at ``start``."""
    header, message = line[:header_end], line[start:]
    if header.endswith('"'):
        message, is_exact = _unquoted(message), True
    text = _without_trailer(message)
    is_exact = is_exact or len(text) < len(message) or _LOGGER_AHEAD.search(header) is not None
    moment = last_moment(header) or last_moment(line[start + len(text) :])
    tries = (text,) if is_exact else (_without_end(text, _BRACKETS_BEHIND), text)
    for attempt in tries:
        event = read_message(attempt, moment, is_exact=is_exact)
        if event is not None:
            return LogLine(event)
    return LogLine(read_beginning(text, moment))


def _unquoted(text: str) -> str:
    """Return a text up to the quote that ends it, as logfmt (backslashes) or CSV (doubled quotes) write it."""
    quoted = _QUOTED.match(text)
    return re.sub(r'\\(.)|""', lambda found: found[1] or '"', quoted[0] if quoted else text, flags=re.DOTALL)


def _without_trailer(message: str) -> str:
    loggers = list(_LOGGER_BEHIND.finditer(message))
    if loggers:
        return message[: loggers[-1].start()].rstrip()
    for _ in range(_TRAILERS):
        message = _without_end(message, _THREAD_BEHIND)
    return message.rstrip()


def _without_end(text: str, pattern: re.Pattern[str]) -> str:
    """Return a text without what a pattern finds at its end; only the last characters are looked at."""
    found = pattern.search(text, max(0, len(text) - _TRAILER_LENGTH))
    return text if found is None else text[: found.start()]


def _read_json(text: str, outside: Moment | None, depth: int) -> LogLine | None:
    """Read the JSON that a text begins with; a timestamp in the message's text counts before those around it."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    for inside, moment in _strings(value, outside, depth):
        found = read_line(inside, depth + 1)
        if (
            found is not None
            and found.event is not None
            and found.event.moment is None
            and moment is not None
        ):
            return LogLine(structs.replace(found.event, moment=moment))
        if found is not None:
            return found
    return None


def _strings(value: object, outside: Moment | None, depth: int) -> Iterator[tuple[str, Moment | None]]:
    """Yield the strings of a JSON value, each with the timestamp of the object that it is in."""
    if isinstance(value, str):
        yield value, outside
    elif isinstance(value, dict) and depth < _DEPTH:
        moment = _field_moment(value) or outside
        for inner in value.values():
            yield from _strings(inner, moment, depth + 1)
    elif isinstance(value, list) and depth < _DEPTH:
        for inner in value:
            yield from _strings(inner, outside, depth + 1)


def _field_moment(fields: dict[str, object]) -> Moment | None:
    """Return the timestamp among the fields of a JSON object."""
    for name, value in fields.items():
        if isinstance(value, dict) and isinstance(seconds := value.get("epochSecond"), int):
            nanos = value.get("nanoOfSecond")
            return epoch_moment(seconds + (nanos / 1e9 if isinstance(nanos, int) else 0))
        if not _TIME_FIELD.search(name) or isinstance(value, bool):
            continue
        moment = None
        if isinstance(value, str):
            moment = last_moment(value)
        elif isinstance(value, int | float):
            moment = epoch_moment(value)
        if moment is not None:
            return moment
    return None
