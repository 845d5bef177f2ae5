"""murmur2 as ``org.apache.kafka.common.utils.Utils.murmur2``: the hash that places a key.

Java's ``int`` arithmetic wraps at 32 bits; Python's does not, so products are cut back with masks, as late as
the next step allows. The hash of a word ``k`` is ``(k·m ^ k·m >>> 24)·m`` and needs nothing of the words before
it: keys of 16 bytes and more compute it for all their words at once, as 64-bit lanes of one large integer, which
saves most of the interpreter's steps. Shorter keys are mixed word by word, without a loop
(docs/benchmarks.md has the figures).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from assignors.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 0x9747B28C
M = 0x5BD1E995
_MASK = 0xFFFFFFFF
#: ``Utils.toPositive``: a mask, not an absolute value (``abs(Integer.MIN_VALUE)`` is negative in Java).
POSITIVE = 0x7FFFFFFF

#: More words than this are mixed one by one too, so that no constants are kept for keys of rare lengths.
_MANY_WORDS = 64


class InvalidPartition(BadInput):
    """The partition can't be sent to."""


#: Constants for keys of one word count: the even and the odd words, how far the odd ones move up, every word, the
#: lowest byte of every word, bytes in all, their reader, and half of the lanes. A plain tuple: it unpacks fastest.
_Lanes = tuple[int, int, int, int, int, int, "Callable[[bytes], tuple[int, ...]]", int]


def _lanes(count: int) -> _Lanes:
    """Even words fill the lower 64-bit lanes, odd words the upper ones; with an odd count the last is empty."""
    half = (count + 1) // 2
    lower = sum(1 << 64 * lane for lane in range(half))
    every = lower | lower << 64 * half
    odd = (lower * _MASK << 32) & ((1 << 32 * count) - 1)
    reader = Struct(f"<{2 * half}Q").unpack
    return lower * _MASK, odd, 64 * half - 32, every * _MASK, every * 0xFF, 16 * half, reader, half


_LANES = [_lanes(count) for count in range(_MANY_WORDS + 1)]
_ONE, _TWO, _THREE = (Struct(f"<{count}I").unpack_from for count in (1, 2, 3))
#: What the first word meets, by the length of a key below 16 bytes: the seed ^ the length, times m.
_STARTS = [(SEED ^ length) * M & _MASK for length in range(16)]
_from_bytes = int.from_bytes


def murmur2(key: bytes) -> int:
    """The signed 32-bit hash of ``key``, as ``Utils.murmur2(byte[])`` returns it."""
    # Constants stand as literals here: a global or a local name costs a tenth of the whole hash.
    length = len(key)
    if length < 4:  # noqa: PLR2004 - bytes in a word
        h = 0x9747B28C ^ length
    elif length < 8:  # noqa: PLR2004 - in two
        (k,) = _ONE(key)
        k = k * 0x5BD1E995 & 0xFFFFFFFF
        h = (_STARTS[length] ^ (k ^ k >> 24) * 0x5BD1E995) & 0xFFFFFFFF
    elif length < 12:  # noqa: PLR2004 - in three
        k, n = _TWO(key)
        k = k * 0x5BD1E995 & 0xFFFFFFFF
        n = n * 0x5BD1E995 & 0xFFFFFFFF
        h = (_STARTS[length] ^ (k ^ k >> 24) * 0x5BD1E995) * 0x5BD1E995
        h = (h ^ (n ^ n >> 24) * 0x5BD1E995) & 0xFFFFFFFF
    elif length < 16:  # noqa: PLR2004 - in four
        k, n, o = _THREE(key)
        k = k * 0x5BD1E995 & 0xFFFFFFFF
        n = n * 0x5BD1E995 & 0xFFFFFFFF
        o = o * 0x5BD1E995 & 0xFFFFFFFF
        h = (_STARTS[length] ^ (k ^ k >> 24) * 0x5BD1E995) * 0x5BD1E995
        h = (h ^ (n ^ n >> 24) * 0x5BD1E995) & 0xFFFFFFFF
        h = (h * 0x5BD1E995 ^ (o ^ o >> 24) * 0x5BD1E995) & 0xFFFFFFFF
    else:
        h = _long(key, length)
    if length & 3:
        # The switch of the original falls through: it reads the tail as one short word.
        h = (h ^ _from_bytes(key[length & -4 :], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 15
    return h - 0x100000000 if h > 0x7FFFFFFF else h  # noqa: PLR2004 - POSITIVE


def _long(key: bytes, length: int) -> int:
    """All whole words of a key of 16 bytes and more, mixed in."""
    count = length >> 2
    h = 0x9747B28C ^ length
    if count > _MANY_WORDS:
        for word in Struct(f"<{count}I").unpack_from(key):
            k = word * 0x5BD1E995 & 0xFFFFFFFF
            h = (h * 0x5BD1E995 ^ (k ^ k >> 24) * 0x5BD1E995) & 0xFFFFFFFF
        return h
    even, odd, shift, words, low_bytes, size, unpack, half = _LANES[count]
    k = _from_bytes(key, "little")
    k = (k & even | (k & odd) << shift) * 0x5BD1E995 & words
    # No lane overflows into the next: a 32-bit word times m has 63 bits.
    mixed = unpack(((k ^ k >> 24 & low_bytes) * 0x5BD1E995).to_bytes(size, "little"))
    if count == 4:  # noqa: PLR2004 - UUIDs: without a loop a third faster
        a, c, b, d = mixed
        h = ((h * 0x5BD1E995 ^ a) * 0x5BD1E995 ^ b) & 0xFFFFFFFF
        return ((h * 0x5BD1E995 ^ c) * 0x5BD1E995 ^ d) & 0xFFFFFFFF
    for a, b in zip(mixed[: count >> 1], mixed[half:]):  # noqa: B905 - `strict` costs too much here
        h = ((h * 0x5BD1E995 ^ a) * 0x5BD1E995 ^ b) & 0xFFFFFFFF
    if count & 1:
        h = (h * 0x5BD1E995 ^ mixed[half - 1]) & 0xFFFFFFFF
    return h


def to_positive(number: int) -> int:
    """``Utils.toPositive``: the sign bit masked away (−1 → 2147483647)."""
    return number & POSITIVE


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among *all* ``partitions`` of a topic (available or not), 0-based.

    ``BuiltInPartitioner.partitionForKey``. An empty key is a key; a null key has no hash and is for the
    partitioners of :mod:`assignors.partitioner.eras`.

    Raises:
        InvalidPartition: there is no partition.
    """
    if partitions < 1:
        raise InvalidPartition(f"partitions: {partitions}; a topic has at least 1")
    return (murmur2(key) & POSITIVE) % partitions
