"""User data of Kafka Streams: recorded bytes of release 4.3.1, and older layouts."""

from struct import pack
from typing import Any

import pytest
from msgspec import UNSET

from streaming.collect.coordinator.classic import keep_last_kind
from streaming.collect.coordinator.embedded import read_assigned_tasks, read_instance
from streaming.collect.coordinator.records import decode
from streaming.collect.coordinator.schema import MalformedRecord
from tests.support.offsets_topic import assignment, group_bytes, group_key, prefixed, subscription

SUBSCRIPTION_INFO = bytes.fromhex(
    "0000000b0000000b36b061c9e7704b4fa86da3cec0134eca0000000000000002000000010000000000000000000013fd"
    "ffff0000000100000002000000000000133fffff040000000000000000"
)
ASSIGNMENT_INFO = bytes.fromhex(
    "0000000b0000000b0000000100000000000000000000000000000001000000000000000300000000000000010002696e"
    "0000000300000001000000000002696e0000000200093132372e302e302e3100001b5a00000002000000000000000300"
    "0000000000000100093132372e302e302e3100001b590000000200000000000000020000000000000000000000020009"
    "3132372e302e302e3100001b5a000000020000000000000002000000000000000000093132372e302e302e3100001b59"
    "0000000200000000000000030000000000000001000000007fffffffffffffff"
)
STREAMS_PROCESS_ID = "36b061c9-e770-4b4f-a86d-a3cec0134eca"


def test_bytes_of_kafka_4_3_1_are_decoded() -> None:
    assert read_instance(SUBSCRIPTION_INFO) == {"process_id": STREAMS_PROCESS_ID}
    assert read_assigned_tasks(ASSIGNMENT_INFO) == {"standby": {"0": [3]}}


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, {"next_rebalance_ms": 0}),
        (1_700_000_000_000, {"next_rebalance_ms": 1_700_000_000_000}),
        (-1, {}),
        (2**62, {}),
    ],
)
def test_next_rebalance_time_is_read_from_user_data(at: int, expected: dict[str, int]) -> None:
    assert read_assigned_tasks(ASSIGNMENT_INFO[:-8] + pack(">q", at)) == {"standby": {"0": [3]}} | expected


@pytest.mark.parametrize("data", [None, b"", pack(">i", 12) + b"whatever is to come"])
def test_empty_and_newer_user_data_have_no_tasks(data: bytes | None) -> None:
    assert read_instance(data) == read_assigned_tasks(data) == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (ASSIGNMENT_INFO[:-1], "nextRebalanceMs: the value ends after"),
        (pack(">i", 0), "version: 0 is below 1"),
        (pack(">ii", 1, -1), "activeTasks: null"),
        (pack(">ii", 1, 9), "activeTasks: the length is 9 elements, but 0 bytes follow"),
        (pack(">iiiiii", 1, 0, 1, 0, -1, 0), "standbyTasks: -1 is not a partition number"),
        (pack(">iiiiii", 10, 10, 1, 0, 0, 1) + b"\xd8\x00", "activeTasks: not UTF-16"),
    ],
)
def test_malformed_streams_assignment_names_the_field(data: bytes, message: str) -> None:
    with pytest.raises(MalformedRecord) as error:
        read_assigned_tasks(data)
    assert str(error.value).startswith(message)


def test_malformed_streams_subscription_names_the_field() -> None:
    with pytest.raises(MalformedRecord, match="processId: the length is 16 bytes, but 3 follow"):
        read_instance(SUBSCRIPTION_INFO[:11])
    with pytest.raises(MalformedRecord, match="userEndPoint: not UTF-8"):
        read_instance(SUBSCRIPTION_INFO[:24] + prefixed(b"\xff"))


def test_last_leave_of_a_streams_group_gives_empty_snapshot() -> None:
    metadata = subscription(["in"], {"in": [0]}, generation=3, user_data=SUBSCRIPTION_INFO)
    share = assignment({"in": [0]}, user_data=ASSIGNMENT_INFO[:-8] + pack(">q", 5))
    now: Any = decode(group_key("g"), group_bytes(4, {"m": (metadata, share)}, protocol="stream"))
    left: Any = decode(group_key("g"), group_bytes(5, {}, protocol=None))
    [member] = now.value.members
    assert (now.value.kind, now.value.group_protocol) == ("streams", "classic")
    assert (member.assigned, member.standby, member.next_rebalance_ms) == ({"in": [0]}, {"0": [3]}, 5)
    assert member.process_id == STREAMS_PROCESS_ID
    empty: Any = keep_last_kind(now.value, left.value)
    assert (empty.kind, empty.members) == ("streams", [])


def test_user_data_of_another_assignor_is_ignored() -> None:
    members = {"m": (subscription(["in"], user_data=b"\x00"), assignment({}, user_data=b"\x00"))}
    record: Any = decode(group_key("g"), group_bytes(4, members, protocol="range"))
    assert record.value.kind is UNSET
    with pytest.raises(MalformedRecord, match="subscription of member m: version: the value ends after 1 bytes"):
        decode(group_key("g"), group_bytes(4, members, protocol="stream"))
