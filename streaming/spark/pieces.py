"""How many rows Spark hands to Python at a time: as many as have some MB together.

Spark counts rows, not bytes (:data:`PIECE`). Events have from 300 bytes to the
longest record that their topic takes, and a piece is one block of memory: of a backlog of views of large groups
50,000 rows at a time were more than the JVM has, in each start anew, as a batch that was planned is run as it was.
Even where they fitted, new memory of that size is zeroed by the system for every batch: a quarter of a batch's
processor time. So a job begins with few rows, whatever is in the log, and takes more once batches show what events
have. Spark fixes the number when a query starts, so it moves only where that makes a difference.
"""

from __future__ import annotations

from typing import Final

#: Spark's name of the setting.
PIECE: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
#: What a piece is to have. Of some MB, memory is used again and again.
_WANTED: Final = 16 << 20
#: What it may have: two tasks have one each, and twice that while it grows; the JVM has 1 GB unless told otherwise.
_MOST: Final = 128 << 20
#: More rows save nothing.
MOST_ROWS: Final = 4096
#: Events of a batch, and pieces of it, that are worth a restart of the query.
_MANY: Final = 10_000
_FACTOR: Final = 4


class Pieces:
    """The rows of a piece, from what the batches before had.

    Args:
        longest: bytes of the longest record that the membership topic takes.

    Attributes:
        value: rows of a piece of the query as it runs now.
    """

    def __init__(self, longest: int) -> None:
        self.value = self._next = _rows(_MOST, longest)

    def heard(self, events: int, size: int) -> None:
        """Take in one batch: the events it read, and their bytes."""
        if events <= 0 or size <= 0:
            return
        wanted = _rows(_WANTED, size // events)
        more = events >= _MANY and wanted >= self.value * _FACTOR
        less = self.value * size > events * _MOST
        if more or less:
            self._next = wanted

    def moved(self) -> bool:
        """Whether the query has to start again with another number, which ``value`` then is."""
        moved = self._next != self.value
        self.value = self._next
        return moved


def _rows(size: int, each: int) -> int:
    return min(MOST_ROWS, max(1, size // max(1, each)))
