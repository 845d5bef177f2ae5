from __future__ import annotations

import pytest

from assignors.classic.user_data import (
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)

OWNED = {"t": [0, 3], "tópico": [1]}


def test_version_1_carries_the_generation() -> None:
    assert decode_sticky(encode_sticky(OWNED, 7)) == (OWNED, 7)


def test_version_0_has_none() -> None:
    assert decode_sticky(encode_sticky(OWNED, None)) == (OWNED, -1)


@pytest.mark.parametrize("generation", [None, 0, 7])
def test_who_owned_nothing_still_says_of_which_generation(generation: int | None) -> None:
    assert encode_sticky({}, 7).hex() == "00000000" + "00000007"
    assert decode_sticky(encode_sticky({}, generation)) == ({}, -1 if generation is None else generation)


def test_a_topic_may_be_named_without_partitions_and_twice() -> None:
    assert decode_sticky(encode_sticky({"t": [], "u": [1]}, 3)) == ({"t": [], "u": [1]}, 3)
    twice = "00000002" + 2 * ("000174" + "00000001" + "00000003")
    assert decode_sticky(bytes.fromhex(twice)) == ({"t": [3, 3]}, -1)


def test_the_bytes_are_those_of_the_schema() -> None:
    assert encode_sticky({"t": [3]}, 7).hex() == "00000001" + "000174" + "00000001" + "00000003" + "00000007"


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\1\0\2t",
        b"\0\0\0\1\0\1t\x7f\xff\xff\xff",
        b"\0\0\0\1\0\1\xff",
    ],
)
def test_what_makes_no_sense_owns_nothing(data: bytes | None) -> None:
    assert decode_sticky(data) == ({}, -1)


def test_cooperative_sends_the_generation_alone() -> None:
    assert decode_cooperative(encode_cooperative(9)) == 9
    assert [decode_cooperative(data) for data in (None, b"\0\0")] == [-1, -1]
