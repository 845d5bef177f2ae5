import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.freshness import STREAM_ID, ComponentHeartbeat, Freshness, encode_heartbeat
from streaming.kafka import background_reader as listening
from streaming.kafka import clients, topic_reader
from streaming.kafka import heartbeats as hearing
from streaming.kafka.heartbeats import HeartbeatTracker
from streaming.settings.config import HeartbeatSettings, Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import Log, MemoryKafka
from tests.support.wait import eventually

SETTINGS = Settings(
    kafka=KafkaSettings(bootstrap_servers="memory:1"), signs=HeartbeatSettings(silent_after_ms=3_600_000)
)
TOPIC = SETTINGS.topics.signs

ReadFreshness = Callable[[], Freshness]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def kafka(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(listening, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(listening, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(topic_reader, "CHECK_SECONDS", 0.0)
    kafka.create(TOPIC)
    return kafka


@pytest.fixture
def tracked_freshness(kafka: MemoryKafka) -> Iterator[ReadFreshness]:
    with HeartbeatTracker(SETTINGS) as tracker:
        yield lambda: tracker.freshness(time.monotonic())


def leave(kafka: MemoryKafka, part_id: str = "c", *, at: int | None = None, partition: int = 0, **fields: Any) -> None:
    """Write a heartbeat to which the broker gave this timestamp (ms)."""
    written = now_ms() if at is None else at
    times = {"timestamp": written, "up_to": written - 1000, "every_ms": 5000}
    heartbeat = ComponentHeartbeat(id=part_id, **{"part": "collector", "state": "running", **times, **fields})
    key, value, headers = encode_heartbeat(heartbeat)
    kafka.append(TOPIC, value, key=key, headers=headers, timestamp=written, partition=partition)


def parts(freshness: Freshness) -> dict[str, str]:
    return {part.id: part.state for part in freshness.parts}


def test_tracker_uses_each_components_newest_heartbeat(kafka: MemoryKafka, tracked_freshness: ReadFreshness) -> None:
    eventually(lambda: tracked_freshness() == Freshness())
    moment = now_ms()
    leave(kafka, "c", up_to=moment - 5)
    leave(kafka, "c", up_to=moment - 6)
    for state in ("running", "running", "stopped"):
        leave(kafka, "d", state=state, up_to=moment)
    eventually(lambda: parts(tracked_freshness()) == {"c": "alive", "d": "stopped"})
    freshness = tracked_freshness()
    assert freshness.is_known
    assert [(part.id, part.up_to) for part in freshness.parts] == [("c", moment - 6), ("d", moment)]
    assert abs(freshness.parts[0].last_heartbeat - now_ms()) < 60_000
    kafka.append(TOPIC, None, key=b"collector/d")
    eventually(lambda: parts(tracked_freshness()) == {"c": "alive"})


def test_old_heartbeat_has_the_age_of_its_record(kafka: MemoryKafka) -> None:
    hour = 3_600_000
    leave(kafka, "old", at=now_ms() - hour - 60_000)
    leave(kafka, "new", at=now_ms() + hour, up_to=now_ms() + hour)  # the broker's clock is ahead
    with HeartbeatTracker(SETTINGS) as tracker:
        eventually(lambda: tracker._view.contact is not None)
        last = tracker._view.last
        assert 3660 <= time.monotonic() - last["collector/old"].at < 3720
        assert 0 <= time.monotonic() - last["collector/new"].at < 60
        freshness = tracker.freshness(time.monotonic())
        assert (freshness.is_known, parts(freshness)) == (False, {"new": "alive"})  # last read an hour ago


def test_new_heartbeat_has_the_age_zero(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "_OLD_RECORDS_SECONDS", 0.0)
    with HeartbeatTracker(SETTINGS) as tracker:
        eventually(lambda: tracker._view.contact is not None)
        leave(kafka, at=now_ms() - 7_200_000)
        eventually(lambda: tracker._view.last)
        assert time.monotonic() - tracker._view.last["collector/c"].at < 60


@pytest.mark.parametrize("value", [b"{", b"null", b"[1]"])
def test_invalid_heartbeat_is_reported_once_and_skipped(
    kafka: MemoryKafka, tracked_freshness: ReadFreshness, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    kafka.append(TOPIC, value, key=b"collector/\x1b]0;")
    kafka.append(TOPIC, value)
    leave(kafka, up_to=now_ms())
    eventually(lambda: parts(tracked_freshness()) == {"c": "alive"})
    (message,) = caplog.messages
    assert message.startswith("topic rebalance.signs: partition 0 offset 0: not a component heartbeat: ")


DAY_MS, DECADE_MS = 86_400_000, 10 * 31_557_600_000


@pytest.mark.parametrize(
    "forged_fields",
    [
        {"part": "stream", "part_id": "another"},
        {"part": "stream", "part_id": STREAM_ID, "timestamp": DECADE_MS},
        {"part": "stream", "part_id": STREAM_ID, "up_to": DECADE_MS},
        {"part": "stream", "part_id": STREAM_ID, "at": DECADE_MS, "timestamp": DECADE_MS},
        {"part": "stream", "part_id": STREAM_ID, "timestamp": -DECADE_MS},
        {"part": "collector", "part_id": "c", "timestamp": 2 * DAY_MS},
    ],
)
def test_forged_heartbeats_are_ignored(
    kafka: MemoryKafka, forged_fields: dict[str, Any], tracked_freshness: ReadFreshness
) -> None:
    moment = now_ms()
    leave(kafka, STREAM_ID, part="stream", state="stopped", up_to=moment)
    leave(kafka, "real", up_to=moment)
    eventually(lambda: len(tracked_freshness().parts) == 2)
    before = tracked_freshness()
    values = {name: moment + value if isinstance(value, int) else value for name, value in forged_fields.items()}
    leave(kafka, values.pop("part_id"), **{"up_to": moment, **values})
    leave(kafka, "real", up_to=moment + 1)
    eventually(lambda: any(part.up_to == moment + 1 for part in tracked_freshness().parts))
    freshness = tracked_freshness()
    assert parts(freshness) == parts(before) == {STREAM_ID: "stopped", "real": "alive"}
    assert (freshness.late or before.late) == before.late


def test_heartbeats_of_a_topic_that_got_more_partitions(kafka: MemoryKafka, tracked_freshness: ReadFreshness) -> None:
    kafka.topics[TOPIC].logs.append(Log())
    moment = now_ms()
    for partition, at in ((1, moment), (0, moment - 1000)):
        leave(kafka, at=at, up_to=at, partition=partition)
    leave(kafka, "d", up_to=moment)
    eventually(lambda: len(tracked_freshness().parts) == 2)
    assert tracked_freshness().parts[0].up_to == moment


def test_records_of_other_groups_do_not_fill_the_memory(
    kafka: MemoryKafka, tracked_freshness: ReadFreshness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "MAX_COMPONENTS", 2)
    for name in ("a", "b", "c", "a"):
        leave(kafka, name, up_to=7 if kafka.records(TOPIC)[2:] else 6)
    eventually(lambda: [(part.id, part.up_to) for part in tracked_freshness().parts] == [("a", 7), ("b", 6)])


def test_missing_permission_gives_no_status_and_is_logged(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    leave(kafka)
    kafka.deny(TOPIC, "DESCRIBE")
    with HeartbeatTracker(SETTINGS) as tracker:
        eventually(lambda: caplog.messages)
        assert tracker.freshness(time.monotonic()) == Freshness()
        assert "user 'ANONYMOUS' may not read topic rebalance.signs" in caplog.messages[0]
        kafka.deny(TOPIC)
        eventually(lambda: parts(tracker.freshness(time.monotonic())) == {"c": "alive"})
        kafka.deliver_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not any more"), TOPIC)
        eventually(lambda: len(caplog.messages) >= 2)
        eventually(lambda: parts(tracker.freshness(time.monotonic())) == {"c": "alive"})


def test_missing_topic_has_no_freshness_until_it_exists(kafka: MemoryKafka, tracked_freshness: ReadFreshness) -> None:
    leave(kafka)
    eventually(lambda: parts(tracked_freshness()) == {"c": "alive"})
    kafka.delete(TOPIC)
    eventually(lambda: tracked_freshness() == Freshness())
    kafka.create(TOPIC)
    leave(kafka, "d")
    eventually(lambda: parts(tracked_freshness()) == {"d": "alive"})


def test_leaderless_partition_gives_no_status(kafka: MemoryKafka, tracked_freshness: ReadFreshness) -> None:
    leave(kafka)
    eventually(lambda: parts(tracked_freshness()) == {"c": "alive"})
    kafka.topics[TOPIC].offline.add(0)
    eventually(lambda: tracked_freshness() == Freshness())
    kafka.topics[TOPIC].offline.clear()
    eventually(lambda: parts(tracked_freshness()) == {"c": "alive"})


def test_unreachable_cluster_is_the_reported_reason(
    kafka: MemoryKafka, tracked_freshness: ReadFreshness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_first_open_server", lambda _: None)
    leave(kafka)
    eventually(lambda: parts(tracked_freshness()) == {"c": "alive"})
    kafka.away = True
    eventually(lambda: tracked_freshness().late)
    freshness = tracked_freshness()
    assert freshness.late is not None
    assert (freshness.is_known, freshness.late.kind, parts(freshness)) == (False, "kafka-unreachable", {"c": "alive"})
    assert abs(freshness.late.since - now_ms()) < 60_000
    kafka.away = False
    eventually(lambda: tracked_freshness().late is None and tracked_freshness().is_known)


def test_no_status_before_the_topic_is_read(kafka: MemoryKafka) -> None:
    tracker = HeartbeatTracker(SETTINGS)
    assert not tracker.freshness(tracker._start_time + 15).is_known
    assert tracker.freshness(tracker._start_time + 16) == Freshness()


def test_background_reader_restarts_after_a_failure(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leave(kafka)
    real_decode, failing = hearing.heartbeat_rules.decode_heartbeat, [RuntimeError("odd")]

    def decode_heartbeat(*arguments: Any) -> ComponentHeartbeat:
        if failing:
            raise failing.pop()
        return real_decode(*arguments)

    monkeypatch.setattr(hearing.heartbeat_rules, "decode_heartbeat", decode_heartbeat)
    with HeartbeatTracker(SETTINGS) as tracker:
        eventually(lambda: parts(tracker.freshness(time.monotonic())) == {"c": "alive"})
    assert "RuntimeError: odd" in caplog.messages[0]
