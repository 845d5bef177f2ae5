"""Whether a client has stopped reading for good, or waits for offsets that will not come.

librdkafka takes every broker off its list that a metadata answer does not name. A broker that is starting or
shutting down may name none, and a client that asked it in that moment has no broker left, not even the address it
was given: it says nothing and never reads again (librdkafka issue 5301). Another client reads on, so that it is
enough to replace the first.

A partition that ends before the place where it is read has lost records: with its leader's disk, or to a leader
that had not copied them all. What is written to it now has offsets that were read before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streaming.kafka.offsets import Place, bounds

if TYPE_CHECKING:
    from streaming.settings.connection import KafkaSettings

#: Seconds without a record after which it is asked whether there are any.
STALL_SECONDS: Final = 5.0


class Stall:
    """Compares what a client has read with what there is, now and then.

    Args:
        settings: how to reach the cluster.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._before: dict[Place, int] = {}
        self._asked: float | None = None

    def look(self, positions: Mapping[Place, int], now: float) -> dict[Place, tuple[int, int]]:
        """Where nothing was read for ``STALL_SECONDS``, before the end or behind it: ``{place: its bounds}``.

        A place before its end counts only while nothing is read anywhere: a client reads one partition after the
        other. Call it while the cluster answers.

        Args:
            positions: ``{(topic, partition): next offset}``, behind markers and deleted records at an end.
            now: seconds, on any clock.

        Raises:
            ClusterUnavailable: nobody tells where the partitions end.
        """
        if self._asked is not None and now - self._asked < STALL_SECONDS:
            return {}
        still = [place for place, offset in positions.items() if self._before.get(place) == offset]
        self._before, self._asked = dict(positions), now
        idle = len(still) == len(positions)
        return {
            place: found
            # Without patience: the reader looks again soon, and reads other partitions meanwhile.
            for place, found in bounds(self._settings, still, patience=0).items()
            if found[1] < positions[place] or (idle and found[1] > positions[place])
        }
