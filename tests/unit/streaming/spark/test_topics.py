"""Ticks that the Spark job writes to their topic, tested on a cluster in memory."""

import time

import pytest
from confluent_kafka import KafkaError

from streaming.spark.topics import TickTopic
from tests.support.memory_kafka import SETTINGS, MemoryKafka

TOPIC = SETTINGS.topics.ticks


def test_a_tick_is_a_record_with_its_time(kafka: MemoryKafka) -> None:
    ticks = TickTopic(SETTINGS)
    before = int(time.time() * 1000)
    ticks.tick()
    ticks.tick()
    first, second = (int(message.value() or b"") for message in kafka.records(TOPIC))
    assert before <= first <= second <= int(time.time() * 1000)


@pytest.mark.usefixtures("kafka")
def test_tick_is_sent_without_waiting_for_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = TickTopic(SETTINGS)
    waits: list[float] = []
    monkeypatch.setattr(ticks._producer.client, "poll", waits.append)
    ticks.tick()
    assert waits == [0, 0]


def test_undelivered_tick_raises_no_error(kafka: MemoryKafka) -> None:
    ticks = TickTopic(SETTINGS)
    kafka.fail("produce", KafkaError(KafkaError._TRANSPORT, "away"))
    ticks.tick()
