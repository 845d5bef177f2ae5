from struct import pack
from typing import Any

import pytest

from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.modern import GroupRecordPart
from streaming.collect.coordinator.records import OffsetCommit, decode
from streaming.collect.coordinator.schema import MalformedRecord, NewerRecord
from streaming.records.events import GroupObserved, ObservedMember
from tests.support.offsets_topic import (
    assignment,
    captured_records,
    commit_key,
    commit_value,
    group_bytes,
    group_key,
    string,
    subscription,
)


@pytest.mark.parametrize("version", range(5))
def test_classic_group_record_of_each_version_is_decoded(version: int) -> None:
    value = group_bytes(7, {"m": (subscription(["t"]), assignment({"t": [0]}))}, version=version, instances={"m": "i"})

    member = ObservedMember(
        member_id="m",
        topics=["t"],
        assigned={"t": [0]},
        group_instance_id="i" if version >= 3 else None,
        client_id="client-m",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=300_000 if version >= 1 else None,
    )
    generation = GroupObserved(
        group_id="", timestamp=0, members=[member], generation=7, protocol="range", leader="m", state="Stable"
    )
    assert decode(group_key("g"), value) == ClassicGroup("g", generation)


@pytest.mark.parametrize("version", range(5))
def test_offset_commit_record_of_each_version_is_decoded(version: int) -> None:
    assert decode(commit_key("g", "t", 3), commit_value(99, version)) == OffsetCommit("g", "t", 3, 99, 42)


def test_tombstone_decodes_to_an_empty_record() -> None:
    assert decode(group_key("g"), None) == ClassicGroup("g", None)
    assert decode(commit_key("g", "t", 3), None) == OffsetCommit("g", "t", 3, None)
    assert decode(pack(">h", 3) + string("g"), None) == GroupRecordPart("g", "consumer", "epoch", None)
    assert decode(pack(">h", 8) + string("g") + string("m"), None) == GroupRecordPart(
        "g", "consumer", "assignments", None, "m"
    )


def test_member_metadata_of_non_consumer_groups_is_not_decoded() -> None:
    value = group_bytes(7, {"m": (b"\x01", b"\x02")}).replace(string("consumer"), string("sr"))
    record: Any = decode(group_key("g"), value)
    [member] = record.value.members
    assert (member.topics, member.owned, member.assigned) == ([], {}, {})


def test_only_the_key_is_read_of_excluded_groups() -> None:
    assert decode(group_key("g"), b"\x00", lambda group_id: group_id != "g") is None
    assert decode(commit_key("g", "t", 3), b"\x00", lambda group_id: group_id != "g") is None
    with pytest.raises(MalformedRecord, match=r"key\.group: the length is 5 bytes, but 1 follow"):
        decode(b"\x00\x02\x00\x05g", None, lambda _: False)


def test_unknown_record_types_decode_to_none() -> None:
    for number in (4, 9, 15, 18, -1):
        assert decode(pack(">h", number) + string("g"), b"whatever") is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (pack(">h", 24) + b"?", b"whatever", "record type 24"),
        (pack(">h", 24) + b"?", None, "record type 24"),
        (group_key("g"), b"\x00\x05", "GroupMetadataValue version 5"),
        (pack(">h", 3) + string("g"), b"\x00\x01", "ConsumerGroupMetadataValue version 1"),
        (commit_key("g", "t", 3), b"\x00\x05", "OffsetCommitValue version 5"),
    ],
)
def test_records_of_a_newer_kafka_are_not_malformed(key: bytes, value: bytes | None, message: str) -> None:
    with pytest.raises(NewerRecord) as error:
        decode(key, value)
    assert str(error.value) == message


def test_every_truncation_raises_only_the_decoding_error() -> None:
    for rows in captured_records().values():
        for row in rows:
            record = decode(row.key, row.value)
            for end in range(len(row.value or b"")):
                try:
                    truncated_record = decode(row.key, (row.value or b"")[:end])
                except MalformedRecord:
                    continue
                # The decoded record is the same if the cut removes only bytes that are not read.
                assert truncated_record == record


def test_malformed_record_error_names_the_field() -> None:
    with pytest.raises(MalformedRecord, match=r"^GroupMetadataValue\.generation: the value ends after 14 bytes"):
        decode(group_key("g"), group_bytes(7, {})[:14])
    with pytest.raises(MalformedRecord, match=r"GroupMetadataValue.version: 16961 is not known \(0 to 4\)"):
        decode(group_key("g"), b"BA")
    with pytest.raises(MalformedRecord, match="has no record type"):
        decode(b"\x00", b"")
    with pytest.raises(MalformedRecord, match="has no record type"):
        decode(None, b"")


def test_reason_names_the_member_with_invalid_bytes() -> None:
    metadata = subscription(["t"])
    bad_share = bytes.fromhex("0000 00000001 0002") + b"t0" + bytes.fromhex("ffffffff ffffffff")
    with pytest.raises(MalformedRecord) as leader_error:
        decode(group_key("g"), group_bytes(7, {"good": (metadata, b""), "bad": (metadata, bad_share)}))
    with pytest.raises(MalformedRecord) as of_member:
        decode(group_key("g"), group_bytes(7, {"bad": (metadata[:5], b"")}))
    assert str(leader_error.value) == "assignment of member bad: assignedPartitions.partitions: null"
    assert str(of_member.value) == "subscription of member bad: topics: the value ends after 5 bytes, inside this field"
