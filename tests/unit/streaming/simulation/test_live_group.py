"""A live group, built from its events, from which the next rebalance is simulated."""

from collections.abc import Iterable

import pytest

from assignors.model import Topic
from streaming.records.diffs import LatestAssignment, MemberNames, UnknownGroup
from streaming.records.events import Event
from streaming.simulation.live_group import LiveGroup, MembershipLog
from tests.support.histories import Log as Events


def live(events: Iterable[Event], latest: LatestAssignment | None = None) -> LiveGroup:
    log = MembershipLog("g")
    for event in events:
        log.feed(event)
    return log.group(latest)


def make_assignment(**members: dict[str, list[int]]) -> LatestAssignment:
    return LatestAssignment(
        group_id="g",
        protocol="classic",
        assignor="range",
        generation=7,
        group_epoch=None,
        timestamp=9,
        members=dict(members),
    )


def test_last_snapshot_of_an_observed_group_is_complete() -> None:
    log = Events()
    clients = {"b": ("pay", "/h1"), "a": ("ship", "/h2")}
    group = live(
        [
            log.topics(t=4, u=2),
            log.observe(4, {"a": {"t": [0, 1, 2, 3]}}),
            log.observe(5, {"b": {"t": [1, 0]}, "a": {"t": [2, 3]}}, clients=clients),
            log.leave("a"),
        ]
    )
    assert (group.kind, group.protocol, group.assignor, group.number) == ("consumer", "classic", "range", 5)
    assert [(member.member_id, member.owned, member.generation) for member in group.members] == [
        ("b", {"t": [0, 1]}, 5),
        ("a", {"t": [2, 3]}, 5),
    ]
    assert group.topics == {"t": Topic("t", 4)}
    assert group.names == {"b": "pay", "a": "ship"}
    assert group.unknown == ()


def test_consumer_members_start_from_their_targets() -> None:
    log = Events()
    view = log.observe(3, {"a": {"t": [0, 1]}, "b": {}}, epoch=True, protocol="uniform")
    group = live([log.topics(t=2), view])
    assert (group.protocol, group.assignor) == ("consumer", "uniform")
    assert not any(member.classic for member in group.members)


def test_derived_group_starts_from_members_and_assignments() -> None:
    log = Events()
    group = live(
        [
            log.topics(t=4),
            log.join("c", assignors=["sticky"], session_timeout_ms=6000, client_id="pay"),
            log.join("a", rack_id="r1"),
            log.join("b"),
            log.leave("b"),
            log.subscribe("a", "t", "u"),
        ],
        make_assignment(c={"t": [0, 1]}, a={"t": [2, 3]}),
    )
    assert [(member.member_id, member.topics, member.owned) for member in group.members] == [
        ("c", ("t",), {"t": [0, 1]}),
        ("a", ("t", "u"), {"t": [2, 3]}),
    ]
    first, second = group.members
    assert (first.assignors, first.session_timeout_ms, first.names) == (("sticky",), 6000, MemberNames(client_id="pay"))
    assert (second.rack_id, second.generation) == ("r1", 7)
    assert group.unknown == ("topic u: its partition count is not in the membership log",)


def test_returning_static_member_takes_its_former_place() -> None:
    log = Events()
    joins = [log.join("a-1", group_instance_id="a"), log.join("b-1"), log.join("a-2", group_instance_id="a")]
    group = live([log.topics(t=2), *joins], make_assignment(**{"a-2": {"t": [0]}, "b-1": {"t": [1]}}))
    assert [member.member_id for member in group.members] == ["a-2", "b-1"]


def test_expired_records_of_the_log_are_reported() -> None:
    log = Events()
    group = live([log.topics(t=2), log.join("a")], make_assignment(a={"t": [0]}, b={"t": [1]}))
    assert [(member.member_id, member.topics) for member in group.members] == [("a", ("t",)), ("b", ("t",))]
    (unknown_part,) = group.unknown
    assert unknown_part.startswith("the membership topic does not have the join of 1 of 2 members: ")


def test_unknown_or_deleted_group_is_rejected() -> None:
    log = Events()
    with pytest.raises(UnknownGroup, match="has no data about it"):
        live([])
    with pytest.raises(UnknownGroup, match="does not exist any more"):
        live([log.observe(5, {"b": {"t": [0]}}), log.delete()])
