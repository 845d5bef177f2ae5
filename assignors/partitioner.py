"""Which partition a producer sends a record to: murmur2, and what each era of the Java producer did without a key.

=========== ======================================== ==========================================
clients     class                                    here
=========== ======================================== ==========================================
0.8.2 – 2.3 ``DefaultPartitioner``                   :class:`CountingPartitioner`
2.4 – 3.2   ``DefaultPartitioner`` (KIP-480)         :class:`StickyPartitioner`
3.3 –       ``BuiltInPartitioner`` (KIP-794)         :class:`BuiltInPartitioner`
2.4 –       ``RoundRobinPartitioner`` (optional)     ``CountingPartitioner(ignore_keys=True)``
2.4 – 3.9   ``UniformStickyPartitioner`` (optional)  ``StickyPartitioner(ignore_keys=True)``
=========== ======================================== ==========================================

In every era an explicit partition is used as it is, a key (the empty one too) is hashed over *all* partitions,
and only a record without a key takes the rule of its era, over the partitions that have a leader.

``draw`` stands for ``ThreadLocalRandom.nextInt()``: any 32-bit integer, signed or not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from struct import iter_unpack

from assignors.errors import BadInput

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
#: ``Utils.toPositive``: a mask, not an absolute value (``abs(Integer.MIN_VALUE)`` is negative in Java).
POSITIVE = 0x7FFFFFFF


class InvalidPartition(BadInput):
    """The partition can't be sent to."""


def murmur2(key: bytes) -> int:
    """Return the signed 32-bit hash of ``key``, as ``Utils.murmur2(byte[])`` does."""
    whole = len(key) & ~3
    h = _SEED ^ len(key)
    for (word,) in iter_unpack("<I", key[:whole]):
        k = word * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if whole < len(key):
        # The switch of the original falls through: it reads the tail as one short word.
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h > POSITIVE else h


def to_positive(number: int) -> int:
    """``Utils.toPositive``: the sign bit masked away (−1 → 2147483647)."""
    return number & POSITIVE


@lru_cache(maxsize=1 << 14)  # keys of records are group ids, again and again
def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of ``key`` among *all* ``partitions`` of a topic (available or not), 0-based.

    ``BuiltInPartitioner.partitionForKey``. An empty key is a key; a null key has no hash and is for the
    partitioners below.

    Raises:
        InvalidPartition: there is no partition.
    """
    if partitions < 1:
        raise InvalidPartition(f"partitions: {partitions}; a topic has at least 1")
    return to_positive(murmur2(key)) % partitions


Draw = Callable[[], int]


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as the producer's metadata shows it.

    ``partitions`` counts all; ``available`` are those with a leader, ascending; None means all of them.
    """

    partitions: int
    available: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.partitions < 1:
            raise InvalidPartition(f"partitions: {self.partitions}; a topic has at least 1")

    def pick(self, number: int) -> int:
        """The partition at ``number`` (positive) modulo the available ones, or modulo all when none is."""
        if self.available:
            return self.available[number % len(self.available)]
        return number % self.partitions


def explicit_partition(partition: int) -> int:
    """The partition a record names itself (``ProducerRecord.partition``): used as it is.

    Raises:
        InvalidPartition: it is negative; ``ProducerRecord`` refuses it.
    """
    if partition < 0:
        raise InvalidPartition(f"partition: {partition} is negative; leave it out to have one chosen")
    return partition


class _ByKey(ABC):
    """Keys decide, unless they are ignored; records without one take the rule of their era."""

    __slots__ = ("_ignore_keys",)

    def __init__(self, *, ignore_keys: bool) -> None:
        self._ignore_keys = ignore_keys

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """The partition of one record."""
        if key is not None and not self._ignore_keys:
            return partition_for_key(key, view.partitions)
        return self._without_key(topic, view)

    @abstractmethod
    def _without_key(self, topic: str, view: TopicView) -> int: ...


class CountingPartitioner(_ByKey):
    """Without a key: one counter for each topic, +1 with each record, modulo the available partitions.

    Args:
        first: where a topic's counter starts, as a signed 32-bit integer: a random draw in
            ``DefaultPartitioner``, 0 in ``RoundRobinPartitioner``. Called once for each topic.
        ignore_keys: ``RoundRobinPartitioner`` counts records with a key too.
    """

    __slots__ = ("_counters", "_first")

    def __init__(self, first: Draw = int, *, ignore_keys: bool = False) -> None:
        super().__init__(ignore_keys=ignore_keys)
        self._first = first
        self._counters: dict[str, int] = {}

    def _without_key(self, topic: str, view: TopicView) -> int:
        count = self._counters.get(topic)
        if count is None:
            count = self._first()
        # AtomicInteger wraps from 2147483647 to −2147483648; masked, that is one step like any other.
        self._counters[topic] = (count + 1) & 0xFFFFFFFF
        return view.pick(count & POSITIVE)


