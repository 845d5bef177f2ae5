"""Lengths of time as people write them: ``12h``, ``30d``, ``8w``."""

from __future__ import annotations

import re
from typing import Final

from assignors.errors import BadInput

_UNITS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


class UnreadableDuration(BadInput):
    """Not a length of time."""


def duration_ms(text: str, option: str) -> int:
    """``12h``, ``30d``, ``8w`` in milliseconds; ``option`` is named in the refusal.

    Raises:
        UnreadableDuration: it is none of these.
    """
    read = re.fullmatch(r"([1-9][0-9]{0,5})([hdw])", text)
    if read is None:
        raise UnreadableDuration(f"{option} {text}: write 12h, 30d or 8w")
    return int(read[1]) * _UNITS[read[2]]
