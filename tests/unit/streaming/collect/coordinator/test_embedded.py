from struct import pack
from typing import Any

import pytest

from streaming.collect.coordinator.embedded import read_assignment, read_subscription
from streaming.collect.coordinator.schema import MalformedRecord
from tests.support.offsets_topic import assignment, prefixed, string, subscription

NULL_BYTES = pack(">i", -1)


def member(
    topics: list[str], owned: dict[str, list[int]] | None = None, generation: int = -1, rack: str | None = None
) -> dict[str, Any]:
    return {"topics": topics, "owned": owned or {}, "owned_generation": generation, "rack_id": rack}


def test_subscription_and_assignment_bytes_are_decoded() -> None:
    metadata = subscription(["t", "u"], {"t": [2, 1]}, generation=4, rack="r1")
    assert read_subscription(metadata, "range") == member(["t", "u"], {"t": [1, 2]}, 4, "r1")
    assert read_assignment(assignment({"u": [1, 0]}), "range") == {"assigned": {"u": [0, 1]}}


def test_empty_bytes_are_not_metadata() -> None:
    assert read_subscription(b"", "range") == {"topics": []}
    assert read_assignment(b"", "range") == {"assigned": {}}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, member(["t"])),
        (1, member(["t"], {"t": [5]})),
        (2, member(["t"], {"t": [5]}, 9)),
        (3, member(["t"], {"t": [5]}, 9, "r")),
        (32_767, member(["t"], {"t": [5]}, 9, "r")),
    ],
)
def test_subscriptions_of_known_and_newer_versions_are_read(version: int, expected: dict[str, Any]) -> None:
    topics, owned = pack(">i", 1) + string("t"), pack(">i", 1) + string("t") + pack(">ii", 1, 5)
    data = pack(">h", version) + topics + prefixed(b"anything") + owned + pack(">i", 9) + string("r") + b"more"
    assert read_subscription(data, "range") == expected


def test_version_1_subscription_may_have_null_owned_partitions() -> None:
    assert read_subscription(pack(">hi", 1, 1) + string("t") + NULL_BYTES, "range") == member(["t"])


def test_sticky_members_declare_owned_partitions_in_user_data() -> None:
    owned = pack(">i", 1) + string("t") + pack(">iii", 2, 5, 3)
    metadata = subscription(["t"], user_data=owned + pack(">i", 6))
    metadata_without_generation = subscription(["t"], user_data=owned)
    assert read_subscription(metadata, "sticky") == member(["t"], {"t": [3, 5]}, 6)
    assert read_subscription(metadata_without_generation, "sticky") == member(["t"], {"t": [3, 5]}, -1)
    assert read_subscription(metadata, "range") == member(["t"])


@pytest.mark.parametrize(
    "user_data",
    [
        b"\x00\x00\x00\x09",
        NULL_BYTES,
        pack(">i", 1) + string(None) + pack(">ii", 1, 0),
        pack(">i", 1) + string("t") + NULL_BYTES,
        pack(">i", 1) + string("t") + pack(">ii", 1, -1),
    ],
)
def test_unreadable_sticky_user_data_gives_no_owned_partitions(user_data: bytes) -> None:
    assert read_subscription(subscription(["t"], user_data=user_data), "sticky") == member(["t"])


def _read_cooperative_metadata(version: int, user_data: bytes | None, generation: int = -1) -> dict[str, Any]:
    owned = pack(">i", 1) + string("t") + pack(">ii", 1, 5)
    user_data_bytes = NULL_BYTES if user_data is None else prefixed(user_data)
    tail = pack(">i", generation) + string("r") if version > 1 else b""
    data = pack(">h", version) + pack(">i", 1) + string("t") + user_data_bytes + owned + tail
    return read_subscription(data, "cooperative-sticky")


def test_generation_of_a_cooperative_member_is_decoded() -> None:
    """Java clients 3.0 to 3.3 put the generation into user data; the subscription's own field has precedence."""
    assert _read_cooperative_metadata(1, pack(">i", 17))["owned_generation"] == 17
    assert _read_cooperative_metadata(1, pack(">i", 17))["owned"] == {"t": [5]}
    assert _read_cooperative_metadata(3, pack(">i", 17))["owned_generation"] == 17
    assert _read_cooperative_metadata(3, pack(">i", 17), generation=18)["owned_generation"] == 18
    assert _read_cooperative_metadata(1, None)["owned_generation"] == -1
    assert _read_cooperative_metadata(1, b"\x00\x01")["owned_generation"] == -1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pack(">h", -1), "version: -1 is below 0"),
        (b"\x00", "version: the value ends after 1 bytes, inside this field"),
        (pack(">h", 0) + NULL_BYTES + NULL_BYTES, "topics: null"),
        (pack(">hi", 0, 2**31 - 1) + NULL_BYTES, "topics: the length is 2147483647 elements, but 4 bytes follow"),
        (pack(">hih", 0, 1, 1) + b"\xff" + NULL_BYTES, "topics: not UTF-8"),
        (pack(">hi", 0, 0) + pack(">i", 5), "userData: the length is 5 bytes, but 0 follow"),
        (pack(">hi", 1, 0) + NULL_BYTES + NULL_BYTES, "ownedPartitions: null"),
        (pack(">hi", 1, 0) + NULL_BYTES + pack(">i", 1) + string("t") + NULL_BYTES, "ownedPartitions.partitions: null"),
        (
            pack(">hi", 2, 0) + NULL_BYTES + pack(">i", 0),
            "generationId: the value ends after 14 bytes, inside this field",
        ),
    ],
)
def test_malformed_subscription_is_refused_with_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(MalformedRecord) as error:
        read_subscription(data, "range")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        # Some leaders send null partitions (observed in practice).
        (bytes.fromhex("0000 00000001 0002") + b"t0" + NULL_BYTES + NULL_BYTES, "assignedPartitions.partitions: null"),
        (pack(">h", 0) + NULL_BYTES + NULL_BYTES, "assignedPartitions: null"),
        (
            pack(">hi", 0, 1) + string("t") + pack(">iii", 2, 4, -7) + NULL_BYTES,
            "assignedPartitions.partitions: -7 is not a partition number",
        ),
        (
            pack(">hi", 0, 1) + string("t") + pack(">ii", 3, 4) + NULL_BYTES,
            "assignedPartitions.partitions: the value ends after 21 bytes, inside this field",
        ),
        (pack(">hi", 0, 0), "userData: the value ends after 6 bytes, inside this field"),
    ],
)
def test_malformed_assignment_is_refused_with_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(MalformedRecord) as error:
        read_assignment(data, "range")
    assert str(error.value) == message


def test_repeated_partitions_are_listed_once() -> None:
    repeated_partitions = (
        pack(">h", 0) + pack(">i", 2) + (string("t") + pack(">i", 100_000) + pack(">i", 7) * 100_000) * 2
    )
    assert read_assignment(repeated_partitions + NULL_BYTES, "range") == {"assigned": {"t": [7]}}
    highest = pack(">hi", 0, 1) + string("t") + pack(">ii", 1, 2**31 - 1) + NULL_BYTES
    assert read_assignment(highest, "range") == {"assigned": {"t": [2**31 - 1]}}
