"""Ticks that the job writes, over a cluster in memory."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError

from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from streaming.spark import topics
from streaming.spark.topics import TickTopic
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
TOPIC = SETTINGS.topics.ticks


def test_a_tick_is_a_record_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    ticking = TickTopic(SETTINGS)
    before = int(time.time() * 1000)
    ticking.tick()
    ticking.tick()
    first, second = (int(message.value() or b"") for message in kafka.records(TOPIC))
    assert before <= first <= second <= int(time.time() * 1000)


def test_tick_is_sent_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    MemoryKafka(monkeypatch)
    ticking = TickTopic(SETTINGS)
    waits: list[float] = []
    monkeypatch.setattr(ticking._producer, "poll", waits.append)
    ticking.tick()
    assert waits == [0, 0]


def test_a_client_that_delivers_nothing_for_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    ticking = TickTopic(SETTINGS)
    first = ticking._producer
    monkeypatch.setattr(type(first), "__len__", lambda self: int(self is first))
    ticking.tick()
    assert ticking._producer is first  # the broker is not away for long
    monkeypatch.setattr(topics, "_LATE_SECONDS", 0.0)
    ticking.tick()
    second = ticking._producer
    assert second is not first
    ticking.tick()
    assert ticking._producer is second
    assert len(kafka.records(TOPIC)) == 3
    kafka.fail("produce", KafkaError(KafkaError._TRANSPORT, "away"))
    ticking.tick()  # a lost tick is not an error: the next tick replaces it
