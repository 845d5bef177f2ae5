"""How many events a batch may have: back-pressure that adapts.

Events differ: one of a large group costs more than one of a small group. So the bound follows the time that
batches take: halved when one took too long, doubled again, up to what was asked for, when full ones are quick.
Spark fixes it when a query starts; a new one costs the query a restart from its checkpoint, which is why it moves
by halves and rarely.
"""

from __future__ import annotations

#: The bound never falls below this part of what was asked for.
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

    def heard(self, events: int, seconds: float) -> None:
        """Take in one batch: the events it read, and how long it took."""
        if self.value is None or self._most is None or not 0 < events <= self.value:
            return  # one that is larger was planned before the bound fell, and is run again as it was
        if seconds > self._seconds:
            self._next = max(1, self._most // _LEAST_PART, events // 2)
        elif events > self.value // 2 and seconds < self._seconds * _QUICK:
            self._next = min(self._most, self.value * 2)

    def moved(self) -> bool:
        """Whether the query has to start again with another bound, which ``value`` then is."""
        moved = self._next != self.value
        self.value = self._next
        return moved
