"""murmur2 as ``org.apache.kafka.common.utils.Utils.murmur2``: the hash that places a key.

Java's ``int`` arithmetic wraps at 32 bits; Python's does not, so products are cut back with masks.
"""

from __future__ import annotations

from functools import lru_cache
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
    partitioners of :mod:`assignors.partitioner.eras`.

    Raises:
        InvalidPartition: there is no partition.
    """
    if partitions < 1:
        raise InvalidPartition(f"partitions: {partitions}; a topic has at least 1")
    return to_positive(murmur2(key)) % partitions
