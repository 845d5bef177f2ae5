from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from assignors.partitioner import murmur2, partition_for_key
from assignors.partitioner.columns import LONG, UnsupportedColumn, murmur2_column, partition_column
from assignors.partitioner.murmur import InvalidPartition


def _keys(count: int, longest: int) -> list[bytes]:
    rng = random.Random(3)
    return [rng.randbytes(rng.randrange(longest + 1)) for _ in range(count)]


@pytest.mark.parametrize("width", range(22))
def test_rows_of_one_width(width: int) -> None:
    matrix = np.frombuffer(random.Random(width).randbytes(50 * max(width, 1)), np.uint8)[: 50 * width]
    matrix = matrix.reshape(50, width)
    assert murmur2_column(matrix).tolist() == [murmur2(row.tobytes()) for row in matrix]


def test_void_and_fixed_size_binary() -> None:
    keys = [random.Random(i).randbytes(16) for i in range(20_000)]
    expected = [murmur2(key) for key in keys]
    assert murmur2_column(np.array(keys, "V16")).tolist() == expected
    assert murmur2_column(pa.array(keys, pa.binary(16))).tolist() == expected
    assert murmur2_column(pa.array(keys, pa.binary())).tolist() == expected


def test_mixed_lengths_across_blocks() -> None:
    keys = [*_keys(40_000, 40), b"x" * (LONG + 1), b"", b"y" * LONG, b"\0\0\0"]
    expected = [murmur2(key) for key in keys]
    for column in (keys, pa.array(keys), pa.array(keys, pa.large_binary()), np.array(keys, object)):
        assert murmur2_column(column).tolist() == expected


def test_only_long_keys() -> None:
    keys = [b"x" * (LONG + n) for n in (1, 2, 30)]
    assert murmur2_column(keys).tolist() == [murmur2(key) for key in keys]


def test_strings_slices_and_chunks() -> None:
    words = ["", "21", "foobar", "grüß", "日本", "a-little-bit-long-string"]
    expected = [murmur2(word.encode()) for word in words]
    assert murmur2_column(pa.array(words)).tolist() == expected
    assert murmur2_column(pa.array(words)[2:5]).tolist() == expected[2:5]
    assert murmur2_column(pa.chunked_array([words[:2], words[2:]])).tolist() == expected


def test_null_keys_have_no_partition() -> None:
    keys = [b"21", None, b"", None]
    expected = [partition_for_key(b"21", 10), -1, partition_for_key(b"", 10), -1]
    assert partition_column(keys, 10).tolist() == expected
    assert partition_column(pa.array(keys), 10).tolist() == expected
    fixed = pa.array([b"ab", None], pa.binary(2))
    assert partition_column(fixed, 7).tolist() == [partition_for_key(b"ab", 7), -1]


@pytest.mark.parametrize(
    "empty",
    [
        [],
        np.empty((0, 16), np.uint8),
        pa.array([], pa.binary()),
        pa.chunked_array([], pa.binary()),
        pa.chunked_array([pa.array([], pa.binary())]),
    ],
)
def test_empty_columns(empty: object) -> None:
    assert partition_column(empty, 3).tolist() == []
    assert murmur2_column(empty).tolist() == []


def test_s_dtype_drops_trailing_nuls_as_numpy_does() -> None:
    assert murmur2_column(np.array([b"ab\0", b"abc"])).tolist() == [murmur2(b"ab"), murmur2(b"abc")]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.arange(3), "int64"),
        (["text"], "keys[0]: str"),
        (b"bytes", "bytes is no column"),
        (pa.array([1, 2]), "int64"),
        (7, "int is no column"),
    ],
)
def test_refused_columns_say_why(column: object, message: str) -> None:
    with pytest.raises(UnsupportedColumn) as refused:
        murmur2_column(column)
    assert message in str(refused.value)


@pytest.mark.parametrize("partitions", [0, -1, 2**31])
def test_partition_counts_that_can_not_be(partitions: int) -> None:
    with pytest.raises(InvalidPartition, match=f"partitions: {partitions}; must be between 1 and 2147483647"):
        partition_column([b"a"], partitions)


def test_a_key_that_a_mask_takes_away_is_null_whatever_bytes_lie_under_it() -> None:
    """As a filter or a join of Arrow's leaves them: bytes of the common length stand under the nulls, too."""
    keys = [b"ab", None, b"cd"]
    buffers = [
        pa.py_buffer(bytes([0b101])),
        pa.py_buffer(np.arange(0, 8, 2, np.int32)),
        pa.py_buffer(b"abzzcd"),
    ]
    masked = pa.Array.from_buffers(pa.binary(), 3, buffers)
    assert masked.to_pylist() == keys
    assert partition_column(masked, 7).tolist() == partition_column(keys, 7).tolist()
