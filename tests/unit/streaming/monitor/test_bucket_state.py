"""Tests of the stored state of a bucket: its format, its version, and the discarding of changes."""

import pytest

from streaming.monitor.bucket_state import MAGIC, Bucket, CorruptState, LastHeartbeat
from tests.support.histories import Log, play


def packed() -> tuple[Bucket, bytes]:
    bucket = Bucket()
    log = Log()
    tracked = bucket.get("g")
    state, _ = play([log.topics(t=3), log.join("c1", session_timeout_ms=10), log.join("c2")])
    tracked.state = state
    tracked.heartbeats = {"c1": LastHeartbeat(1, 99, 10)}
    bucket.commit("g")
    return bucket, bucket.pack()


def test_group_is_unchanged_after_writing_and_reading() -> None:
    bucket, data = packed()
    assert data.startswith(b"KRBS\x02")
    again = Bucket(data)
    assert again.get("g") == bucket.get("g")
    assert again.due == {"g": 99}
    assert list(again) == ["g"]
    assert "g" in again
    assert again.size("g") < 200


@pytest.mark.parametrize("data", [b"", b"KRBS", b"pickle", MAGIC + b"\x02\xc1", MAGIC + b"\x02\x93"])
def test_invalid_bucket_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptState):
        Bucket(data)


@pytest.mark.parametrize("header", [b"KRMB\x02", b"KRBS\x01", b"KRBS\x09"])
def test_state_of_another_release_is_refused(header: bytes) -> None:
    with pytest.raises(CorruptState, match=r"not this release's state format.*start with a new checkpoint$"):
        Bucket(header + packed()[1][5:])


def test_discarded_group_reverts_to_its_committed_state() -> None:
    bucket, data = packed()
    bucket.get("g").heartbeats["c1"].deadline = 120
    bucket.discard("g")
    assert bucket.pack() == data
    assert bucket.get("g").heartbeats["c1"].deadline == 99
