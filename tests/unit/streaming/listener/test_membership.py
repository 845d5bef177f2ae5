from msgspec import structs

from streaming.listener.membership import (
    HEARTBEAT_MS,
    LOST_REASON,
    RENEW_JOIN_AFTER_MS,
    REPEAT_REPORT_AFTER_MS,
    ClockReading,
    Membership,
    join_template,
)
from streaming.monitor import reported
from streaming.records import events

EAGER = join_template("g", client_id="app", client_host="host", assignors=["range"], session_timeout_ms=45_000)
COOPERATIVE = structs.replace(EAGER, assignors=["cooperative-sticky"])


def at(tick: int) -> ClockReading:
    """Return clock readings ``tick`` ms after the start; the wall clock is one second ahead of the monotonic clock."""
    return ClockReading(1000 + tick, tick)


def joined(read_configuration: events.MemberJoined = EAGER, timestamp: int = 1000) -> events.MemberJoined:
    return structs.replace(read_configuration, timestamp=timestamp, member_id="m", topics=["t"])


def ack(
    tick: int, generation: int, owned: events.Partitions, held_ms: int = 0, **changes: events.Partitions
) -> events.AssignmentAcknowledged:
    fields = {"generation": generation, "owned": owned, "held_ms": held_ms} | changes
    return events.AssignmentAcknowledged(group_id="g", timestamp=1000 + tick, member_id="m", **fields)


def beat(tick: int, generation: int) -> events.MemberHeartbeat:
    return events.MemberHeartbeat(group_id="g", timestamp=1000 + tick, member_id="m", generation=generation)


def data(sent: list[events.Event]) -> list[object]:
    return [event.data for event in sent]


def member(read_configuration: events.MemberJoined = EAGER) -> Membership:
    membership = Membership(read_configuration)
    assert membership.subscribed(["t"], at(0)) == []
    return membership


def holding(read_configuration: events.MemberJoined = EAGER) -> Membership:
    """Return a membership to which two partitions were assigned in generation 3, at 0 ms."""
    membership = member(read_configuration)
    membership.assigned([("t", 1), ("t", 0)], "m", 3, at(0))
    return membership


def test_first_assignment_of_a_member_is_its_join() -> None:
    membership = member()
    sent = membership.assigned([("t", 1), ("t", 0)], "m", 3, at(0))
    assert data(sent) == [joined(), ack(0, 3, {"t": [0, 1]}, assigned={"t": [0, 1]})]
    assert [event.id for event in sent] == ["1", "2"]
    assert {event.source for event in sent} == {sent[0].source}


def test_two_listeners_have_different_event_sources() -> None:
    assert holding().due(at(HEARTBEAT_MS))[0].source != holding().due(at(HEARTBEAT_MS))[0].source


def test_eager_consumer_owns_nothing_between_generations() -> None:
    membership = holding()
    assert data(membership.revoked([("t", 0), ("t", 1)], 3, at(5))) == [ack(5, -1, {}, revoked={"t": [0, 1]})]
    assert data(membership.assigned([("t", 1)], "m", 4, at(9))) == [ack(9, 4, {"t": [1]}, assigned={"t": [1]})]


def test_cooperative_consumer_revokes_within_a_generation() -> None:
    membership = holding(COOPERATIVE)
    assert data(membership.revoked([("t", 0)], 4, at(5))) == [ack(5, 4, {"t": [1]}, revoked={"t": [0]})]
    assert data(membership.assigned([("u", 2)], "m", 5, at(9))) == [
        ack(9, 5, {"t": [1], "u": [2]}, assigned={"u": [2]})
    ]


def test_partitions_revoked_while_leaving_have_no_generation() -> None:
    membership = holding(COOPERATIVE)
    membership.leaves()
    assert data(membership.revoked([("t", 0), ("t", 1)], 3, at(5))) == [ack(5, -1, {}, revoked={"t": [0, 1]})]
    left = events.MemberLeft(group_id="g", timestamp=1006, member_id="m", reason="closed", acknowledges=True)
    assert data(membership.left("closed", at(6))) == [left]
    assert membership.due(at(60_000)) == membership.renewed(at(60_000)) == membership.left("closed", at(60_000)) == []


def test_closed_static_member_reports_no_leave() -> None:
    assert holding(structs.replace(EAGER, group_instance_id="i")).left("closed", at(6)) == []


def test_lost_partitions_give_a_fence_and_then_a_new_join() -> None:
    membership = holding()
    fenced = events.MemberFenced(group_id="g", timestamp=1005, member_id="m", reason=LOST_REASON, acknowledges=True)
    assert data(membership.lost(at(5))) == [fenced]
    assert membership.revoked([("t", 0)], 3, at(6)) == membership.lost(at(6)) == []
    assert data(membership.assigned([], "m", 5, at(9))) == [joined(timestamp=1009), ack(9, 5, {}, assigned={})]


def test_listener_repeats_its_state_and_sends_heartbeats() -> None:
    membership, reports = holding(), list[object]()
    for tick in range(0, 15_000, 250):
        reports += data(membership.due(at(tick)))
    all_partitions = {"t": [0, 1]}
    assert reports == [
        ack(REPEAT_REPORT_AFTER_MS[0], 3, all_partitions, REPEAT_REPORT_AFTER_MS[0]),
        *(beat(5000, 3), beat(8000, 3)),
        ack(REPEAT_REPORT_AFTER_MS[1], 3, all_partitions, REPEAT_REPORT_AFTER_MS[1]),
        beat(13_000, 3),
    ]


def test_listener_repeats_reports_at_the_times_the_stream_awaits() -> None:
    assert REPEAT_REPORT_AFTER_MS == (reported.REPORT_WAIT_MS, reported.LATE_MEMBER_WAIT_MS)


def test_three_heartbeats_fit_into_a_short_session() -> None:
    membership = holding(structs.replace(EAGER, session_timeout_ms=1500))
    assert data(membership.due(at(500))) == [beat(500, 3)]


def test_only_heartbeats_are_sent_between_generations() -> None:
    membership = holding()
    membership.revoked([("t", 0), ("t", 1)], 3, at(5))
    assert data(membership.due(at(4000))) == [beat(4000, 3)]
    assert data(membership.renewed(at(5000))) == [joined(timestamp=6000)]


def test_newest_state_is_sent_again() -> None:
    membership = holding()
    assert data(membership.renewed(at(50))) == [joined(timestamp=1050), ack(50, 3, {"t": [0, 1]})]
    assert data(membership.due(at(50 + RENEW_JOIN_AFTER_MS))) == data(holding().renewed(at(50 + RENEW_JOIN_AFTER_MS)))


def test_unchanged_generation_is_acknowledged_once() -> None:
    membership = holding(COOPERATIVE)
    assert membership.seen("m", 3, at(5)) == []
    assert data(membership.seen("m", 4, at(5))) == [ack(5, 4, {"t": [0, 1]})]
    assert data(member(COOPERATIVE).seen("m", 4, at(0))) == [joined(COOPERATIVE), ack(0, 4, {})]
    membership.leaves()
    assert membership.seen("m", 5, at(6)) == []


def test_new_subscription_is_published() -> None:
    membership = holding()
    assert membership.subscribed(["t"], at(5)) == []
    changed = events.SubscriptionChanged(group_id="g", timestamp=1005, member_id="m", topics=["t", "u"])
    assert data(membership.subscribed(["t", "u", "t"], at(5))) == [changed]
    (again, _) = data(membership.renewed(at(6)))
    assert again == structs.replace(joined(timestamp=1006), topics=["t", "u"])
