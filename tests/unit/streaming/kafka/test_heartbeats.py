"""Component heartbeats over a cluster in memory: the written records, and failures that a component survives."""

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from msgspec import structs

from streaming.freshness import ComponentHeartbeat, decode_heartbeat
from streaming.kafka import heartbeats
from streaming.kafka.heartbeats import HeartbeatWriter
from streaming.settings.config import HeartbeatSettings, Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"), signs=HeartbeatSettings(every_ms=100))
TOPIC = SETTINGS.topics.signs
ACCESS_DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed")
NOT_DELIVERED_ERROR = KafkaError(KafkaError._MSG_TIMED_OUT, "away")


def left(kafka: MemoryKafka) -> list[ComponentHeartbeat]:
    return [decode_heartbeat(record.key(), record.value() or b"") for record in kafka.records(TOPIC)]


def now(writer: HeartbeatWriter, **fields: Any) -> None:
    """Write a heartbeat now; repeat the call until the writer has found or created its topic."""
    writer._watch._next = 0.0
    for _ in range(4):  # the topic is requested, missing and created, requested again, and present
        writer._next = 0.0
        writer.write(**{"up_to": None, **fields})
        writer._watch._next = 0.0
        if writer._next:
            return


def test_component_reports_its_progress_and_its_end(kafka: MemoryKafka) -> None:
    began = int(time.time() * 1000)
    writer = HeartbeatWriter(SETTINGS, "collector", "c", by="offsets")
    now(writer, positions={0: 3})
    now(writer, up_to=time.time() + 50.5, positions={0: 9, 1: 4})
    now(writer, up_to=time.time())  # the clock was set back
    writer.write_last()
    first, second, third, last = left(kafka)
    assert began <= first.up_to <= first.timestamp <= second.timestamp <= last.timestamp
    assert (first.key, first.state, first.every_ms, first.by, first.positions) == (
        *("collector/c", "running", 100),
        *("offsets", {0: 3}),
    )
    assert 50_000 < second.up_to - first.up_to < 100_000
    assert (third.up_to, third.positions) == (second.up_to, {0: 9, 1: 4})
    assert last == structs.replace(third, state="stopped", timestamp=last.timestamp)


def test_heartbeat_is_not_written_before_it_is_due(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = HeartbeatWriter(SETTINGS, "stream", "s")
    now(writer)
    assert len(left(kafka)) == 1
    clock = [1e9]
    monkeypatch.setattr(heartbeats, "time", SimpleNamespace(monotonic=lambda: clock[0], time_ns=time.time_ns))
    for moment in (0.0, 0.05, 0.09, 0.11, 0.2, 0.22):
        clock[0] = 1e9 + moment
        writer.write(up_to=None)
    assert len(left(kafka)) == 4


def test_missing_permission_is_reported_once_and_tolerated(
    kafka: MemoryKafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streaming.kafka.heartbeats")
    writer = HeartbeatWriter(SETTINGS, "collector", "c")
    kafka.fail("heartbeat", ACCESS_DENIED, ACCESS_DENIED)
    for _ in range(4):
        now(writer)
    writer.write_last()
    assert caplog.messages == [
        (
            "heartbeats are not written: cluster memory:1: user 'ANONYMOUS' may not write topic rebalance.signs, "
            "without heartbeats it is not noticed when this component stops; "
            "kafka-acls.sh --bootstrap-server memory:1 --add "
            "--allow-principal 'User:ANONYMOUS' --operation Write --topic 'rebalance.signs'"
        ),
        "topic rebalance.signs: heartbeats are written",
    ]
    assert len(left(kafka)) == 3


def test_invisible_topic_is_reported_once_and_used_later(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "streaming.kafka.heartbeats")  # whatever log level other tests have set
    kafka.create(TOPIC)
    kafka.deny(TOPIC, "DESCRIBE")
    writer = HeartbeatWriter(SETTINGS, "collector", "c")
    for _ in range(3):
        now(writer)
    writer.write_last()
    (message,) = caplog.messages
    assert "user 'ANONYMOUS' may not write topic rebalance.signs, without heartbeats" in message
    assert (left(kafka), "create_topics" in kafka.requests) == ([], False)
    kafka.deny(TOPIC)
    now(writer)
    assert (len(left(kafka)), len(caplog.messages)) == (1, 1)


def test_deleted_topic_is_created_again_after_a_while(kafka: MemoryKafka) -> None:
    writer = HeartbeatWriter(SETTINGS, "collector", "c")
    now(writer)
    kafka.delete(TOPIC)
    for _ in range(3):
        now(writer)
    assert TOPIC not in kafka.topics  # half a minute has not passed
    writer._last_check_at -= 30
    for _ in range(3):
        now(writer)
    assert left(kafka)
    assert kafka.requests.count("create_topics") == 2


def test_full_producer_queue_drops_heartbeats_silently(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    writer = HeartbeatWriter(SETTINGS, "collector", "c")
    kafka.fail("heartbeat", NOT_DELIVERED_ERROR, KafkaError(KafkaError._QUEUE_FULL, "full"))
    for _ in range(3):
        now(writer)
    assert (len(left(kafka)), caplog.messages) == (1, [])


def test_cluster_without_topic_creation_is_reported(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.fail("create_topics", KafkaError(KafkaError.POLICY_VIOLATION, "not here"))
    writer = HeartbeatWriter(SETTINGS, "collector", "c")
    now(writer)
    writer.write_last()
    (message,) = caplog.messages
    assert message.startswith("heartbeats are not written: topic rebalance.signs: not here; without heartbeats")
