"""murmur2 as ``org.apache.kafka.common.utils.Utils.murmur2``: the hash that places a key.

Java's ``int`` arithmetic wraps at 32 bits. Here each product is cut back with one mask a word, which is all
that the next step looks at.
"""

from __future__ import annotations

from functools import cache
from struct import Struct

SEED = 0x9747B28C
M = 0x5BD1E995
_MASK = 0xFFFFFFFF
#: ``Utils.toPositive``: a mask, not an absolute value (``abs(Integer.MIN_VALUE)`` is negative in Java).
POSITIVE = 0x7FFFFFFF


@cache
def _words(count: int) -> Struct:
    """``count`` little-endian unsigned words. Cached by count: keys of a topic have few lengths."""
    return Struct(f"<{count}I")


#: Keys past this many words are read in one step without keeping the Struct, so that the cache stays small.
_CACHED_WORDS = 64


def murmur2(key: bytes) -> int:
    """The signed 32-bit hash of ``key``, as ``Utils.murmur2(byte[])`` returns it."""
    length = len(key)
    count = length >> 2
    mask, m = _MASK, M
    h = SEED ^ (length & mask)
    if count:
        words = _words(count) if count <= _CACHED_WORDS else Struct(f"<{count}I")
        for k in words.unpack_from(key):
            k = k * m & mask  # noqa: PLW2901 - the loop of the original, word by word
            h = (h * m ^ (k ^ k >> 24) * m) & mask
    if length & 3:
        # The switch of the original falls through: together it reads the tail as one short word.
        h = (h ^ int.from_bytes(key[count << 2 :], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - 0x100000000 if h > POSITIVE else h


def to_positive(number: int) -> int:
    """``Utils.toPositive``: the sign bit masked away (−1 → 2147483647)."""
    return number & POSITIVE


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among *all* ``partitions`` of a topic (available or not), 0-based.

    ``BuiltInPartitioner.partitionForKey``. ``partitions`` is at least 1. An empty key is a key; a null key
    has no hash and is for the partitioners of :mod:`assignors.partitioner.eras`.
    """
    return (murmur2(key) & POSITIVE) % partitions
