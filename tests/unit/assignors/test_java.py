"""Results recorded from a JVM; `tests/oracle/assignors/test_java.py` compares the same functions with a running JVM."""

import pytest

from assignors import java
from assignors.errors import BadInput
from assignors.java import hash_order, in_string_order, string_hash


def iteration_order(*keys: str) -> list[str]:
    return [keys[at] for at in hash_order([string_hash(key) for key in keys], keys=keys)]


def test_string_hash_is_over_utf16_units() -> None:
    hashes = {"": 0, "c1": 3118, "new": 108960, "[t,10]": -1581226645, "Aa": 2112, "BB": 2112, "a😀é": 57849829}
    assert {text: string_hash(text) for text in hashes} == hashes


def test_long_text_has_javas_string_hash() -> None:
    value = 0
    for unit in b"x" * 1000:
        value = (31 * value + unit) % 2**32
    assert string_hash("x" * 1000) % 2**32 == value


@pytest.mark.parametrize(
    ("inserted_keys", "order"),
    [
        (("c1", "c2", "c3", "new"), ["c3", "new", "c1", "c2"]),
        (("consumer-a", "consumer-b", "consumer-c", "new"), ["new", "consumer-c", "consumer-b", "consumer-a"]),
        (("Aa", "BB", "zz", "new"), ["Aa", "BB", "zz", "new"]),
        (("x-9d1", "x-17f", "x-c02", "new"), ["x-c02", "x-9d1", "new", "x-17f"]),
    ],
)
def test_hash_map_iterates_in_javas_order(inserted_keys: tuple[str, ...], order: list[str]) -> None:
    assert iteration_order(*inserted_keys) == order


def test_a_resize_keeps_the_order_inside_a_bin() -> None:
    keys = [f"c{number}" for number in range(13)]
    assert iteration_order(*keys) == sorted(keys, key=lambda key: (string_hash(key) ^ string_hash(key) >> 16) & 31)


def test_string_order_is_by_utf16_units() -> None:
    assert in_string_order(["～", "😀", "a"]) == ["a", "😀", "～"]


def test_topic_partition_and_uuid_hashes_equal_javas() -> None:
    assert java.topic_partition_hash("t", 0) == 31 * 31 + 116
    assert java.uuid_bits("AAAAAAAAAAAAAAAAAAAAAQ") == (0, 1)
    assert java.uuid_hash(java.uuid_bits("__________8AAAAAAAAAAA")) == 0
    assert java.uuid_hash(java.uuid_bits("AAAAAAAAAAAAAAAAAAAAAQ")) == 1


@pytest.mark.parametrize("text", ["AAAA", "not base64!", "AAAAAAAAAAAAAAAAAAAAA"])
def test_invalid_uuid_is_rejected(text: str) -> None:
    with pytest.raises(BadInput, match="topicId"):
        java.uuid_bits(text)


def test_copied_hash_set_has_javas_capacity() -> None:
    assert [java.hash_set_copy_capacity(size) for size in (0, 12, 13, 24)] == [16, 32, 32, 64]


def test_random_numbers_equal_those_of_java() -> None:
    # The first numbers of new Random(42) in a JVM.
    assert [java.JavaRandom(42).next_signed_int()] == [-1170105035]
    random = java.JavaRandom(42)
    assert [random.next_int(10) for _ in range(5)] == [0, 3, 8, 4, 0]
    random = java.JavaRandom(42)
    assert [random.next_int(16) for _ in range(5)] == [11, 0, 10, 0, 4]


def test_shuffle_is_a_permutation_and_a_function_of_the_seed() -> None:
    first, second = list(range(20)), list(range(20))
    java.shuffle(first, java.JavaRandom(7))
    java.shuffle(second, java.JavaRandom(7))
    assert first == second
    assert sorted(first) == list(range(20))
