from __future__ import annotations

from collections import Counter

import pytest

from streaming.collect.embedded import Said
from streaming.collect.encoding import MalformedRecord
from streaming.collect.records import (
    ClassicGeneration,
    ClassicGroup,
    ClassicMember,
    Current,
    CurrentAssignment,
    GroupEpoch,
    MemberSubscription,
    OffsetCommit,
    Other,
    Subscription,
    TargetAssignment,
    TargetEpoch,
    decode,
)
from tests.support.offsets_topic import (
    assignment,
    captured,
    commit_key,
    commit_value,
    group_key,
    group_value,
    string,
    subscription,
)

A, TOPIC = "ptNGWqzqSXiZvjcZ48JIUQ", "5a0scAsoRdS8Ki4XL0hedw"


def test_every_captured_record_is_read() -> None:
    kinds = Counter(type(decode(row.key, row.value)).__name__ for rows in captured().values() for row in rows)

    assert kinds == {
        "OffsetCommit": 30,
        "CurrentAssignment": 27,
        "TargetAssignment": 16,
        "ClassicGroup": 15,
        "MemberSubscription": 10,
        "GroupEpoch": 8,
        "TargetEpoch": 7,
    }


def test_a_consumer_group_s_first_epoch() -> None:
    rows = {row.offset: row for row in captured()[4]}

    assert [decode(rows[offset].key, rows[offset].value) for offset in range(25, 30)] == [
        MemberSubscription(
            "g-consumer", A, Subscription(None, None, "A", "/127.0.0.1", ("t",), None, 300_000, None)
        ),
        GroupEpoch("g-consumer", 2),
        TargetAssignment("g-consumer", A, {TOPIC: (0, 1, 2, 3, 4, 5)}),
        TargetEpoch("g-consumer", 2),
        CurrentAssignment("g-consumer", A, Current(2, 0, "STABLE", {TOPIC: (0, 1, 2, 3, 4, 5)}, {})),
    ]


@pytest.mark.parametrize("version", range(5))
def test_classic_groups_of_every_version(version: int) -> None:
    value = group_value(
        7, {"m": (subscription(["t"]), assignment({"t": [0]}))}, version=version, instances={"m": "i"}
    )

    assert decode(group_key("g"), value) == ClassicGroup(
        "g",
        ClassicGeneration(
            "consumer",
            7,
            "range",
            "m",
            (
                ClassicMember(
                    "m",
                    "i" if version >= 3 else None,
                    "client-m",
                    "/127.0.0.1",
                    300_000 if version >= 1 else None,
                    10_000,
                    Said(("t",)),
                    {"t": [0]},
                ),
            ),
        ),
    )


@pytest.mark.parametrize("version", range(5))
def test_offset_commits_of_every_version(version: int) -> None:
    assert decode(commit_key("g", "t", 3), commit_value(99, version)) == OffsetCommit("g", "t", 3, 99)


def test_tombstones() -> None:
    assert decode(group_key("g"), None) == ClassicGroup("g", None)
    assert decode(commit_key("g", "t", 3), None) == OffsetCommit("g", "t", 3, None)


def test_other_protocols_embed_something_else() -> None:
    value = group_value(7, {"m": (b"\x01", b"\x02")}).replace(string("consumer"), string("connect"))

    record = decode(group_key("g"), value)

    assert isinstance(record, ClassicGroup)
    assert record.value is not None
    [member] = record.value.members
    assert (member.said, member.assigned) == (Said(), {})


def test_of_groups_that_are_not_wanted_only_the_key_is_read() -> None:
    assert decode(group_key("g"), b"\x00", lambda group_id: group_id != "g") == Other(2)
    assert decode(commit_key("g", "t", 3), b"\x00", lambda group_id: group_id != "g") == Other(1)
    with pytest.raises(MalformedRecord, match=r"key\.group: 5 bytes announced, 1 there"):
        decode(b"\x00\x02\x00\x05g", None, lambda _: False)


def test_types_of_other_groups_are_passed_over() -> None:
    assert decode(b"\x00\x0b\x00\x01g", b"whatever") == Other(11)


def test_every_truncation_is_refused_and_nothing_else_is_raised() -> None:
    for rows in captured().values():
        for row in rows:
            record = decode(row.key, row.value)
            for end in range(len(row.value or b"")):
                try:
                    cut = decode(row.key, (row.value or b"")[:end])
                except MalformedRecord:
                    continue
                # What is cut may be the unread rest: then the record is the same.
                assert cut == record


def test_the_reason_names_the_field() -> None:
    with pytest.raises(
        MalformedRecord, match=r"^GroupMetadataValue\.generation: the value ends after 14 bytes"
    ):
        decode(group_key("g"), group_value(7, {})[:14])
    with pytest.raises(MalformedRecord, match=r"GroupMetadataValue.version: 9 is not known \(0 to 4\)"):
        decode(group_key("g"), b"\x00\x09")
    with pytest.raises(MalformedRecord, match="has no record type"):
        decode(b"\x00", b"")
    with pytest.raises(MalformedRecord, match="has no record type"):
        decode(None, b"")


def test_the_reason_names_the_member_whose_bytes_are_meant() -> None:
    said = subscription(["t"])
    given = bytes.fromhex("0000 00000001 0002") + b"t0" + bytes.fromhex("ffffffff ffffffff")

    with pytest.raises(MalformedRecord) as of_leader:
        decode(group_key("g"), group_value(7, {"good": (said, b""), "bad": (said, given)}))
    with pytest.raises(MalformedRecord) as of_follower:
        decode(group_key("g"), group_value(7, {"bad": (said[:5], b"")}))

    assert str(of_leader.value) == "assignment of member bad: assignedPartitions.partitions: null"
    assert (
        str(of_follower.value)
        == "subscription of member bad: topics: the value ends after 5 bytes, inside this field"
    )
