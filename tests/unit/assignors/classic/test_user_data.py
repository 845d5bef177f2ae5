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
