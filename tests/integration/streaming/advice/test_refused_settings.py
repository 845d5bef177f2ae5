"""Configurations that advice calls critical: real client libraries refuse them."""

import pytest
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.errors import KafkaConfigurationError

from streaming.advice.clients import parse_configuration
from streaming.advice.history import GroupHistory
from tests.support.advice import rules
from tests.support.kafka import Kafka, unique_name

pytestmark = pytest.mark.broker


def severities(text: str) -> dict[str, str]:
    """Return the rules that fire for a configuration file, each with its severity."""
    history = GroupHistory("", 0, configuration=parse_configuration("app.conf", text))
    return {rule: advice.severity for rule, advice in rules(history).items()}


def test_librdkafka_refuses_eager_and_cooperative_strategies(broker: Kafka) -> None:
    strategies = "range,cooperative-sticky"
    assert severities(f"partition.assignment.strategy={strategies}") == {"mixed-strategies": "critical"}
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": unique_name("mixed")}
    with pytest.raises(KafkaException, match="assignment"):
        Consumer({**config, "partition.assignment.strategy": strategies})

    assert not severities("partition.assignment.strategy=cooperative-sticky")
    Consumer({**config, "partition.assignment.strategy": "cooperative-sticky"}).close()


def test_kafka_python_refuses_heartbeats_as_long_as_sessions(broker: Kafka) -> None:
    assert severities("session_timeout_ms=6000\nheartbeat_interval_ms=6000") == {"heartbeat-interval": "critical"}
    with pytest.raises(KafkaConfigurationError):
        consumer(broker, heartbeat_interval_ms=6000)

    assert not severities("session_timeout_ms=6000\nheartbeat_interval_ms=2000")
    consumer(broker, heartbeat_interval_ms=2000).close()


def consumer(broker: Kafka, heartbeat_interval_ms: int) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=unique_name("heartbeats"),
        session_timeout_ms=6000,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )
