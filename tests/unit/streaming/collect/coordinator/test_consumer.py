from __future__ import annotations

from streaming.collect.coordinator.consumer import ConsumerCurrentAssignment, ConsumerGroup, ConsumerSubscription
from streaming.collect.coordinator.groups import CoordinatedGroup
from streaming.collect.coordinator.modern import GroupPart, ModernGroup


def part(name: str, value: object, key: str | None = None) -> GroupPart:
    return GroupPart("g", "consumer", name, value, key)


def subscription(*topics: str, regex: str | None = None, assignor: str | None = None) -> ConsumerSubscription:
    return ConsumerSubscription(None, None, "c", "/h", topics, regex, 1000, assignor)


def after(*parts: GroupPart, group: ModernGroup | None = None) -> ModernGroup | None:
    state = CoordinatedGroup(modern=group)
    for one in parts:
        state.apply(one)
    return state.modern


def test_parts_are_put_together() -> None:
    now = ConsumerCurrentAssignment(2, 1, "STABLE", {"id": (0,)}, {})
    parts = [
        part("subscriptions", subscription("t"), "m"),
        part("epoch", 2),
        part("targets", {"id": (0,)}, "m"),
        part("target_epoch", 2),
        part("currents", now, "m"),
    ]

    assert after(*parts) == ConsumerGroup(2, 2, {"m": subscription("t")}, {"m": {"id": (0,)}}, {"m": now})


def test_part_is_replaced_in_place_and_removed() -> None:
    group = after(part("epoch", 2), *(part("subscriptions", subscription("t", assignor=m), m) for m in "ab"))
    again = after(part("subscriptions", subscription("u", assignor="a"), "a"), group=group)

    assert again is not None
    assert list(again.subscriptions) == ["a", "b"]
    seen = again.snapshot("g", 1, str)
    assert seen is not None
    assert (seen.protocol, [member.topics for member in seen.members]) == ("a", [["u"], ["t"]])
    gone = after(part("subscriptions", None, "a"), group=again)
    assert gone is not None
    assert list(gone.subscriptions) == ["b"]
    assert after(part("subscriptions", None, "not there"), group=gone) == gone


def test_the_groups_assignor_is_the_first_that_a_member_names() -> None:
    def protocol(*assignors: str | None) -> str | None:
        members = (
            part("subscriptions", subscription("t", assignor=one), f"m{number}") for number, one in enumerate(assignors)
        )
        group = after(part("epoch", 2), *members)
        seen = None if group is None else group.snapshot("g", 1, str)
        assert seen is not None
        return seen.protocol

    assert protocol(None, "range", "uniform") == "range"
    assert protocol(None, None) is None


def test_deleted_group_stays_deleted_after_tombstones() -> None:
    group = after(part("epoch", 2), part("subscriptions", subscription("t"), "m"))

    assert after(part("epoch", None), group=group) is None
    for rest in (
        part("subscriptions", None, "m"),
        part("target_epoch", None),
        part("regexes", None, "t.*"),
        part("regexes", ("t",), "t.*"),
    ):
        assert after(rest, group=None) is None


def test_before_its_first_epoch_there_is_no_view() -> None:
    group = after(part("subscriptions", subscription("t"), "m"))
    assert group is not None
    assert group.snapshot("g", 1, str) is None


def test_the_topics_of_a_pattern() -> None:
    group = after(
        part("epoch", 2),
        part("subscriptions", subscription("t", regex="u.*"), "m"),
        part("regexes", ("t", "u1", "u2"), "u.*"),
    )
    assert group is not None
    seen = group.snapshot("g", 1, str)
    assert seen is not None
    assert seen.members[0].topics == ["t", "u1", "u2"]


def test_the_states() -> None:
    def state(*parts: GroupPart) -> str | None:
        group = after(part("epoch", 3), *parts)
        seen = None if group is None else group.snapshot("g", 1, str)
        return None if seen is None else seen.state

    member, target = part("subscriptions", subscription("t"), "m"), part("target_epoch", 3)

    def current(epoch: int, now: str) -> GroupPart:
        return part("currents", ConsumerCurrentAssignment(epoch, 2, now, {}, {}), "m")

    assert state() == "Empty"
    assert state(member) == "Assigning"
    assert state(member, part("target_epoch", 2)) == "Assigning"
    assert state(member, target) == "Reconciling"
    assert state(member, target, current(2, "STABLE")) == "Reconciling"
    assert state(member, target, current(3, "UNRELEASED_PARTITIONS")) == "Reconciling"
    assert state(member, target, current(3, "STABLE")) == "Stable"


def test_assignor_is_the_one_most_members_name() -> None:
    group = ConsumerGroup(subscriptions={"a": subscription(assignor="range"), "b": subscription(assignor="uniform")})
    group.put("subscriptions", "c", subscription(assignor="uniform"))
    assert group.assignor == "uniform"
    group.put("subscriptions", "b", subscription(assignor="range"))
    assert group.assignor == "range"
    for member in "abc":
        group.put("subscriptions", member, subscription())
    assert group.assignor is None
