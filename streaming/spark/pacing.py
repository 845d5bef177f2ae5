"""How large the next batch may be, and when the next tick is due: pure.

Events differ: one of a large group costs more than one of a small group. So the limit follows the time that
batches take. It is halved after one that took too long, and doubled again, up to what was configured, while full
ones are quick. It follows their bytes too: a batch is sorted in its tasks' memory, and a larger one goes through
files. Spark fixes the limit when a query starts, so a new one costs a restart of the query from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Bytes that a batch may have, and those of one after it had more: a JVM of 1 GB sorts some 400 MB in memory.
_MOST_BYTES = 256 << 20
_WANTED_BYTES = 192 << 20
#: For their time's sake batches never have less than this part of the configured limit.
_LEAST_PART = 64
#: A full batch that took less than this part of the configured time shows that twice as many would do.
_QUICK = 1 / 8
#: Ticks are at least this far apart: a batch needs time to answer.
_APART_SECONDS = 0.5


class BatchLimit:
    """Most events of a batch.

    Attributes:
        value: the limit of the query that runs; None when there is none.
    """

    def __init__(self, most: int | None, seconds: float) -> None:
        self.value = most
        self._most = most
        self._seconds = seconds
        self._next = most

    def batch_ended(self, events: int, seconds: float, size: int) -> None:
        """Take in a batch: the events it read, how long it took, and the bytes of its events."""
        if self.value is None or self._most is None or not 0 < events <= self.value:
            return  # a larger batch was planned before the limit fell
        if size > _MOST_BYTES:
            self._next = max(1, events * _WANTED_BYTES // size)
        elif seconds > self._seconds:
            self._next = max(1, min(self.value, self._most // _LEAST_PART), events // 2)
        elif events > self.value // 2 and seconds < self._seconds * _QUICK and 2 * size <= _MOST_BYTES:
            self._next = min(self._most, self.value * 2)

    def moved(self) -> bool:
        """Return whether the query must start again with another limit, which ``value`` then is."""
        moved = self._next != self.value
        self.value = self._next
        return moved


class Timers:
    """The next timer of every bucket. Nothing is due until all buckets reported theirs, after the first tick."""

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._last = float("-inf")
        self._first = True

    def report(self, due: Mapping[int, int]) -> None:
        """Take in when buckets' next timers are due, ms since the epoch, 0 for none."""
        self._due.update(due)

    def due(self, now: float) -> bool:
        """Return whether to tick at ``now`` (seconds since the epoch); a tick counts as done."""
        earliest = min((ms for ms in self._due.values() if ms), default=None)
        wanted = self._first or (earliest is not None and earliest <= now * 1000)
        if not wanted or now - self._last < _APART_SECONDS:
            return False
        self._first = False
        self._last = now
        return True
