"""Incidents of the stream's groups, event by event: each is opened, updated and closed exactly once."""

from typing import Any

from assignors.partitioner import partition_for_key
from streaming.episodes.incidents import IncidentLimits
from streaming.monitor.bucket import expire
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord, Sinks
from streaming.records import codec
from streaming.records.codec import ce_attributes
from streaming.records.episodes import Incident
from streaming.records.events import Event
from tests.support.histories import Log
from tests.support.pure_stream import apply_events, written_event, written_incidents

QUIET_MS = 120_000
TOPICS = {"m": 4, "d": 5, "a": 3, "dlt": 2, "e": 7, "i": 6}
SINKS = Sinks("m", "d", "a", "dlt", TOPICS, episodes="e", incidents="i", quiet_ms=QUIET_MS)


class WatchedGroup:
    """Applies events to one group and returns its incident records; by default events are ten seconds apart."""

    def __init__(self, sinks: Sinks = SINKS, **fields: Any) -> None:
        self.log, self.bucket, self.sinks, self.fields = _Log(), Bucket(), sinks, fields
        self.writes: list[OutputRecord] = []

    def apply(self, *events: Event) -> list[Incident]:
        """Apply the events; return the incident records that were written, one per change."""
        writes = [write for event in events for write in apply_events(self.bucket, [event], sinks=self.sinks)]
        self.writes += writes
        return written_incidents(writes)

    def join_event(self, number: int, incarnation: int = 0, **fields: Any) -> Event:
        names = {"client_id": f"pay-{number}", "client_host": f"/10.0.0.{number}"}
        return self.log.join(f"pay-{number}-{incarnation}", **{**names, **self.fields, **fields})

    def rest(self) -> list[Incident]:
        """Let the timer end the group's quiet time; return the incident records that were written."""
        self.bucket.pack()  # pack() applies due timers
        due_events = [written_event(write) for write in expire(self.bucket, 1 << 50, self.sinks)]
        self.log.count += 13
        return self.apply(*(event for event in due_events if "quiet" in event.id))


class _Log(Log):
    def now(self) -> int:
        return 10_000 * self.count


def started(members: int = 4, partitions: int = 12, **settings: Any) -> WatchedGroup:
    group = WatchedGroup(**settings)
    assert group.apply(group.log.topics(t=partitions), *(group.join_event(number) for number in range(members))) == []
    return group


def observed(group: WatchedGroup, generation: int, shares: dict[str, list[int]], **fields: Any) -> Event:
    """Return a collector's snapshot of the group, whose members subscribe to ``t``."""
    assigned = {name: {"t": share} if share else {} for name, share in shares.items()}
    return group.log.observe(generation, assigned, **fields)


def expire_session(group: WatchedGroup, times: int, first: int = 0) -> list[Incident]:
    """Let the session of member 1 expire and the member rejoin, ``times`` times."""
    return [
        incident
        for suffix in range(first, first + times)
        for incident in group.apply(
            group.log.fence(f"pay-1-{suffix}", reason="session timeout"), group.join_event(1, suffix + 1)
        )
    ]


def test_healthy_group_has_no_incident_when_restarted_or_scaled() -> None:
    group = started()
    assert group.rest() == []
    for number in range(4):
        assert group.apply(group.log.leave(f"pay-{number}-0", reason="closed"), group.join_event(number, 1)) == []
    assert group.rest() == []
    assert group.apply(group.join_event(4)) == []
    assert group.rest() == []
    assert group.apply(group.log.leave("pay-4-0", reason="closed")) == []
    assert group.rest() == []


def test_storm_is_one_incident_with_member_and_period() -> None:
    group = started()
    group.rest()
    first, *_, last = expire_session(group, 9)
    for incident in (first, last):
        assert (incident.incident, incident.kind, incident.status, incident.times) == (1, "storm", "open", 1)
    assert (last.names[last.member_ids[0]].client_id, last.episode, last.sure) == ("pay-1", 2, True)
    assert "because of pay-1: 9 times, about every 20 s" in last.story
    (closed,) = group.rest()
    assert (closed.incident, closed.status, closed.opened_at) == (1, "closed", first.opened_at)
    assert closed.closed_at == closed.updated_at > last.updated_at


