from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.partitioner import Partitioner

from assignors.partitioner import InvalidPartition, partition_for_key
from streaming.kafka.partitioners import JavaPartitionedProducer, JavaPartitioner


class Recorded:
    """A producer that keeps what it is told to send, and metadata of one topic."""

    def __init__(self, leaders: list[int]) -> None:
        self.leaders = leaders
        self.sent: list[tuple[Any, ...]] = []
        self.asked = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        self.asked += 1
        partitions = {number: SimpleNamespace(leader=leader) for number, leader in enumerate(self.leaders)}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def produce(self, topic: str, **record: Any) -> None:
        self.sent.append((topic, record))


def test_keys_go_where_java_puts_them() -> None:
    client = Recorded([1] * 10)
    producer = JavaPartitionedProducer(client)
    assert [producer.produce("t", b"v", key) for key in (b"21", b"", b"abc")] == [
        partition_for_key(key, 10) for key in (b"21", b"", b"abc")
    ]
    assert client.sent[0] == ("t", {"value": b"v", "key": b"21", "partition": 0})


def test_records_without_a_key_stay_for_a_batch_on_partitions_with_a_leader() -> None:
    client = Recorded([-1, 1, -1, 1])
    producer = JavaPartitionedProducer(client, batch_size=100)
    chosen = [producer.produce("t", b"x" * 50) for _ in range(100)]
    assert set(chosen) == {1, 3}
    assert all(chosen[at] == chosen[at + 1] for at in range(0, 100, 2))


def test_an_explicit_partition_is_used_as_it_is() -> None:
    client = Recorded([])
    producer = JavaPartitionedProducer(client)
    assert producer.produce("t", b"v", b"k", partition=7, headers=[("h", b"1")]) == 7
    assert client.sent == [("t", {"value": b"v", "key": b"k", "partition": 7, "headers": [("h", b"1")]})]
    assert client.asked == 0
    with pytest.raises(InvalidPartition, match="partition: -2"):
        producer.produce("t", partition=-2)


def test_metadata_is_asked_again_once_it_is_old() -> None:
    now = [0.0]
    client = Recorded([1])
    producer = JavaPartitionedProducer(client, clock=lambda: now[0])
    producer.produce("t", key=b"k")
    client.leaders = [1] * 50
    producer.produce("t", key=b"k")
    now[0] = 31.0
    assert producer.produce("t", key=b"k") == partition_for_key(b"k", 50)
    assert client.asked == 2


def test_a_topic_without_partitions() -> None:
    with pytest.raises(InvalidPartition, match="partitions: 0"):
        JavaPartitionedProducer(Recorded([])).produce("t", key=b"k")


def cluster(leaders: list[int]) -> ClusterMetadata:
    found = ClusterMetadata()
    found._partitions["t"] = {
        number: SimpleNamespace(leader_id=leader) for number, leader in enumerate(leaders)
    }
    return found


def test_kafka_python_takes_it() -> None:
    partitioner = JavaPartitioner()
    assert isinstance(partitioner, Partitioner)
    view = cluster([1] * 10)
    for key in (b"21", b""):
        assert partitioner.partition("t", None, key, None, b"v", view) == partition_for_key(key, 10)
    sticky = partitioner.partition("t", None, None, None, b"v", view)
    assert partitioner.partition("t", None, None, None, b"v", view) == sticky
    partitioner.on_new_batch("t", view, sticky)
    assert partitioner.partition("t", None, None, None, b"v", view) != sticky


def test_kafka_python_round_robin_skips_partitions_without_a_leader() -> None:
    partitioner = JavaPartitioner(round_robin=True)
    view = cluster([1, -1, 1])
    partitioner.on_new_batch("t", view, 0)
    found = [partitioner.partition("t", None, None, None, b"v", view) for _ in range(4)]
    assert sorted(found) == [0, 0, 2, 2]
    assert found[0] != found[1]
