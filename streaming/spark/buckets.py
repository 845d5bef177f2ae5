"""The numbers of the buckets, chosen so that Spark shares them out evenly.

A bucket goes to the task ``pmod(murmur3(number), tasks)``. Of the numbers 0 to 15 two tasks get 7 and 9, and a
batch takes as long as the longer of them; numbers whose hashes leave every remainder once give each task the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from zlib import crc32

from streaming.monitor.bucket_state import Bucket

_MASK = 0xFFFFFFFF
#: Spark's seed for hash partitioning.
_SEED = 42
#: Above it chance is even enough, and the query's plan would grow with the list.
_CHOSEN_UP_TO = 256


def bucket_numbers(buckets: int) -> list[int]:
    """The numbers of so many buckets: with any number of tasks that divides ``buckets`` each gets as many."""
    if buckets > _CHOSEN_UP_TO:
        return list(range(buckets))
    found: dict[int, int] = {}
    number = 0
    while len(found) < buckets:
        found.setdefault(murmur3(number) % buckets, number)
        number += 1
    return [found[place] for place in range(buckets)]


def regrouped(blobs: Iterable[bytes], buckets: int) -> dict[int, bytes]:
    """The same groups in so many buckets: the blob of each number that has groups.

    A group's place is decided by the CRC-32 of its key, as the query does (:func:`streaming.spark.query.slim`).
    """
    numbers = bucket_numbers(buckets)
    found: defaultdict[int, Bucket] = defaultdict(Bucket)
    for blob in blobs:
        bucket = Bucket(blob)
        for group_id in bucket:
            found[numbers[crc32(group_id.encode()) % buckets]].adopt(bucket, group_id)
    return {number: bucket.pack() for number, bucket in sorted(found.items())}


def murmur3(number: int) -> int:
    """Spark's hash of an ``int`` (``Murmur3_x86_32.hashInt``), signed."""
    word = _rotated(number * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    found = (_rotated(_SEED ^ word, 13) * 5 + 0xE6546B64) & _MASK
    found ^= 4  # bytes of an int
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    found ^= found >> 16
    return found - (found >> 31 << 32)


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _MASK
