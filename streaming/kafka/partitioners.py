"""Java's partitioners for Python producers, so that all languages put a key into the same partition.

kafka-python takes a partitioner object: ``KafkaProducer(partitioner=JavaPartitioner())``. confluent-kafka takes
none (librdkafka's ``partitioner`` names its own; ``murmur2_random`` hashes as Java does, but gives an *empty* key a
random partition): ``JavaPartitionedProducer(producer)`` chooses and passes the partition with each record.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka.partitioner import Partitioner

from assignors.partitioner import (
    BuiltInPartitioner,
    CountingPartitioner,
    StickyPartitioner,
    TopicView,
    explicit_partition,
)

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from kafka.cluster import ClusterMetadata

#: ``batch.size`` of the Java producer, in bytes.
JAVA_BATCH_SIZE = 16_384
#: How long a topic's partitions are taken as known, in seconds (``metadata.max.age.ms`` of librdkafka is longer).
METADATA_SECONDS = 30.0
_METADATA_TIMEOUT = 10.0


def _draw() -> int:
    """``ThreadLocalRandom.nextInt()``."""
    return random.getrandbits(32)


class JavaPartitioner(Partitioner):
    """kafka-python: a key is hashed as in Java, a record without one stays with its batch (KIP-480).

    Args:
        round_robin: records without a key take turns instead, as in clients before 2.4.
    """

    def __init__(self, *, round_robin: bool = False) -> None:
        self._era: CountingPartitioner | StickyPartitioner = (
            CountingPartitioner(_draw) if round_robin else StickyPartitioner(_draw)
        )

    def partition(  # noqa: PLR0917 - kafka-python calls it so
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: ClusterMetadata,
    ) -> int:
        """The partition of one record.

        Raises:
            InvalidPartition: the topic has no partitions in the client's metadata.
        """
        del key, value, serialized_value
        return self._era.partition(topic, serialized_key, _kafka_python_view(topic, cluster))

    def on_new_batch(self, topic: str, cluster: ClusterMetadata, prev_partition: int) -> None:
        """The producer is about to open a batch: records without a key go on to another partition."""
        if isinstance(self._era, StickyPartitioner):
            self._era.on_new_batch(topic, _kafka_python_view(topic, cluster), prev_partition)


def _kafka_python_view(topic: str, cluster: ClusterMetadata) -> TopicView:
    partitions = cluster.partitions_for_topic(topic) or ()
    return TopicView(len(partitions), sorted(cluster.available_partitions_for_topic(topic) or ()))


class JavaPartitionedProducer:
    """confluent-kafka: a producer that chooses partitions as the Java producer since 3.3 does.

    A key is hashed over all partitions; a record without one stays with a partition for ``batch_size`` bytes.

    Args:
        producer: does everything else; ``flush`` and ``poll`` it as usual.
        batch_size: bytes to a partition before the next (the Java producer's ``batch.size``).
        clock: seconds, of any origin; when metadata grows old.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        batch_size: int = JAVA_BATCH_SIZE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.producer = producer
        self._batch_size = batch_size
        self._clock = clock
        self._views: dict[str, tuple[TopicView, float]] = {}
        self._sticky: dict[str, BuiltInPartitioner] = {}

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        **options: Any,
    ) -> int:
        """``Producer.produce`` with the partition Java would choose; returns it.

        Raises:
            InvalidPartition: the topic has no partitions, or ``partition`` is negative.
        """
        chosen = self._choose(topic, value, key) if partition is None else explicit_partition(partition)
        self.producer.produce(topic, value=value, key=key, partition=chosen, **options)
        return chosen

    def _choose(self, topic: str, value: bytes | None, key: bytes | None) -> int:
        view = self._view(topic)
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = BuiltInPartitioner(self._batch_size, _draw)
        chosen = sticky.partition(key, view)
        if key is None:
            sticky.appended(len(value or b""), view)
        return chosen

    def _view(self, topic: str) -> TopicView:
        known = self._views.get(topic)
        now = self._clock()
        if known is None or now >= known[1]:
            partitions = self.producer.list_topics(topic, timeout=_METADATA_TIMEOUT).topics[topic].partitions
            available = sorted(number for number, found in partitions.items() if found.leader >= 0)
            known = self._views[topic] = (TopicView(len(partitions), available), now + METADATA_SECONDS)
        return known[0]
