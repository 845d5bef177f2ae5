"""How many events a batch may have: back-pressure that adapts.

Events differ: one of a large group costs more than one of a small group. So the bound follows the time that
batches take: halved when one took too long, doubled again, up to what was asked for, when full ones are quick. And
it follows their bytes: a batch is sorted in its tasks' memory, and goes through files where that has no room.
Spark fixes it when a query starts; a new one costs the query a restart from its checkpoint, which is why it moves
by halves and rarely.
"""

from __future__ import annotations

#: What a batch may have, and what one has after one that had more: a JVM of 1 GB sorts some 400 MB in memory.
_MOST_BYTES = 256 << 20
_WANTED_BYTES = 192 << 20
#: For their time's sake batches never have less than this part of what was asked for.
_LEAST_PART = 64
#: A full batch that took less than this part of the time asked for shows that twice as many would do.
_QUICK = 1 / 8


class Bound:
    """The bound of the next batch, from what the batches before it took.

    Attributes:
        value: the most events in a batch of the query as it runs now; None when there is no bound to adapt.
    """

    def __init__(self, most: int | None, seconds: float) -> None:
        self.value = most
        self._most = most
        self._seconds = seconds
        self._next = most

    def heard(self, events: int, seconds: float, size: int) -> None:
        """Take in one batch: the events it read, how long it took, and the bytes of its events."""
        if self.value is None or self._most is None or not 0 < events <= self.value:
            return  # one that is larger was planned before the bound fell, and is run again as it was
        if size > _MOST_BYTES:
            self._next = max(1, events * _WANTED_BYTES // size)
        elif seconds > self._seconds:
            self._next = max(1, min(self.value, self._most // _LEAST_PART), events // 2)
        elif events > self.value // 2 and seconds < self._seconds * _QUICK and 2 * size <= _MOST_BYTES:
            self._next = min(self._most, self.value * 2)

    def moved(self) -> bool:
        """Whether the query has to start again with another bound, which ``value`` then is."""
        moved = self._next != self.value
        self.value = self._next
        return moved
