"""The columns' hashes are those of the scalar, plain twin."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors.partitioner import murmur2, partition_for_key
from assignors.partitioner.columns import NO_PARTITION, murmur2_column, partition_column

KEYS = st.lists(st.none() | st.binary(max_size=40))


@settings(deadline=None)  # the first call imports NumPy
@given(KEYS, st.integers(1, 2**31 - 1))
def test_columns_are_the_scalar_row_by_row(keys: list[bytes | None], partitions: int) -> None:
    expected = [NO_PARTITION if key is None else partition_for_key(key, partitions) for key in keys]
    assert partition_column(keys, partitions).tolist() == expected
    assert partition_column(pa.array(keys, pa.binary()), partitions).tolist() == expected


@settings(deadline=None)  # the first call imports NumPy
@given(st.lists(st.binary(max_size=70), max_size=30), st.integers(0, 5), st.integers(0, 40))
def test_slices_of_arrow_columns(keys: list[bytes], first: int, length: int) -> None:
    column = pa.array(keys, pa.large_binary()).slice(first, length)
    assert murmur2_column(column).tolist() == [murmur2(key) for key in keys[first : first + length]]
