"""One group in its bucket: unpacked when it must be."""

from __future__ import annotations

import pytest

from streaming.monitor import bucket_state as module
from streaming.monitor.bucket_state import Bucket, Heard, Tracked
from tests.support.histories import Log, play


def known() -> Tracked:
    log = Log()
    state, _ = play([log.topics(t=3), log.join("c1", session_timeout_ms=10), log.join("c2")])
    tracked = Tracked(heard={"c1": Heard(1, 99, 10)})
    tracked.keep(state)
    return tracked


def packed() -> bytes:
    bucket = Bucket()
    tracked = bucket.get("g")
    tracked.keep(known().state)
    tracked.heard = known().heard
    bucket.commit("g")
    return bucket.pack()


def test_nothing_is_known_of_a_group_at_first() -> None:
    tracked = Tracked()
    assert tracked.empty
    assert tracked.state is None


def test_groups_are_the_same_by_what_is_known_of_them() -> None:
    later = known()
    later.heard["c1"].deadline = 100
    assert known() == known()
    assert known() != later
    assert known() != known().state


def test_a_deadline_moves_without_the_state_being_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    data = packed()
    again = Bucket(data)
    monkeypatch.setattr(module, "_state", None)
    again.get("g").heard["c1"].deadline = 120
    again.commit("g")
    moved = again.pack()
    monkeypatch.undo()
    assert Bucket(moved).get("g").state == known().state
    assert Bucket(moved).due == {"g": 120}


def test_reading_a_group_changes_nothing_of_it() -> None:
    data = packed()
    bucket = Bucket(data)
    tracked = bucket.get("g")
    assert tracked.state == known().state
    assert tracked.state is tracked.state
    bucket.commit("g")
    assert bucket.pack() == data
