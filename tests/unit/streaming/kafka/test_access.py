"""What a component lacks, as the cluster says it."""

from __future__ import annotations

import pytest

from streaming.kafka.access import COMPONENTS, NotAllowed, missing, needs, require
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(
    kafka=KafkaSettings(bootstrap_servers="memory:1"), topics=TopicSettings(prefix="p.", replication_factor=1)
)
#: As the client names the operations.
OPERATIONS = {"Read": "READ", "Write": "WRITE", "DescribeConfigs": "DESCRIBE_CONFIGS"}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    made = MemoryKafka(monkeypatch)
    ensure_topics(SETTINGS)
    for name in ("__consumer_offsets", SETTINGS.topics.ticks):
        made.create(name)
    return made


@pytest.mark.parametrize("component", COMPONENTS)
def test_with_everything_nothing_is_missing(kafka: MemoryKafka, component: str) -> None:
    assert list(missing(SETTINGS, component)) == []
    assert require(SETTINGS, component) == "memory"


@pytest.mark.parametrize(
    ("component", "topic", "operation"),
    [
        (component, topic, operation)
        for component in COMPONENTS
        for topic, operations in needs(component, SETTINGS).items()
        for operation in operations
    ],
)
def test_each_right_that_is_missing_is_named_with_the_command_that_grants_it(
    kafka: MemoryKafka, component: str, topic: str, operation: str
) -> None:
    kafka.deny(topic, OPERATIONS[operation])
    verb = "describe the configuration of" if operation == "DescribeConfigs" else operation.lower()
    line = (
        f"cluster memory:1: user 'ANONYMOUS' may not {verb} topic {topic}, which {component} must; kafka-acls.sh "
        f"--bootstrap-server memory:1 --add --allow-principal 'User:ANONYMOUS' --operation {operation} "
        f"--topic '{topic}'"
    )
    assert list(missing(SETTINGS, component)) == [line]
    with pytest.raises(NotAllowed) as refused:
        require(SETTINGS, component)
    assert str(refused.value) == line


def test_who_may_not_even_see_a_topic_lacks_everything_on_it(kafka: MemoryKafka) -> None:
    kafka.deny(SETTINGS.topics.membership, "DESCRIBE")
    assert len(list(missing(SETTINGS, "collect"))) == 3


def test_of_topics_that_are_missing_nothing_is_said(kafka: MemoryKafka) -> None:
    for name in list(kafka.topics):
        kafka.delete(name)
    assert [list(missing(SETTINGS, component)) for component in COMPONENTS] == [[], [], []]
