"""Times and lengths of time as people write them: ``2026-01-31T12:00:00Z``; ``12h``, ``30d``, ``8w``; ``20s``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from assignors.errors import BadInput
from streaming.wire.events import MAX_TIMESTAMP

_UNITS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_SHORT: Final = {"ms": 1, "s": 1000, "m": 60_000}
#: More than any time has; Python refuses to read numbers of thousands.
_MOST_DIGITS: Final = 18


class UnreadableDuration(BadInput):
    """Not a length of time."""


class UnreadableTime(BadInput):
    """Not a time."""


def duration_ms(text: str, option: str) -> int:
    """``12h``, ``30d``, ``8w`` in milliseconds; ``option`` is named in the refusal.

    Raises:
        UnreadableDuration: it is none of these.
    """
    read = re.fullmatch(r"([1-9][0-9]{0,5})([hdw])", text)
    if read is None:
        raise UnreadableDuration(f"{option} {text}: write 12h, 30d or 8w")
    return int(read[1]) * _UNITS[read[2]]


def short_ms(text: str, option: str, *, least: int = 0) -> int:
    """``500ms``, ``20s``, ``5m`` in milliseconds, at least ``least``; ``option`` is named in the refusal.

    Raises:
        UnreadableDuration: it is none of these, or too short.
    """
    read = re.fullmatch(r"([0-9]{1,6})(ms|s|m)", text, re.ASCII)
    if read is None or int(read[1]) * _SHORT[read[2]] < least:
        raise UnreadableDuration(
            f"{option} {text}: write 500ms, 20s or 5m{', more than nothing' if least else ''}"
        )
    return int(read[1]) * _SHORT[read[2]]


def time_ms(text: str, option: str) -> int:
    """RFC 3339, or milliseconds since the epoch, in these; without an offset it is UTC.

    ``option`` is named in the refusal.

    Raises:
        UnreadableTime: it is neither, or beyond what records may have.
    """
    refusal = f"{option} {text}: write RFC 3339 (2026-01-31T12:00:00Z) or milliseconds since the epoch"
    if text.isascii() and text.isdigit():
        found = int(text) if len(text) <= _MOST_DIGITS else MAX_TIMESTAMP + 1
    else:
        try:
            moment = datetime.fromisoformat(text)
            found = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise UnreadableTime(refusal) from error
    if not 0 <= found <= MAX_TIMESTAMP:
        raise UnreadableTime(refusal)
    return found
