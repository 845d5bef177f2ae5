from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.metadata import identify
from streaming.kafka.topics import TopicMisconfigured, describe_topics, ensure_ticks, ensure_topics
from streaming.settings.config import Settings, load
from tests.support.kafka import Kafka, eventually, unique

pytestmark = [pytest.mark.broker, pytest.mark.cluster]


@pytest.fixture
def settings(broker: Kafka) -> Settings:
    return load(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"{unique('topics')}.")


def test_made_once_with_the_cleanup_policies_of_the_contract(settings: Settings) -> None:
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


def test_the_ticks_topic_is_made_once_and_left_as_it_is(settings: Settings) -> None:
    name = settings.topics.ticks
    ensure_ticks(settings)
    eventually(lambda: identify(settings.kafka, [name])[name] is not None)
    made = identify(settings.kafka, [name])
    assert made[name].partitions == 1
    ensure_ticks(settings)
    assert identify(settings.kafka, [name]) == made


def test_a_wrong_cleanup_policy_is_refused_with_the_way_out(settings: Settings) -> None:
    name = settings.topics.assignments
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    eventually(lambda: name in admin.list_topics(timeout=5).topics)

    with pytest.raises(TopicMisconfigured, match=rf"topic {name}: cleanup.policy is delete, compact is needed; .*"):
        ensure_topics(settings)


def test_no_server_at_the_address() -> None:
    with pytest.raises(ClusterUnavailable, match=r"bootstrap_servers 127.0.0.1:1: no broker answers within 1 s"):
        describe_topics(load(bootstrap_servers="127.0.0.1:1"), timeout=1)


def test_the_command(settings: Settings) -> None:
    command = [sys.executable, "-m", "streaming", "topics", "--json", "--create"]
    command += ["--bootstrap-servers", settings.kafka.bootstrap_servers, "--topic-prefix", settings.topics.prefix]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert [json.loads(line)["cleanupPolicy"] for line in answer.stdout.splitlines()] == [
        "delete",
        "delete",
        "compact",
        "delete",
        "compact,delete",
        "compact,delete",
        "compact",
    ]
