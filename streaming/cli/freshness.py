"""What ``watch`` says when what it shows may no longer be true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streaming.cli.render import clock
from streaming.freshness.verdict import Freshness
from streaming.process.plain import warn

#: Between two looks.
_LOOK_SECONDS: Final = 1.0


class FreshnessTold:
    """Tells on standard error which part is silent, has stopped or is behind, and when all are well again.

    ``freshness`` is asked with seconds of the monotonic clock.
    """

    def __init__(self, freshness: Callable[[float], Freshness]) -> None:
        self._freshness = freshness
        self._next = float("-inf")
        self._told: str | None = None

    def look(self, now: float, wall: float) -> None:
        """Tell what has changed at ``now``; ``wall`` is the same moment in seconds since the epoch."""
        if now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        found = self._freshness(now)
        if found.late is None:
            if found.known and self._told is not None:
                self._told = None
                warn("All parts of the monitor are heard again, and up to date")
            return
        if found.late.reason != self._told:
            self._told = found.late.reason
            since = found.late.since
            warn(
                f"{self._told} since {clock(since)} ({ago(wall - since / 1000)}): groups may have changed since"
            )


def ago(seconds: float) -> str:
    """``40 s ago``, ``13 min ago``, ``3 h ago``, ``2 d ago``."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if whole >= length:
            return f"{whole // length} {unit} ago"
    return f"{whole} s ago"
