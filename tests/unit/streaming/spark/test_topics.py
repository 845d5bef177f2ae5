"""Ticks that the Spark job writes to their topic, tested on a cluster in memory."""

import time

import pytest
from confluent_kafka import KafkaError

from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from streaming.spark.topics import TickTopic
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
TOPIC = SETTINGS.topics.ticks


def test_a_tick_is_a_record_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    ticks = TickTopic(SETTINGS)
    before = int(time.time() * 1000)
    ticks.tick()
    ticks.tick()
    first, second = (int(message.value() or b"") for message in kafka.records(TOPIC))
    assert before <= first <= second <= int(time.time() * 1000)


def test_tick_is_sent_without_waiting_for_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    MemoryKafka(monkeypatch)
    ticks = TickTopic(SETTINGS)
    waits: list[float] = []
    monkeypatch.setattr(ticks._producer.client, "poll", waits.append)
    ticks.tick()
    assert waits == [0, 0]


def test_undelivered_tick_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    ticks = TickTopic(SETTINGS)
    kafka.fail("produce", KafkaError(KafkaError._TRANSPORT, "away"))
    ticks.tick()
