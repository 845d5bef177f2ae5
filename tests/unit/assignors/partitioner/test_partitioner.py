from itertools import islice

import pytest

from assignors import partitioner
from assignors.errors import BadInput
from assignors.partitioner import BuiltInPartitioner, murmur2, partition_for_key

# The vectors of Kafka's own UtilsTest.testMurmur2, and the empty key.
HASHES_BY_KEY = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 0x106E08D9,
}


def test_round_robin_wraps_around() -> None:
    assert [*islice(partitioner.round_robin(3), 4)] == [0, 1, 2, 0]
    assert [*islice(partitioner.round_robin(3, 2), 2)] == [2, 0]


def test_round_robin_counter_wraps_like_an_int32() -> None:
    assert [*islice(partitioner.round_robin(10, 2**31 - 1), 3)] == [(2**31 - 1) % 10, 0, 1]
    assert [*islice(partitioner.round_robin(10, -1), 2)] == [(2**31 - 1) % 10, 0]


def test_built_in_switches_after_the_batch_size() -> None:
    sticky = BuiltInPartitioner(3, 100, iter([0, 1, -1]).__next__)
    assert [sticky.append(60) for _ in range(5)] == [0, 0, 1, 1, (2**31 - 1) % 3]


def test_built_in_partitioner_refuses_batch_size_0() -> None:
    with pytest.raises(BadInput, match="batch_size: 0"):
        BuiltInPartitioner(1, 0, int)


@pytest.mark.parametrize(("key", "expected"), HASHES_BY_KEY.items())
def test_murmur2_hash_equals_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_sign_bit_is_cleared() -> None:
    assert [partitioner.to_positive(n) for n in (0, 1, -1, -(2**31), 2**31 - 1)] == [0, 1, 2**31 - 1, 0, 2**31 - 1]
    assert partition_for_key(b"21", 10) == 0  # abs() would give 8
    assert partition_for_key(b"", 1000) == 275646681 % 1000


def test_bytearray_and_memoryview_hash_as_bytes() -> None:
    for key in HASHES_BY_KEY:
        assert murmur2(bytearray(key)) == murmur2(memoryview(key)) == murmur2(key)


@pytest.mark.parametrize("partitions", [0, -1])
def test_partition_count_below_one_is_refused(partitions: int) -> None:
    with pytest.raises(partitioner.InvalidPartition, match=f"partitions: {partitions}; must be at least 1"):
        partition_for_key(b"a", partitions)
