"""The cluster under test: an embedded broker or, with ``KAFKA_UNDER_TEST=container``, a container.

The same tests run with both kinds of cluster; :mod:`tests.support.container` has the container.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from streaming.kafka.broker import EmbeddedBroker
from tests.support.wait import TIMEOUT_SECONDS, eventually

__all__ = ["EmbeddedKafka", "Kafka", "eventually", "kafka_under_test", "read", "unique_name"]

#: Broker properties that the tests rely on, wherever the broker runs.
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
#: For a broker that no test kills: a stall of some seconds on a busy machine must not fence the only broker.
LONG_BROKER_SESSION = {"broker.session.timeout.ms": "60000"}


class Kafka(Protocol):
    """Interface of the Kafka clusters on which tests run."""

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for clients on this machine."""

    def log_text(self) -> str:
        """Return everything that the broker has logged so far."""


class EmbeddedKafka:
    """The embedded broker as a :class:`Kafka`."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.bootstrap_servers = broker.bootstrap_servers

    def log_text(self) -> str:
        return self.broker.log_path.read_text()


@contextmanager
def kafka_under_test() -> Iterator[Kafka]:
    """Return the cluster that ``KAFKA_UNDER_TEST`` selects: ``embedded`` (default) or ``container``."""
    kind = os.environ.get("KAFKA_UNDER_TEST", "embedded")
    if kind == "container":
        from tests.support.container import kafka_container

        with kafka_container(PROPERTIES | LONG_BROKER_SESSION) as kafka:
            yield kafka
        return
    assert kind == "embedded", f"KAFKA_UNDER_TEST={kind}: choose embedded or container"
    with EmbeddedBroker(properties=PROPERTIES | LONG_BROKER_SESSION) as broker:
        yield EmbeddedKafka(broker)


def read(servers: str, topic: str, *, isolation_level: str = "read_committed") -> list[Any]:
    """Return every message of a topic, partition by partition; an empty list if the topic does not exist."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    messages: list[Any] = []
    try:
        metadata = consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
        waiting = set(metadata.partitions) if metadata.error is None else set()
        consumer.assign([TopicPartition(topic, number, 0) for number in waiting])
        while waiting:
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    messages.append(message)
                else:  # end of the partition
                    waiting.discard(message.partition())
    finally:
        consumer.close()
    return messages


def unique_name(prefix: str) -> str:
    """Return a topic or group name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"
