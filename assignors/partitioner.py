"""Partitioners of the Java producer (kafka-clients 4.3).

The hash of a key, even of an empty one, selects one of all partitions. Records without a key, or of a producer that
ignores keys, go round-robin (``RoundRobinPartitioner``) or to one partition until a batch is full
(``BuiltInPartitioner``, KIP-794). This module assumes that every partition has a leader and that all queues are
equally long.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count
from struct import iter_unpack

from assignors.errors import BadInput

_SEED = 0x9747B28C
_MURMUR_MULTIPLIER = 0x5BD1E995
_UINT32_MASK = 0xFFFFFFFF
#: A mask, not an absolute value: ``abs(Integer.MIN_VALUE)`` is negative in Java.
_SIGN_MASK = 0x7FFFFFFF


class InvalidPartition(BadInput):
    """The partition number or the partition count is invalid."""


def murmur2(key: bytes) -> int:
    """Return the signed 32-bit hash of ``key``, as ``Utils.murmur2(byte[])`` does."""
    whole_words_end = len(key) & ~3
    h = _SEED ^ len(key)
    for (word,) in iter_unpack("<I", key[:whole_words_end]):
        k = word * _MURMUR_MULTIPLIER & _UINT32_MASK
        h = (h * _MURMUR_MULTIPLIER ^ (k ^ k >> 24) * _MURMUR_MULTIPLIER) & _UINT32_MASK
    if whole_words_end < len(key):
        # The switch in Java's murmur2 falls through, so it reads the tail as one short word.
        h = (h ^ int.from_bytes(key[whole_words_end:], "little")) * _MURMUR_MULTIPLIER & _UINT32_MASK
    h = (h ^ h >> 13) * _MURMUR_MULTIPLIER & _UINT32_MASK
    h ^= h >> 15
    return h - (1 << 32) if h > _SIGN_MASK else h


def to_positive(number: int) -> int:
    """Return the number without its sign bit, as ``Utils.toPositive`` does (−1 → 2147483647)."""
    return number & _SIGN_MASK


@lru_cache(maxsize=1 << 14)  # Most keys of the monitor's records are group ids.
def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of ``key`` among *all* ``partitions`` of a topic (available or not), 0-based.

    Same as ``BuiltInPartitioner.partitionForKey``. An empty key has a hash; a null key does not.
    """
    if partitions < 1:
        raise InvalidPartition(f"partitions: {partitions}; must be at least 1")
    return to_positive(murmur2(key)) % partitions


def round_robin(partitions: int, start: int = 0) -> Iterator[int]:
    """Yield the partition of each successive record under ``RoundRobinPartitioner``, whatever the record's key is.

    Its AtomicInteger wraps from 2147483647 to −2147483648; without its sign bit the counter then continues at 0.
    """
    return (to_positive(number) % partitions for number in count(start))


class BuiltInPartitioner:
    """Sticky partitioner: sends ``batch_size`` bytes to one partition, then switches to another random partition."""

    def __init__(self, partitions: int, batch_size: int, random_number: Callable[[], int]) -> None:
        if batch_size < 1:
            raise BadInput(f"batch_size: {batch_size}; must be at least 1 byte")
        self._partitions, self._batch_size, self._random_number = partitions, batch_size, random_number
        self._batch_bytes = 0
        self._current = to_positive(random_number()) % partitions

    def append(self, size: int) -> int:
        """Add a record of ``size`` bytes to the batch, and return the record's partition."""
        partition = self._current
        self._batch_bytes += size
        if self._batch_bytes >= self._batch_size:
            self._batch_bytes = 0
            self._current = to_positive(self._random_number()) % self._partitions
        return partition
