"""Groups with epochs: records of a 4.3.1 broker, and the snapshots read from these records."""

from struct import pack
from typing import Any

import pytest
from msgspec import structs

from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.modern import (
    CurrentMemberAssignment,
    EpochGroup,
    GroupRecordPart,
    MemberMetadata,
    StreamsEpoch,
    Topology,
)
from streaming.collect.coordinator.records import decode
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.followed_group import CoordinatedGroup
from streaming.records.events import GroupObserved, ObservedMember
from tests.support.offsets_topic import string


def part(name: str, value: object, key: str | None = None) -> GroupRecordPart:
    return GroupRecordPart("g", "consumer", name, value, key)


def identity(host: str, *topics: str, **fields: Any) -> ObservedMember:
    return ObservedMember(member_id="", topics=[*topics], assigned={}, client_id="c", client_host=host, **fields)


def subscription(*topics: str, regex: str | None = None, assignor: str | None = None) -> MemberMetadata:
    return MemberMetadata(identity("/h", *topics, rebalance_timeout_ms=1000), regex, assignor)


def current(epoch: int, state: str) -> CurrentMemberAssignment:
    return CurrentMemberAssignment(member_epoch=epoch, previous_member_epoch=2, state=state, active={"id": (0,)})


def apply_records(*records: ClassicGroup | GroupRecordPart, epoch_group: EpochGroup | None = None) -> CoordinatedGroup:
    group = CoordinatedGroup(epoch_group=epoch_group)
    for record in records:
        group.apply(record)
    return group


def after(*parts: GroupRecordPart, group: EpochGroup | None = None) -> EpochGroup:
    epoch_group = apply_records(*parts, epoch_group=group).epoch_group
    assert epoch_group is not None
    return epoch_group


def snapshot(group: EpochGroup) -> GroupObserved:
    observed = group.snapshot("g", 9, str)
    assert observed is not None
    return observed


def test_group_keeps_order_of_replaced_subscriptions() -> None:
    group = after(part("epoch", 2), *(part("subscriptions", subscription("t", assignor=m), m) for m in "ab"))
    again = after(part("subscriptions", subscription("u", assignor="a"), "a"), group=group)
    assert list(again.subscriptions) == ["a", "b"]
    assert snapshot(again).protocol == "a"
    assert [member.topics for member in snapshot(again).members] == [["u"], ["t"]]
    gone = after(part("subscriptions", None, "a"), group=again)
    assert list(gone.subscriptions) == ["b"]
    assert after(part("subscriptions", None, "not there"), group=gone) == gone


def test_deleted_group_stays_deleted_after_tombstones() -> None:
    group = after(part("epoch", 2), part("subscriptions", subscription("t"), "m"))
    assert apply_records(part("epoch", None), epoch_group=group).is_gone
    for rest in (
        part("subscriptions", None, "m"),
        part("target_epoch", None),
        part("regexes", None, "t.*"),
        part("regexes", ("t",), "t.*"),
    ):
        assert apply_records(rest).is_gone


def test_regex_subscription_gives_the_resolved_topics() -> None:
    group = after(
        part("epoch", 2),
        part("subscriptions", subscription("t", regex="u.*"), "m"),
        part("regexes", ("t", "u1", "u2"), "u.*"),
    )
    assert snapshot(group).members[0].topics == ["t", "u1", "u2"]


def test_consumer_group_state_follows_from_its_records() -> None:
    def state(*parts: GroupRecordPart) -> str | None:
        return snapshot(after(part("epoch", 3), *parts)).state

    member, target = part("subscriptions", subscription("t"), "m"), part("target_epoch", 3)

    def at(epoch: int, now: str) -> GroupRecordPart:
        return part("assignments", current(epoch, now), "m")

    assert state() == "Empty"
    assert state(member) == "Assigning"
    assert state(member, part("target_epoch", 2)) == "Assigning"
    assert state(member, target) == "Reconciling"
    assert state(member, target, at(2, "STABLE")) == "Reconciling"
    assert state(member, target, at(3, "UNRELEASED_PARTITIONS")) == "Reconciling"
    assert state(member, target, at(3, "STABLE")) == "Stable"


