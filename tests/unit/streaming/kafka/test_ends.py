"""Ends of partitions that are requested while somebody reads."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.kafka.metadata import EndOffsets
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = KafkaSettings(bootstrap_servers="memory:1")
A, B = ("t", 0), ("t", 1)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    made = MemoryKafka(monkeypatch)
    made.create("t", 2)
    made.append("t", b"v", partition=1)
    return made


def test_the_ends_are_those_of_the_last_answer(kafka: MemoryKafka) -> None:
    ends = EndOffsets(SETTINGS, [A, B])
    assert (ends.are_current(0), dict(ends.look(0))) == (False, {A: 0, B: 1})
    kafka.append("t", b"v", partition=1)
    assert ends.look(0.9) == {A: 0, B: 1}
    assert ends.look(1.0) == {A: 0, B: 2}
    assert (ends.are_current(6.0), ends.are_current(6.1)) == (True, False)


def test_a_partition_without_a_leader_keeps_its_end(kafka: MemoryKafka) -> None:
    ends = EndOffsets(SETTINGS, [A, B])
    ends.look(0)
    for now in range(1, 7):
        kafka.fail("list_offsets", KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader"))
        assert ends.look(now) == {A: 0, B: 1}
    assert not ends.are_current(6)
    ends.look(7)
    assert ends.are_current(7)


def test_a_request_without_an_answer_is_given_up(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = EndOffsets(SETTINGS, [A])
    ends.look(0)
    (admin,) = kafka.admins
    never: Future[Any] = Future()
    with monkeypatch.context() as patch:
        patch.setattr(admin, "list_offsets", lambda places, **_: dict.fromkeys(places, never))
        assert (ends.look(1), ends.look(11)) == ({A: 0}, {A: 0})
    ends.look(12)
    assert not ends.are_current(12)
    ends.look(13)
    assert ends.are_current(13)


def test_no_partitions_are_no_request(kafka: MemoryKafka) -> None:
    ends = EndOffsets(SETTINGS, [])
    assert (ends.look(0), ends.are_current(0), kafka.admins) == ({}, True, [])
