from struct import pack

import pytest

from streaming.collect.coordinator.layout_check import ForeignLayout, LayoutCheck, is_redpanda
from streaming.collect.coordinator.records import decode
from streaming.collect.coordinator.schema import MalformedMember, MalformedRecord
from tests.support.offsets_topic import (
    assignment,
    captured_records,
    group_bytes,
    group_key,
    prefixed,
    string,
    subscription,
)

KEY = group_key("g")


def redpanda_record(*members: str, protocol: str | None = "range", value_version: int = 3) -> bytes:
    value = pack(">h", value_version) + string("consumer") + pack(">i", 5) + string(protocol) + string("m")
    value += pack(">qi", 1000, len(members))
    for member in members:
        value += pack(">h", value_version) + string(member) + string(None) + string("client") + string("127.0.0.1")
        value += pack(">ii", 300_000, 10_000) + prefixed(subscription(["t"])) + prefixed(assignment({"t": [0]}))
    return value


@pytest.mark.parametrize("members", [["m-1"], ["m" * 60, "x" * 300], ["", "a"], [f"c-{n}" for n in range(50)]])
def test_generation_of_redpanda_is_recognised(members: list[str]) -> None:
    value = redpanda_record(*members)
    assert is_redpanda(value)
    with pytest.raises(MalformedRecord):
        decode(KEY, value)
    with pytest.raises(ForeignLayout, match=r"Redpanda's layout.*: use --by polling"):
        LayoutCheck().refused(KEY, value, MalformedRecord("bad"))


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_valid_generation_proves_kafka(version: int) -> None:
    members = {f"m-{n}": (subscription(["t"]), assignment({"t": [n]})) for n in range(3)}
    assert not is_redpanda(group_bytes(7, members, version=version))


def test_captured_records_are_recognised_as_kafkas() -> None:
    rows = [row for rows in captured_records().values() for row in rows if row.value is not None]
    assert rows
    assert not any(is_redpanda(row.value) for row in rows if row.value is not None)


def test_bytes_after_the_last_field_are_malformed() -> None:
    members = {"m": (subscription(["t"]), assignment({"t": [0]}))}
    with pytest.raises(MalformedRecord, match="GroupMetadataValue: 1 bytes follow the last field"):
        decode(KEY, group_bytes(7, members) + b"x")


def test_twenty_unusable_records_alone_mean_another_system() -> None:
    check = LayoutCheck()
    for _ in range(19):
        check.refused(KEY, b"?", MalformedRecord("bad"))
    with pytest.raises(ForeignLayout, match="the first 20 group records"):
        check.refused(KEY, b"?", MalformedRecord("bad"))


def test_unusable_records_among_usable_ones_are_dead_letters() -> None:
    check = LayoutCheck()
    check.mark_used()
    for _ in range(100):
        check.refused(KEY, b"?", MalformedRecord("bad"))


def test_malformed_client_bytes_do_not_mean_another_system() -> None:
    check = LayoutCheck()
    for _ in range(100):
        check.refused(KEY, b"?", MalformedMember("subscription of member m: bad"))