def test_assignor_is_the_one_that_most_members_name() -> None:
    group = EpochGroup(
        "consumer", subscriptions={"a": subscription(assignor="range"), "b": subscription(assignor="uniform")}
    )
    group.put("subscriptions", "c", subscription(assignor="uniform"))
    assert group.assignor == "uniform"
    group.put("subscriptions", "b", subscription(assignor="range"))
    assert group.assignor == "range"
    for member in "abc":
        group.put("subscriptions", member, subscription())
    assert group.assignor is None


GENERATION = GroupObserved(group_id="", timestamp=0, members=[], generation=3, protocol="range")


def test_classic_group_with_consumer_records_has_both_states() -> None:
    both = apply_records(ClassicGroup("g", GENERATION), part("epoch", 4))
    assert both == CoordinatedGroup(GENERATION, EpochGroup("consumer", epoch=4))
    both.apply(ClassicGroup("g", None))
    assert both == CoordinatedGroup(epoch_group=EpochGroup("consumer", epoch=4))
    both.apply(part("epoch", None))
    assert both.is_gone


def test_a_tombstone_of_another_kind_changes_nothing() -> None:
    group = apply_records(GroupRecordPart("g", "share", "epoch", 4), part("epoch", None))
    assert group.epoch_group == EpochGroup("share", epoch=4)


def test_snapshot_has_the_number_of_its_protocol_or_is_none() -> None:
    def number(group: CoordinatedGroup) -> tuple[int | None, int | None] | None:
        snapshot = group.snapshot("g", 1, str)
        return None if snapshot is None else (snapshot.generation, snapshot.group_epoch)

    assert number(CoordinatedGroup(classic=GENERATION)) == (3, None)
    assert number(CoordinatedGroup(epoch_group=EpochGroup("consumer", epoch=4))) == (None, 4)
    assert number(CoordinatedGroup(epoch_group=EpochGroup("consumer"))) is None
    assert number(CoordinatedGroup()) is None


def key(number: int, *fields: str) -> bytes:
    return pack(">h", number) + b"".join(map(string, ("g", *fields)))


TOPIC = "lN6DbMY5RVisUxJOfQo_Yg"


def test_share_group_snapshot_has_a_partition_with_two_members() -> None:
    metadata = MemberMetadata(identity("/h", "t"))
    current = CurrentMemberAssignment(member_epoch=3, previous_member_epoch=2, state="STABLE", active={TOPIC: (0,)})
    members = {"a": metadata, "b": metadata}
    group = EpochGroup("share", 3, 3, members, {"a": {TOPIC: (0,)}}, dict.fromkeys(members, current))
    expected = {"assigned": {"t": [0]}, "member_epoch": 3, "previous_member_epoch": 2, "state": "STABLE"}
    a = structs.replace(metadata.member, member_id="a", target={"t": [0]}, **expected)
    assert group.snapshot("g", 9, {TOPIC: "t"}.__getitem__) == GroupObserved(
        group_id="g",
        timestamp=9,
        members=[a, structs.replace(a, member_id="b", target=None)],
        group_epoch=3,
        group_protocol="share",
        protocol_type="share",
        state="Stable",
        kind="share",
    )
    assert snapshot(EpochGroup("share", 4, 3)).state == "Empty"
    assert EpochGroup("share").snapshot("g", 9, str) is None


def test_streams_tasks_are_sorted_by_subtopology() -> None:
    first, second = "0231 02 00000001 00", "0230 03 00000002 00000000 00"
    value = bytes.fromhex(f"0000 00000004 00000004 00 03 {first} {second} 01 01 01 01 01 00")
    decoded: Any = decode(key(22, "m"), value)
    assert decoded.value.active == {"0": (0, 2), "1": (1,)}


