from struct import pack
from typing import Any

import pytest

from streaming.collect.coordinator.schema import Field, MalformedRecord, Reader, Value, strings, structs
from tests.support.offsets_topic import string

SCHEMA_OF_VALUE = Value(
    "ThingValue",
    (
        Field("id", Reader.int32, "number"),
        Field("dropped", Reader.int64, since=1),
        Field("names", strings, "names"),
        Field("parts", structs(Field("size", Reader.int16, "size")), "parts", since=2),
    ),
    factory=dict,
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
def test_record_fields_depend_on_the_version(data: bytes, expected: dict[str, Any]) -> None:
    assert SCHEMA_OF_VALUE.read(data) == expected


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
    with pytest.raises(MalformedRecord) as error:
        SCHEMA_OF_VALUE.read(data)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("data", "read", "message"),
    [
        (b"\x00", "int32", "field: the value ends after 1 bytes, inside this field"),
        (b"\x00\x05hi", "string", "field: the length is 5 bytes, but 2 follow"),
        (b"\xff\xff", "string", "field: null"),
        (b"\x00\x01\xff", "string", "field: not UTF-8"),
        (b"\xff\xfe", "string", "field: null"),
        (b"\xff\xff\xff\xff\xff\xff", "varint", "field: the number takes more than 5 bytes"),
    ],
)
def test_truncated_or_wrong_fields_are_refused_by_name(data: bytes, read: str, message: str) -> None:
    with pytest.raises(MalformedRecord) as error:
        getattr(Reader(data), read)("field")
    assert str(error.value) == message


@pytest.mark.parametrize("flexible", [False, True])
def test_the_longest_string_has_32767_bytes(flexible: bool) -> None:
    length = b"\x80\x80\x02" if flexible else b"\x7f\xff"  # a flexible version writes the length plus one, as a varint
    assert Reader(length + b"x" * 32767, flexible=flexible).string("name") == "x" * 32767
    if flexible:
        with pytest.raises(MalformedRecord, match="name: the length is 32768 bytes; a string has at most 32767"):
            Reader(b"\x81\x80\x02" + b"x" * 32768, flexible=True).string("name")


def test_only_flexible_versions_have_tagged_fields() -> None:
    data = b"\x02" + b"\x00\x01a" + b"\x05\x00"
    assert Reader(data, flexible=True).tagged_fields() == {0: b"a", 5: b""}
    assert Reader(data).tagged_fields() == {}
    with pytest.raises(MalformedRecord, match="tagged field 7: the length is 3 bytes, but 1 follow"):
        Reader(b"\x01\x07\x03a", flexible=True).tagged_fields()
