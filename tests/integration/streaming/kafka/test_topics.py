import json

import pytest

from streaming.kafka.metadata import request_identities
from streaming.kafka.topics import describe_topics, ensure_ticks, ensure_topics
from streaming.settings.config import Settings, load
from tests.support.command import run
from tests.support.kafka import Kafka, eventually, unique_name

pytestmark = [pytest.mark.broker, pytest.mark.cluster]


@pytest.fixture
def settings(broker: Kafka) -> Settings:
    return load(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"{unique_name('topics')}.")


def test_topics_are_created_once_with_their_cleanup_policies(settings: Settings) -> None:
    assert [state.exists for state in describe_topics(settings)] == [False] * 4

    made = ensure_topics(settings)

    prefix = settings.topics.prefix
    assert {(state.name, state.cleanup_policy, state.partitions) for state in made} == {
        (f"{prefix}rebalance.membership", "delete", 4),
        (f"{prefix}rebalance.diffs", "delete", 4),
        (f"{prefix}rebalance.assignments", "compact", 4),
        (f"{prefix}rebalance.membership-dlt", "delete", 4),
    }
    assert ensure_topics(settings) == made == describe_topics(settings)


def test_ticks_topic_is_created_once_and_not_changed(settings: Settings) -> None:
    name = settings.topics.ticks
    ensure_ticks(settings)
    eventually(lambda: request_identities(settings.kafka, [name])[name] is not None)
    made = request_identities(settings.kafka, [name])
    assert made[name].partitions == 1
    ensure_ticks(settings)
    assert request_identities(settings.kafka, [name]) == made


def test_topics_command_creates_topics_with_their_policies(settings: Settings) -> None:
    cluster = ("--bootstrap-servers", settings.kafka.bootstrap_servers, "--topic-prefix", settings.topics.prefix)
    answer = run("topics", "--json", "--create", *cluster)
    policies = [json.loads(line)["cleanupPolicy"] for line in answer.stdout.splitlines()]
    wanted = "delete", "delete", "compact", "delete", "compact,delete", "compact,delete", "compact"
    assert (answer.returncode, policies) == (0, [*wanted])