def test_streams_topology_record_gives_its_topics() -> None:
    info = b"\x03rp" + pack(">ih", 0, -1) + b"\x02\x02k\x02v\x00" + b"\x00"
    indexes = b"\x02" + pack(">h", 0) + b"\x01\x01\x00"
    subtopology = b"\x020" + b"\x03\x02b\x02a" + b"\x01" + b"\x01" + b"\x01" + b"\x02" + info + b"\x02" + indexes
    value = pack(">hi", 0, 3) + b"\x02" + subtopology + b"\x00" + b"\x00"
    assert decode(key(23), value) == GroupRecordPart("g", "streams", "topology", Topology(3, ("a", "b", "rp")))
    for end in range(len(value) - 1):  # the tagged fields at the end are not read
        with pytest.raises(MalformedRecord):
            decode(key(23), value[:end])


INSTANCE = identity("/h", rebalance_timeout_ms=300_000, process_id="p", rack_id="r", endpoint="h:1")


def group(
    epoch: StreamsEpoch | None, target: int | None, now: CurrentMemberAssignment | None = None, topology: bool = True
) -> EpochGroup:
    streams_group = EpochGroup("streams", epoch, target, {"m": MemberMetadata(INSTANCE)}, {"m": {"0": (1, 2)}})
    streams_group.put("topology", None, Topology(0, ("in",)) if topology else None)
    streams_group.put("assignments", "m", now)
    return streams_group


CURRENT_TASKS = CurrentMemberAssignment(
    member_epoch=4,
    previous_member_epoch=4,
    state="STABLE",
    active={"0": (1,)},
    standby={"1": (0,)},
    warmup={},
    pending_revocation={"0": (2,)},
)


def test_streams_group_records_give_a_snapshot() -> None:
    member = structs.replace(
        INSTANCE,
        member_id="m",
        topics=["in"],
        assigned={"0": [1]},
        member_epoch=4,
        previous_member_epoch=4,
        state="STABLE",
        pending_revocation={"0": [2]},
        target={"0": [1, 2]},
        standby={"1": [0]},
        warmup={},
    )
    assert snapshot(group(StreamsEpoch(4, 0), 4, CURRENT_TASKS)) == GroupObserved(
        group_id="g",
        timestamp=9,
        members=[member],
        group_epoch=4,
        group_protocol="streams",
        protocol_type="streams",
        state="Stable",
        kind="streams",
    )


@pytest.mark.parametrize(
    ("streams_group", "state"),
    [
        (group(StreamsEpoch(4, 0), 4, CURRENT_TASKS), "Stable"),
        (group(StreamsEpoch(5, 0), 4, CURRENT_TASKS), "Assigning"),
        (group(StreamsEpoch(4, 0), None, CURRENT_TASKS), "Assigning"),
        (group(StreamsEpoch(4, 0), 4), "Reconciling"),
        (group(StreamsEpoch(5, 0), 5, CURRENT_TASKS), "Reconciling"),
        (group(StreamsEpoch(4, -1), 4, CURRENT_TASKS), "NotReady"),
        (group(StreamsEpoch(4, 0), 4, CURRENT_TASKS, topology=False), "NotReady"),
        (EpochGroup("streams", StreamsEpoch(4, -1), 4), "Empty"),
    ],
)
def test_streams_group_state_follows_from_its_epochs(streams_group: EpochGroup, state: str) -> None:
    assert snapshot(streams_group).state == state


def test_group_before_its_first_epoch_has_no_snapshot() -> None:
    state = apply_records(GroupRecordPart("g", "streams", "topology", Topology(0, ())))
    assert state.epoch_group == EpochGroup("streams", topology=Topology(0, ()))
    assert state.snapshot("g", 1, str) is None
    state.apply(GroupRecordPart("g", "streams", "epoch", None))
    state.apply(GroupRecordPart("g", "streams", "topology", None))
    assert state.is_gone
