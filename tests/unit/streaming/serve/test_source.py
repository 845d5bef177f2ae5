"""What the source says of its topics, over a cluster in memory."""

from __future__ import annotations

import pytest

from streaming.kafka import topic_reader
from streaming.kafka.topics import ensure_topics
from streaming.serve.source import KafkaSource
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka
from tests.support.wait import eventually

SETTINGS = Settings(
    kafka=KafkaSettings(bootstrap_servers="memory:1"), topics=TopicSettings(prefix="p.", replication_factor=1)
)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(topic_reader, "LOOK_SECONDS", 0.0)
    made = MemoryKafka(monkeypatch)
    ensure_topics(SETTINGS)
    return made


def kind(source: KafkaSource) -> str | None:
    """Why what is shown may no longer be true, after one more poll."""
    source.poll(0.01)
    return None if source.stale is None else source.stale.kind


def test_a_partition_without_a_leader_is_told_until_it_has_one(kafka: MemoryKafka) -> None:
    source = KafkaSource(SETTINGS)
    source.open({}, {})
    eventually(lambda: source.poll(0.01) == [] and source.caught_up and source.stale is None)
    kafka.topics["p.rebalance.diffs"].offline.add(2)
    eventually(lambda: kind(source) == "partition-offline")
    assert source.stale is not None
    assert source.stale.reason == "Topic p.rebalance.diffs partition 2 has no leader"
    noticed = source.stale.since
    assert (kind(source), source.stale.since) == ("partition-offline", noticed)
    kafka.topics["p.rebalance.diffs"].offline.clear()
    eventually(lambda: kind(source) is None)
    source.close()