class StickyPartitioner(_ByKey):
    """Without a key: one partition until the accumulator opens a new batch (``StickyPartitionCache``).

    The producer calls :meth:`on_new_batch` with the partition whose batch was full; records with a key that
    fill a batch elsewhere change nothing.
    """

    __slots__ = ("_current", "_draw")

    def __init__(self, draw: Draw, *, ignore_keys: bool = False) -> None:
        super().__init__(ignore_keys=ignore_keys)
        self._draw = draw
        self._current: dict[str, int] = {}

    def _without_key(self, topic: str, view: TopicView) -> int:
        current = self._current.get(topic)
        return self.on_new_batch(topic, view, -1) if current is None else current

    def on_new_batch(self, topic: str, view: TopicView, previous: int) -> int:
        """The sticky partition after the batch of ``previous`` was closed: another one, if there is another."""
        old = self._current.get(topic)
        if old is not None and old != previous:
            return old
        available = range(view.partitions) if view.available is None else view.available
        if not available:
            new = (self._draw() & POSITIVE) % view.partitions
        elif len(available) == 1:
            new = available[0]
        else:
            new = available[(self._draw() & POSITIVE) % len(available)]
            while new == old:
                new = available[(self._draw() & POSITIVE) % len(available)]
        self._current[topic] = new
        return new


class BuiltInPartitioner:
    """Without a key: one partition until ``batch_size`` bytes went there, the next by inverted queue size.

    One object for each topic, as in ``RecordAccumulator``. Without load statistics (``adaptive`` off, fewer than
    two partitions, or equal queues) every available partition is equally likely; with them partition i has the
    weight ``max(queues) + 1 − queue[i]`` (KIP-794).
    """

    __slots__ = ("_batch_size", "_current", "_draw", "_ids", "_produced", "_table")

    def __init__(self, batch_size: int, draw: Draw) -> None:
        if batch_size < 1:
            raise BadInput(f"batch_size: {batch_size}; at least 1 byte")
        self._batch_size = batch_size
        self._draw = draw
        self._current: int | None = None
        self._produced = 0
        self._table: list[int] | None = None
        self._ids: Sequence[int] = ()

    @property
    def cumulative_frequencies(self) -> list[int] | None:
        """The running sum of the weights, None while the choice is uniform."""
        return self._table

    def partition(self, key: bytes | None, view: TopicView, *, ignore_keys: bool = False) -> int:
        """The partition of one record (``partitioner.ignore.keys``). Report its bytes with :meth:`appended`."""
        if key is not None and not ignore_keys:
            return partition_for_key(key, view.partitions)
        if self._current is None:
            self._current = self._next(view)
        return self._current

    def appended(self, size: int, view: TopicView, *, enable_switch: bool = True) -> None:
        """``size`` bytes of a record without a key were appended to the sticky partition.

        ``enable_switch`` false means that its batch can't be sent yet: the switch waits, up to twice the batch
        size, so that batches are not cut short (``updatePartitionInfo``).
        """
        if self._current is None:
            self._current = self._next(view)
        self._produced += size
        if self._produced >= (self._batch_size if enable_switch else 2 * self._batch_size):
            self._current = self._next(view)
            self._produced = 0

    def update_load(
        self, queue_sizes: Sequence[int] | None, ids: Sequence[int] = (), length: int = -1
    ) -> None:
        """New queue sizes of the partitions ``ids`` that have a leader; None turns adaptation off.

        Only the first ``length`` (all, when negative) take part: those behind answered too slowly
        (``partitioner.availability.timeout.ms``).
        """
        self._table = None
        if queue_sizes is None:
            return
        taking_part = queue_sizes if length < 0 else queue_sizes[:length]
        if not taking_part or len(queue_sizes) < 2:  # noqa: PLR2004 - one partition leaves no choice
            return
        if len(taking_part) == len(queue_sizes) and len(set(taking_part)) == 1:
            return
        top = max(taking_part) + 1
        self._ids = tuple(ids)
        self._table = list(accumulate(top - queue for queue in taking_part))

    def _next(self, view: TopicView) -> int:
        number = self._draw() & POSITIVE
        if self._table is None:
            return view.pick(number)
        return self._ids[bisect_right(self._table, number % self._table[-1])]
