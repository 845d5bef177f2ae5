"""The membership topic got more partitions: when the new ones may be read without breaking a group's order.

A group whose key now hashes to a new partition has older events in an old one, and nothing in Kafka or Spark says
that those come first: a batch that is bounded takes a share of every partition. So the query goes on with the
partitions it knows, until

1. producers have had time to notice (:data:`SETTLE_SECONDS`), and
2. everything that stood in the old partitions then has been read.

Then it is started again with all of them. What an event of a moved group waits is that time, once. It needs growth
by a whole multiple (4 → 8), where a group either stays or moves to a new partition; otherwise groups move between
old partitions too, which no reader can put in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A little longer than this project's producers rely on the partition count that they know.
SETTLE_SECONDS = 35.0


class Growth:
    """From the first sight of new partitions to the moment they may be read. ``now`` is seconds since the epoch."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.partitions = partitions
        self.target = partitions
        self._topic = topic
        self._since = 0.0
        self._ends: dict[int, int] | None = None
        self._ends_at = 0.0
        self._offsets: dict[int, int] = {}
        self._idle_at = 0.0

    def seen(self, partitions: int, now: float) -> bool:
        """Take in how many partitions the topic has; True when that is news."""
        if partitions <= self.target:
            return False
        self.target = partitions
        self._since, self._ends = now, None
        return True

    @property
    def offsets(self) -> Mapping[int, int]:
        """The next offset of each partition, as of the last batch."""
        return self._offsets

    @property
    def pending(self) -> bool:
        """Whether there are partitions that are not read yet."""
        return self.target > self.partitions

    @property
    def in_order(self) -> bool:
        """Whether each group stays or moves to a new partition."""
        return self.target % self.partitions == 0

    def wants_ends(self, now: float) -> bool:
        """Whether it is time to ask where the old partitions end."""
        return self.pending and self._ends is None and now - self._since >= SETTLE_SECONDS

    def ends(self, ends: Mapping[int, int], now: float) -> None:
        """Where the old partitions ended at ``now``, after producers had settled."""
        self._ends, self._ends_at = dict(ends), now

    def progress(self, progress: Mapping[str, Any], at: float) -> None:
        """Take in a batch, or a look that found nothing (no ``sources``) at ``at``."""
        if "sources" not in progress:
            self._idle_at = at
        for source in progress.get("sources", ()):
            offsets = (source.get("endOffset") or {}).get(self._topic)
            if offsets is not None:
                self._offsets = {int(number): int(offset) for number, offset in offsets.items()}

    def ready(self) -> bool:
        """Whether everything that stood in the old partitions has been read."""
        if not self.pending or self._ends is None:
            return False
        read = all(self._offsets.get(number, -1) >= end for number, end in self._ends.items())
        return read or self._idle_at > self._ends_at

    def done(self) -> None:
        """All partitions are read from now on."""
        self.partitions = self.target
        self._ends = None
