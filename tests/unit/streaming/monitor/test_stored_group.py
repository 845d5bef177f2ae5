"""One group in its bucket."""

from __future__ import annotations

from streaming.monitor.bucket_state import Bucket, LastHeartbeat, TrackedGroup
from tests.support.histories import Log, play


def tracked_group() -> TrackedGroup:
    log = Log()
    state, _ = play([log.topics(t=3), log.join("c1", session_timeout_ms=10), log.join("c2")])
    tracked = TrackedGroup(heartbeats={"c1": LastHeartbeat(1, 99, 10)})
    tracked.state = state
    return tracked


def packed() -> bytes:
    bucket = Bucket()
    tracked = bucket.get("g")
    tracked.state = tracked_group().state
    tracked.heartbeats = tracked_group().heartbeats
    bucket.commit("g")
    return bucket.pack()


def test_groups_are_the_same_by_what_is_known_of_them() -> None:
    later = tracked_group()
    later.heartbeats["c1"].deadline = 100
    assert tracked_group() == tracked_group()
    assert tracked_group() != later
    assert tracked_group() != tracked_group().state


def test_a_deadline_moves() -> None:
    again = Bucket(packed())
    again.get("g").heartbeats["c1"].deadline = 120
    again.commit("g")
    moved = again.pack()
    assert Bucket(moved).get("g").state == tracked_group().state
    assert Bucket(moved).due == {"g": 120}


def test_reading_a_group_changes_nothing_of_it() -> None:
    data = packed()
    bucket = Bucket(data)
    tracked = bucket.get("g")
    assert tracked.state == tracked_group().state
    assert tracked.state is tracked.state
    bucket.commit("g")
    assert bucket.pack() == data
