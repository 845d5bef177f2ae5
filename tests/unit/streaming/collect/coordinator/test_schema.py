from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from streaming.collect.coordinator.schema import Field, MalformedRecord, Reader, Value, strings, structs
from tests.support.offsets_topic import string

VALUE = Value(
    "ThingValue",
    (
        Field("id", Reader.int32, "number"),
        Field("dropped", Reader.int64, since=1),
        Field("names", strings, "names"),
        Field("parts", structs(Field("size", Reader.int16, "size")), "parts", since=2),
    ),
    make=dict,
    newest=2,
    flexible=2,
    tags={3: Field("extra", Reader.int8, "extra")},
)


def names(*texts: str) -> bytes:
    return pack(">i", len(texts)) + b"".join(map(string, texts))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pack(">hi", 0, 7) + names("a"), {"number": 7, "names": ("a",)}),
        (pack(">hiq", 1, 7, 99) + names(), {"number": 7, "names": ()}),
        (
            pack(">hiq", 2, 7, 99) + b"\x02\x02a" + b"\x02\x00\x05\x00" + b"\x00",
            {"number": 7, "names": ("a",), "parts": [{"size": 5}]},
        ),
        (
            pack(">hiq", 2, 7, 99) + b"\x01\x01" + b"\x02" + b"\x03\x01\x2a" + b"\x04\x01\x00",
            {"number": 7, "names": (), "parts": [], "extra": 42},
        ),
    ],
)
def test_fields_by_version(data: bytes, expected: dict[str, Any]) -> None:
    assert VALUE.read(data) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pack(">h", 100), "ThingValue.version: 100 is not known (0 to 2)"),
        (pack(">h", 3), "ThingValue version 3"),
        (pack(">h", -1), "ThingValue.version: -1 is not known (0 to 2)"),
        (pack(">hi", 0, 7) + pack(">i", -1), "ThingValue.names: null"),
        (
            pack(">hiq", 2, 7, 99) + b"\x01" + b"\x02\x00",
            "ThingValue.parts.size: the value ends after 17 bytes, inside this field",
        ),
        (
            pack(">hiq", 2, 7, 99) + b"\x01\x01" + b"\x01\x03\x00",
            "ThingValue.extra: the value ends after 0 bytes, inside this field",
        ),
    ],
)
def test_refused_fields_are_named(data: bytes, message: str) -> None:
    with pytest.raises(MalformedRecord) as raised:
        VALUE.read(data)

    assert str(raised.value) == message
