"""Share groups: real values of a 4.3.1 broker, and the view that they give."""

from __future__ import annotations

from struct import pack

from streaming.collect.coordinator.modern import GroupPart
from streaming.collect.coordinator.records import decode
from streaming.collect.coordinator.share import ShareCurrentAssignment, ShareGroup, ShareSubscription
from streaming.records.events import GroupObserved, ObservedMember
from tests.support.offsets_topic import string

TOPIC = "lN6DbMY5RVisUxJOfQo_Yg"


def key(number: int, *fields: str) -> bytes:
    return pack(">h", number) + b"".join(map(string, ("g", *fields)))


def test_fields_of_a_member() -> None:
    value = "00000000000300000002000294de836cc6394558ac53124e7d0a3f620300000001000000020000"

    assert decode(key(14, "m"), bytes.fromhex(value)) == GroupPart(
        "g", "share", "currents", ShareCurrentAssignment(3, 2, "STABLE", {TOPIC: (1, 2)}), "m"
    )


def test_the_other_values() -> None:
    said = pack(">h", 0) + b"\x00" + b"\x02c" + b"\x02h" + b"\x02\x02t" + b"\x00"

    assert decode(key(10, "m"), said) == GroupPart(
        "g", "share", "subscriptions", ShareSubscription(None, "c", "h", ("t",)), "m"
    )
    assert decode(key(11), pack(">hiq", 0, 2, 7) + b"\x00") == GroupPart("g", "share", "epoch", 2)
    assert decode(key(12), pack(">hi", 0, 2) + b"\x00") == GroupPart("g", "share", "target_epoch", 2)
    assert decode(key(13, "m"), pack(">h", 0) + b"\x01\x00") == GroupPart("g", "share", "targets", {}, "m")
    assert decode(key(13, "m"), None) == GroupPart("g", "share", "targets", None, "m")


def test_the_view_of_two_members_with_one_partition() -> None:
    said = ShareSubscription(None, "c", "/h", ("t",))
    has = ShareCurrentAssignment(3, 2, "STABLE", {TOPIC: (0,)})
    members = {"a": said, "b": said}
    group = ShareGroup(3, 3, members, {"a": {TOPIC: (0,)}}, dict.fromkeys(members, has))

    def member(name: str, target: dict[str, list[int]] | None) -> ObservedMember:
        return ObservedMember(
            member_id=name,
            topics=["t"],
            assigned={"t": [0]},
            client_id="c",
            client_host="/h",
            member_epoch=3,
            previous_member_epoch=2,
            state="STABLE",
            target=target,
        )

    assert group.snapshot("g", 9, {TOPIC: "t"}.__getitem__) == GroupObserved(
        group_id="g",
        timestamp=9,
        members=[member("a", {"t": [0]}), member("b", None)],
        group_epoch=3,
        group_protocol="share",
        protocol_type="share",
        state="Stable",
        kind="share",
    )
    empty = ShareGroup(4, 3).snapshot("g", 9, str)
    assert empty is not None
    assert empty.state == "Empty"
    assert ShareGroup().snapshot("g", 9, str) is None
