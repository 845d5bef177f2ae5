from __future__ import annotations

import pytest

from streaming.collect.asks import Asks
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from streaming.wire import codec
from streaming.wire.events import Event, EventData, GroupAsked, GroupDeleted
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
TOPIC = SETTINGS.topics.membership


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    made = MemoryKafka(monkeypatch)
    made.create(TOPIC, 2)
    return made


def write(kafka: MemoryKafka, data: EventData) -> None:
    key, value, headers = codec.encode_event(Event("s", "1", data))
    kafka.append(TOPIC, value, key=key, headers=headers, partition=1)


def asking(group: str) -> GroupAsked:
    return GroupAsked(group_id=group, timestamp=1, after="x")


def test_who_asks_is_heard_from_the_beginning_of_listening_on(kafka: MemoryKafka) -> None:
    asks = Asks(SETTINGS)
    assert (asks.heard(), kafka.consumers) == ({}, [])
    write(kafka, asking("before"))
    asks.begin()
    asks.begin()
    assert len(kafka.consumers) == 1
    for data in (asking("g"), GroupDeleted(group_id="h", timestamp=1), asking("g"), asking("i")):
        write(kafka, data)
    kafka.append(TOPIC, b"", key=b"\xff", headers=[("ce_type", b"group.asked")])
    kafka.append(TOPIC, b"")
    assert asks.heard() == {"g": "1:3", "i": "1:4"}
    assert asks.heard() == {}
    asks.close()
    asks.close()
    assert kafka.consumers[0].closed


def test_a_cluster_that_is_away_is_tried_again(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    asks = Asks(SETTINGS)
    kafka.away = True
    asks.begin()
    assert "who asks for full views is not heard" in caplog.text
    kafka.away = False
    asks.begin()
    write(kafka, asking("g"))
    assert asks.heard() == {"g": "1:0"}
    asks.close()
