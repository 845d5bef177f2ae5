from __future__ import annotations

import pytest

from assignors.partitioner import InvalidPartition, murmur2, partition_for_key, to_positive

# The vectors of Kafka's own UtilsTest.testMurmur2, and the empty key.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 0x106E08D9,
}


@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_vectors(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_the_sign_is_masked_not_dropped() -> None:
    assert partition_for_key(b"21", 10) == 0  # abs() would give 8


def test_an_empty_key_is_a_key() -> None:
    assert partition_for_key(b"", 1000) == 275646681 % 1000


def test_to_positive() -> None:
    assert [to_positive(n) for n in (0, 1, -1, -(2**31), 2**31 - 1)] == [0, 1, 2**31 - 1, 0, 2**31 - 1]


def test_bytearray_and_memoryview_hash_as_bytes() -> None:
    for key in VECTORS:
        assert murmur2(bytearray(key)) == murmur2(memoryview(key)) == murmur2(key)


@pytest.mark.parametrize("length", [*range(40), 255, 256, 257, 259, 260, 263, 768])
def test_every_length_as_the_original_line_by_line(length: int) -> None:
    for first in (0, 1, 113):
        key = bytes((first + 151 * at) % 256 for at in range(length))
        assert murmur2(key) == _plain(key)


@pytest.mark.parametrize("partitions", [0, -1])
def test_no_partitions(partitions: int) -> None:
    with pytest.raises(InvalidPartition, match=f"partitions: {partitions}; a topic has at least 1"):
        partition_for_key(b"a", partitions)


def _plain(data: bytes) -> int:
    """Utils.murmur2 line by line, byte by byte."""
    length, m, mask = len(data), 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ length
    for i in range(length // 4):
        b = data[4 * i : 4 * i + 4]
        k = b[0] + (b[1] << 8) + (b[2] << 16) + (b[3] << 24)
        k = k * m & mask
        k ^= k >> 24
        k = k * m & mask
        h = h * m & mask
        h ^= k
    tail = data[length & ~3 :]
    if len(tail) == 3:
        h ^= tail[2] << 16
    if len(tail) >= 2:
        h ^= tail[1] << 8
    if tail:
        h ^= tail[0]
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h
