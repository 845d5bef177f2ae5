"""The computed iteration order of a HashMap equals that of a table that is filled key by key and grows as in Java."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.java import DEFAULT_CAPACITY, hash_order, hash_set_copy_capacity, in_hash_order, string_hash
from assignors.java_hash_table import HashTable


def filled_table_order(hashes: list[int], capacity: int) -> list[int]:
    table = HashTable(capacity)
    for position, code in enumerate(hashes):
        table.add(position, code)
    return list(table)


@given(
    st.integers(0, 2**32),
    st.sampled_from([0, 1, 7, 8, 9, 11, 12, 13, 24, 25, 48, 49, 97, 200, 511, 512, 513, 900]),
    st.sampled_from([6, 10, 16, 32]),
    st.sampled_from([1, 2, DEFAULT_CAPACITY, 64, 4096]),
)
def test_hash_order_equals_that_of_a_filled_hash_table(seed: int, count: int, bits: int, capacity: int) -> None:
    """With few hash bits, many keys share a bin of the table, which may become a tree; with many bits, few keys do."""
    chance = random.Random(seed)
    hashes = [chance.getrandbits(bits) - (1 << 31 if bits == 32 else 0) for _ in range(count)]
    assert hash_order(hashes, capacity=capacity) == filled_table_order(hashes, capacity)


@pytest.mark.parametrize("count", [400, 511, 512, 1000, 3000])
def test_plain_names_iterate_in_hash_table_order(count: int) -> None:
    for pattern in ("consumer-{}", "{}", "orders-{:05}-x"):
        names = [pattern.format(number) for number in range(count)]
        random.Random(count).shuffle(names)
        for capacity in (DEFAULT_CAPACITY, hash_set_copy_capacity(count)):
            expected = [names[at] for at in filled_table_order([*map(string_hash, names)], capacity)]
            assert in_hash_order(names, capacity=capacity) == expected
