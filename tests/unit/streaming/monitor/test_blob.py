"""A bucket's bytes: compact, versioned, migrated on read."""

from __future__ import annotations

import msgspec
import pytest

from streaming.monitor import blob
from streaming.monitor.blob import MAGIC, Bucket, CorruptState, StateFromTheFuture
from streaming.monitor.state import MemberState
from streaming.monitor.tracked import Heard
from streaming.wire.diffs import MemberNames
from tests.support.histories import Log, assignments, play


def packed() -> tuple[Bucket, bytes]:
    bucket = Bucket()
    log = Log()
    tracked = bucket.get("g")
    state, _ = play([log.topics(t=3), log.join("c1", session_timeout_ms=10), log.join("c2")])
    tracked.keep(state)
    tracked.heard = {"c1": Heard(1, 99, 10)}
    bucket.put("g")
    return bucket, bucket.pack()


def test_a_group_survives_its_bytes() -> None:
    bucket, data = packed()
    again = Bucket(data)
    assert again.get("g") == bucket.get("g")
    assert again.due == {"g": 99}
    assert list(again) == ["g"]
    assert "g" in again
    assert again.size("g") < 200


def test_the_bytes_begin_with_magic_and_version() -> None:
    assert packed()[1].startswith(b"KRMB\x04")


def test_a_version_from_the_future_is_refused_with_the_way_out() -> None:
    with pytest.raises(StateFromTheFuture, match=r"version 9, this release reads up to 4; run the release"):
        Bucket(MAGIC + b"\x09" + packed()[1][5:])


@pytest.mark.parametrize("data", [b"", b"KRMB", b"pickle", MAGIC + b"\x01\xc1", MAGIC + b"\x01\x93"])
def test_what_is_no_bucket_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptState):
        Bucket(data)


def test_the_version_before_is_migrated_on_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0 of this test kept no deadlines: a bare map of groups."""
    bucket, data = packed()
    groups, _ = msgspec.msgpack.decode(data[5:])
    old = MAGIC + b"\x00" + msgspec.msgpack.encode(groups)
    monkeypatch.setitem(
        blob.MIGRATIONS, 0, lambda body: msgspec.msgpack.encode([msgspec.msgpack.decode(body), {}])
    )
    migrated = Bucket(old)
    assert migrated.get("g") == bucket.get("g")
    migrated.put("g")
    assert migrated.pack() == data


def test_members_of_version_1_have_no_names_until_they_are_heard_of_again() -> None:
    log = Log()
    named = {"client_id": "orders", "client_host": "/10.0.0.1"}
    bucket = Bucket()
    bucket.get("g").keep(play([log.topics(t=3), log.join("c1", **named)])[0])
    bucket.put("g")
    groups, due = msgspec.msgpack.decode(bucket.pack()[5:])
    state = groups["g"][0]
    state[4] = [member[:8] for member in state[4]]
    migrated = Bucket(MAGIC + b"\x01" + msgspec.msgpack.encode([groups, due])).get("g").state
    assert migrated is not None
    assert migrated.members == (MemberState("c1", ["t"], owned={"t": [0, 1, 2]}),)
    state, outputs = play([log.join("c1", **named)], migrated)
    (latest,) = assignments(outputs)
    assert latest.assignment is not None
    assert latest.assignment.names == {"c1": MemberNames(**named)}
