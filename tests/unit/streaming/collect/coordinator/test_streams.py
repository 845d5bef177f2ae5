"""Streams groups: real values of a 4.3.1 broker, and the view that they give."""

from __future__ import annotations

from struct import pack

import pytest

from streaming.collect.coordinator import streams
from streaming.collect.coordinator.groups import CoordinatedGroup
from streaming.collect.coordinator.modern import GroupPart
from streaming.collect.coordinator.records import decode
from streaming.collect.coordinator.streams import (
    Epoch,
    StreamsCurrentAssignment,
    StreamsGroup,
    StreamsSubscription,
    Tasks,
    Topology,
)
from streaming.collect.encoding import MalformedRecord
from streaming.records.events import GroupObserved, ObservedMember
from tests.support.offsets_topic import string


def key(number: int, *fields: str) -> bytes:
    return pack(">h", number) + b"".join(map(string, ("g", *fields)))


@pytest.mark.parametrize(
    ("number", "value", "part"),
    [
        (
            17,
            "000000000004856958c001656a6102000400000000011902156e756d2e7374616e6462792e7265706c69636173023100",
            GroupPart("g", "streams", "epoch", Epoch(4, 0)),
        ),
        (20, "000000000005010008000001a202649be8", GroupPart("g", "streams", "target_epoch", 5)),
    ],
)
def test_the_group_s_own_values(number: int, value: str, part: GroupPart) -> None:
    assert decode(key(number), bytes.fromhex(value)) == part


def test_owned_and_revoked_tasks_of_a_member() -> None:
    value = "000000000004000000040202023002000000010100050200000004010102023002000000030100050200000004010100"

    assert decode(key(22, "m"), bytes.fromhex(value)) == GroupPart(
        "g",
        "streams",
        "currents",
        StreamsCurrentAssignment(4, 4, "UNREVOKED_TASKS", {"0": [1]}, {}, {}, {"0": [3]}),
        "m",
    )


def test_subtopologies_and_tasks_are_ascending() -> None:
    first, second = "0231 02 00000001 00", "0230 03 00000002 00000000 00"
    value = bytes.fromhex(f"0000 00000004 00000004 00 03 {first} {second} 01 01 01 01 01 00")
    part = decode(key(22, "m"), value)

    assert isinstance(part, GroupPart)
    assert isinstance(part.value, StreamsCurrentAssignment)
    assert [*part.value.active.items()] == [("0", [0, 2]), ("1", [1])]


def test_a_member_with_an_end_point_and_without() -> None:
    head = bytes.fromhex("0000 00 00 0263 0268 00002710 00000000 0270".replace(" ", ""))

    plain = decode(key(19, "m"), head + b"\xff" + b"\x01\x00")
    told = decode(key(19, "m"), head + b"\x01\x02h" + b"\xff\xfe" + b"\x00" + b"\x01\x00")

    assert plain == GroupPart(
        "g", "streams", "subscriptions", StreamsSubscription(None, None, "c", "h", 10_000, "p", None), "m"
    )
    assert told == GroupPart(
        "g", "streams", "subscriptions", StreamsSubscription(None, None, "c", "h", 10_000, "p", "h:65534"), "m"
    )


def test_the_topology_s_topics() -> None:
    info = b"\x03rp" + pack(">ih", 0, -1) + b"\x02\x02k\x02v\x00" + b"\x00"
    indexes = b"\x02" + pack(">h", 0) + b"\x01\x01\x00"
    subtopology = b"\x020" + b"\x03\x02b\x02a" + b"\x01" + b"\x01" + b"\x01" + b"\x02" + info + b"\x02" + indexes
    value = pack(">hi", 0, 3) + b"\x02" + subtopology + b"\x00" + b"\x00"

    assert decode(key(23), value) == GroupPart("g", "streams", "topology", Topology(3, ("a", "b", "rp")))
    for end in range(len(value) - 1):  # the tags at the end are not looked for
        with pytest.raises(MalformedRecord):
            decode(key(23), value[:end])


SAID = StreamsSubscription(None, "r", "c", "/h", 300_000, "p", "h:1")


def group(
    epoch: Epoch | None, target: int | None, now: StreamsCurrentAssignment | None = None, topology: bool = True
) -> StreamsGroup:
    return StreamsGroup(
        epoch,
        target,
        {"m": SAID},
        {"m": Tasks({"0": [1, 2]}, {"1": [0]}, {})},
        {} if now is None else {"m": now},
        Topology(0, ("in",)) if topology else None,
    )


NOW = StreamsCurrentAssignment(4, 3, "STABLE", {"0": [1]}, {"1": [0]}, {}, {"0": [2]})


def test_the_view() -> None:
    assert group(Epoch(4, 0), 4, NOW).snapshot("g", 9, str) == GroupObserved(
        group_id="g",
        timestamp=9,
        members=[
            ObservedMember(
                member_id="m",
                topics=["in"],
                assigned={"0": [1]},
                client_id="c",
                client_host="/h",
                rack_id="r",
                rebalance_timeout_ms=300_000,
                member_epoch=4,
                previous_member_epoch=3,
                state="STABLE",
                pending_revocation={"0": [2]},
                target={"0": [1, 2]},
                standby={"1": [0]},
                warmup={},
                process_id="p",
                endpoint="h:1",
            )
        ],
        group_epoch=4,
        group_protocol="streams",
        protocol_type="streams",
        state="Stable",
        kind="streams",
    )


@pytest.mark.parametrize(
    ("known", "state"),
    [
        (group(Epoch(4, 0), 4, NOW), "Stable"),
        (group(Epoch(5, 0), 4, NOW), "Assigning"),
        (group(Epoch(4, 0), None, NOW), "Assigning"),
        (group(Epoch(4, 0), 4), "Reconciling"),
        (group(Epoch(5, 0), 5, NOW), "Reconciling"),
        (group(Epoch(4, -1), 4, NOW), "NotReady"),
        (group(Epoch(4, 0), 4, NOW, topology=False), "NotReady"),
        (StreamsGroup(Epoch(4, -1), 4), "Empty"),
    ],
)
def test_the_state(known: StreamsGroup, state: str) -> None:
    seen = known.snapshot("g", 9, str)

    assert seen is not None
    assert seen.state == state


def test_there_is_no_snapshot_before_the_first_epoch() -> None:
    state = CoordinatedGroup()
    state.apply(GroupPart("g", "streams", "topology", Topology(0, ())))
    assert state.modern == StreamsGroup(topology=Topology(0, ()))
    assert state.snapshot("g", 1, str) is None
    state.apply(GroupPart("g", "streams", "epoch", None))
    state.apply(GroupPart("g", "streams", "topology", None))
    assert state.is_gone
    assert streams.STREAMS == "streams"
