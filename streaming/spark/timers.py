"""When the next session timeout of any group is due, as far as the buckets have told."""

from __future__ import annotations

from collections.abc import Mapping

#: Ticks are at least this far apart: a batch needs time to answer.
_APART_SECONDS = 0.5


class Timers:
    """The next timer of every bucket.

    Until all buckets have told theirs with :meth:`heard`, which the first tick makes them do, nothing is due.
    """

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._last = float("-inf")
        self._first = True

    def heard(self, due: Mapping[int, int]) -> None:
        """Take in what buckets told: when their next timers are due, ms since the epoch, 0 for none."""
        self._due.update(due)

    def due(self, now: float) -> bool:
        """Whether to tick at ``now`` (seconds since the epoch); if so, it counts as done."""
        earliest = min((ms for ms in self._due.values() if ms), default=None)
        wanted = self._first or (earliest is not None and earliest <= now * 1000)
        if not wanted or now - self._last < _APART_SECONDS:
            return False
        self._first = False
        self._last = now
        return True
