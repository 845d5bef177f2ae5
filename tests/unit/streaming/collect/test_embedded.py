from __future__ import annotations

from struct import pack

import pytest

from streaming.collect.embedded import Embedded, read_member
from streaming.collect.encoding import MalformedRecord
from streaming.collect.records import ClassicMember
from tests.support.offsets_topic import assignment, string, subscription


def member(said: bytes, given: bytes) -> ClassicMember:
    return ClassicMember("m", None, "c", "/h", 1, 1, said, given)


def test_subscription_and_assignment() -> None:
    said = subscription(["t", "u"], {"t": [2, 1]}, generation=4, rack="r1")

    assert read_member(member(said, assignment({"u": [1, 0]})), "consumer", "range") == Embedded(
        ("t", "u"), {"t": [1, 2]}, 4, "r1", {"u": [0, 1]}
    )


def test_sticky_members_say_what_they_owned_in_their_user_data() -> None:
    owned = pack(">i", 1) + string("t") + pack(">iii", 2, 5, 3)
    said = subscription(["t"], user_data=owned + pack(">i", 6))
    without_generation = subscription(["t"], user_data=owned)
    unreadable = subscription(["t"], user_data=b"\x00\x00\x00\x09")

    assert read_member(member(said, b""), "consumer", "sticky") == Embedded(
        ("t",), {"t": [3, 5]}, 6, None, {}
    )
    assert read_member(member(without_generation, b""), "consumer", "sticky").owned_generation == -1
    assert read_member(member(unreadable, b""), "consumer", "sticky").owned == {}
    assert read_member(member(said, b""), "consumer", "range").owned == {}


def test_other_protocols_embed_something_else() -> None:
    assert read_member(member(b"\x01", b"\x02"), "connect", "sessioned") == Embedded((), {}, -1, None, {})


@pytest.mark.parametrize("end", [1, 5, 9])
def test_bytes_that_end_too_early(end: int) -> None:
    with pytest.raises(MalformedRecord, match="subscription of member m"):
        read_member(member(subscription(["t"])[:end], b""), "consumer", "range")
    with pytest.raises(MalformedRecord, match="assignment of member m"):
        read_member(member(b"", assignment({"t": [1]})[:end]), "consumer", "range")