def test_quick_recurrence_is_the_same_incident() -> None:
    group = started()
    group.rest()
    expire_session(group, 3)
    group.rest()
    again = expire_session(group, 3, first=3)[-1]
    assert (again.incident, again.status, again.times, again.closed_at) == (1, "open", 2, None)
    assert "UTC, 2 times)" in again.story
    group.rest()
    group.log.count += 180  # advances the log by half an hour
    (*_, second) = expire_session(group, 3, first=6)
    assert (second.incident, second.times) == (2, 1)


def test_two_poll_overruns_within_an_hour_are_an_incident() -> None:
    def overrun_incidents(incarnation: int) -> list[Incident]:
        reason = "consumer poll timeout has expired."
        return group.apply(group.log.leave(f"pay-1-{incarnation}", reason=reason), group.join_event(1, incarnation + 1))

    group = started()
    group.rest()
    assert overrun_incidents(0) == []
    group.rest()
    (incident,) = overrun_incidents(1)
    assert (incident.kind, incident.member_ids) == ("poll-timeout", ["pay-1-1"])
    assert incident.evidence[0].kind == "member.left"
    assert incident.story.startswith("pay-1 exceeds max.poll.interval.ms again and again (since ")
    (closed,) = group.rest()
    assert closed.status == "closed"
    group.log.count += 360  # advances the log by an hour
    assert overrun_incidents(2) == []


def test_unowned_partitions_are_an_incident_until_owned() -> None:
    group = started(2)
    assert group.apply(observed(group, 1, {"a": [0, 1], "b": [2]})) == []
    (incident,) = group.rest()
    assert (incident.kind, incident.status) == ("partition-without-owner", "open")
    assert incident.partitions == {"t": list(range(3, 12))}
    (closed,) = group.apply(observed(group, 2, {"a": list(range(6)), "b": list(range(6, 12))}))
    assert (closed.incident, closed.status) == (incident.incident, "closed")
    assert group.rest() == []


def test_empty_group_has_no_incident() -> None:
    group = started(2)
    group.apply(observed(group, 1, {"a": [0, 1], "b": [2]}))
    assert [incident.status for incident in group.rest()] == ["open"]
    (closed,) = group.apply(observed(group, 2, {}))
    assert (closed.kind, closed.status) == ("partition-without-owner", "closed")
    assert group.rest() == []


def test_deleted_topic_is_an_incident_until_recreated() -> None:
    group = started(2)
    (gone,) = group.apply(group.log.topics(t=0))
    assert (gone.kind, gone.partitions, gone.status) == ("topic-gone", {"t": []}, "open")
    assert gone.story.startswith("Subscribed to 1 deleted topic: t (since ")
    (back,) = group.apply(group.log.topics(t=12))
    assert (back.incident, back.status) == (gone.incident, "closed")


def test_topic_that_never_existed_opens_no_incident() -> None:
    group = WatchedGroup()
    assert group.apply(group.log.topics(t=0), group.join_event(1)) == []


def test_member_without_a_partition_opens_an_idle_incident() -> None:
    group = started(4, partitions=3)
    (incident,) = group.rest()
    assert (incident.kind, incident.member_ids) == ("idle-members", ["pay-3-0"])
    assert "4 members share 3 partitions: none left for pay-3" in incident.story
    assert group.apply(group.log.leave("pay-3-0", reason="closed")) == []
    assert [incident.status for incident in group.rest()] == ["closed"]


def test_member_far_above_its_fair_share_opens_a_skew_incident() -> None:
    uneven = {"a": list(range(11)), "b": [11], "c": []}
    group = started(2)
    group.apply(observed(group, 1, uneven))
    (incident,) = group.rest()
    assert (incident.kind, incident.member_ids) == ("skew", ["a"])
    assert "a owns 11 partitions, its fair share is 4" in incident.story
    group = started(2, sinks=SINKS._replace(thresholds=IncidentLimits(skew=3.0)))
    group.apply(observed(group, 1, uneven))
    assert group.rest() == []


