"""The partitioners plugged into both Python clients, against a real broker."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from assignors.partitioner import partition_for_key
from streaming.kafka.partitioners import JavaPartitionedProducer, JavaPartitioner
from tests.support.kafka import Kafka, eventually, unique

pytestmark = pytest.mark.broker

PARTITIONS = 7
KEYS = [b"", *(b"key-%d" % number for number in range(50))]
EXPECTED = [partition_for_key(key, PARTITIONS) for key in KEYS]


@pytest.fixture
def topic(broker: Kafka) -> str:
    name = unique("partitioners")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        done.result(30)
    # A broker takes a moment to tell clients of a topic that it has made.
    eventually(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == PARTITIONS)
    return name


def test_confluent_kafka(broker: Kafka, topic: str) -> None:
    landed: list[tuple[bytes | None, int]] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None
        landed.append((message.key(), message.partition()))

    client = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer = JavaPartitionedProducer(client, batch_size=300)
    chosen = [producer.produce(topic, b"v", key, on_delivery=delivered) for key in KEYS]
    keyless = [producer.produce(topic, b"x" * 100, on_delivery=delivered) for _ in range(90)]
    assert client.flush(30) == 0
    assert chosen == EXPECTED
    assert sorted(p for key, p in landed if key is not None) == sorted(EXPECTED)
    assert dict(landed)[b"key-7"] == partition_for_key(b"key-7", PARTITIONS)
    assert sorted(p for key, p in landed if key is None) == sorted(keyless)
    assert all(len(set(keyless[at : at + 3])) == 1 for at in range(0, 90, 3))
    assert len(set(keyless)) > 1


def test_kafka_python(broker: Kafka, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        partitioner=JavaPartitioner(),
        batch_size=512,
        linger_ms=200,
    )
    try:
        sent = [producer.send(topic, key=key, value=b"v") for key in KEYS]
        keyless = [producer.send(topic, value=b"x" * 100) for _ in range(90)]
        assert [future.get(timeout=30).partition for future in sent] == EXPECTED
        landed = [future.get(timeout=30).partition for future in keyless]
    finally:
        producer.close(timeout=30)
    assert len(set(landed)) > 1  # on to another partition with every batch
    assert sum(a != b for a, b in pairwise(landed)) < 60  # but not with every record
