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


@pytest.mark.parametrize("partitions", [0, -1])
def test_no_partitions(partitions: int) -> None:
    with pytest.raises(InvalidPartition, match=f"partitions: {partitions}; a topic has at least 1"):
        partition_for_key(b"a", partitions)