def test_skew_forced_by_subscriptions_is_not_an_incident() -> None:
    group = WatchedGroup()
    group.apply(group.log.topics(t=12, u=1), group.join_event(1), group.log.join("other", "u"))
    assert group.rest() == []


def test_half_migrated_group_is_an_incident() -> None:
    group = started(2, group_protocol="consumer", assignors=["uniform"])
    group.apply(group.join_event(2, group_protocol="classic", assignors=["range"]))
    (incident,) = group.rest()
    assert (incident.kind, incident.member_ids) == ("half-migration", ["pay-2-0"])
    assert "1 of 3 members still use the classic protocol (pay-2)" in incident.story
    group.apply(group.log.leave("pay-2-0", reason="closed"), group.join_event(2, 1))
    assert [incident.status for incident in group.rest()] == ["closed"]


def test_deleted_group_has_no_incident_and_starts_afresh() -> None:
    group = started(4, partitions=3)
    group.rest()
    (closed,) = group.apply(group.log.delete())
    assert (closed.incident, closed.status) == (1, "closed")
    group.apply(group.log.delete(forget=True))
    forgotten = group.bucket.get("g")
    assert (forgotten.state, forgotten.episode, forgotten.incidents) == (None, None, None)


def test_incident_records_share_the_partition_under_own_key() -> None:
    group = started(4, partitions=3)
    group.rest()
    (write,) = [write for write in group.writes if write.topic == "i"]
    headers = ce_attributes(write.headers)
    assert (write.key, write.partition) == (b"g/1", partition_for_key(b"g", 6))
    assert (headers["type"], headers["source"]) == ("rebalance.incident", "rebalance-monitor/stream")


def test_disabled_incidents_write_and_store_nothing() -> None:
    group = started(4, partitions=3, sinks=SINKS._replace(incidents=None))
    assert group.rest() == []
    assert group.bucket.get("g").incidents is None


def test_stored_group_contains_its_incidents() -> None:
    group = started(4, partitions=3)
    group.rest()
    read = Bucket(group.bucket.pack()).get("g")
    assert read == group.bucket.get("g")
    assert list(read.incidents.by_key) == ["idle-members"]


def test_too_long_incident_is_written_without_members() -> None:
    group = started(200, partitions=3, sinks=SINKS._replace(max_bytes={"i": 4_000}))
    (incident,) = group.rest()
    assert (incident.kind, incident.member_ids, incident.names) == ("idle-members", [], {})
    assert len(codec.encode(incident)) < 4_000


def test_leader_deviating_from_its_assignor_is_an_incident() -> None:
    group = WatchedGroup()
    clients = {"c0": ("pay-0", "/h"), "c1": ("pay-1", "/h")}
    expected = {"c0": [0, 1], "c1": [2, 3]}
    group.apply(group.log.topics(t=4), observed(group, 1, expected, clients=clients))
    assert group.rest() == []  # in the next episode no member joins or departs
    assert group.apply(observed(group, 2, expected, clients=clients)) == []
    (opened,) = group.apply(observed(group, 3, {"c0": [0, 3], "c1": [1, 2]}, clients=clients))
    assert (opened.kind, opened.status, opened.times) == ("unexpected-assignment", "open", 1)
    assert opened.story.startswith("Leader assigned 2 partitions to other members than range does (since ")
    assert (opened.member_ids, opened.partitions) == (["c0", "c1"], {"t": [1, 3]})
    assert {name: names.client_id for name, names in opened.names.items()} == {"c0": "pay-0", "c1": "pay-1"}
    assert group.apply(observed(group, 4, {"c0": [0, 3], "c1": [1, 2]}, clients=clients))[-1].times == 1
    (closed,) = group.apply(observed(group, 5, expected, clients=clients))
    assert (closed.status, closed.incident) == ("closed", opened.incident)
