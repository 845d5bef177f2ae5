"""Where partitions begin and end, while brokers are still agreeing on who leads them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.kafka import metadata as offsets
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.metadata import bounds
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

PLACE = ("t", 0)


def answers(monkeypatch: pytest.MonkeyPatch, *codes: int) -> list[int]:
    """The cluster refuses with each code in turn, then answers; what is left of the codes."""
    left = [*codes]

    def asked(_: Any, places: list[Any], __: Any) -> dict[Any, int]:
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return dict.fromkeys(places, 7)

    monkeypatch.setattr(offsets, "_offsets", asked)
    return left


def test_a_partition_without_a_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    assert bounds(KafkaSettings(), [PLACE]) == {PLACE: (7, 7)}


def test_what_waiting_does_not_mend_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left = answers(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.LEADER_NOT_AVAILABLE)
    with pytest.raises(ClusterUnavailable, match="topic t: nobody tells where its partitions end"):
        bounds(KafkaSettings(), [PLACE])
    assert len(left) == 1


def test_a_client_has_the_metadata_before_it_is_asked_as_it_would_let_us_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = MemoryKafka(monkeypatch)
    kafka.create("t")
    kafka.append("t", b"x")
    asked: list[str] = []
    monkeypatch.setattr(kafka, "asked", asked.append)
    assert bounds(KafkaSettings(), [PLACE]) == {PLACE: (0, 1)}
    assert asked == ["list_topics", "list_offsets"] * 2
