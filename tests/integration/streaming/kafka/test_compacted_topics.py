"""``groups``, ``group`` and ``why`` over a real broker: what was rewritten and deleted, and what is of others."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from streaming.kafka.compacted_topics import read_groups
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.command import run
from tests.support.compacted import ASSIGNMENTS, RESTARTED, checkout, latest, records, told
from tests.support.kafka import Kafka, unique
from tests.support.told import Teller

pytestmark = pytest.mark.broker

FLAPPY, GONE = Teller(group_id="flappy").join("a"), Teller(group_id="gone").join("a")


@pytest.fixture(scope="module")
def settings(broker: Kafka) -> Settings:
    """Topics with a group that has settled, one whose first episode is open, and one that was deleted."""
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
    settings.topics = settings.topics.model_copy(
        update={"prefix": f"{unique('newest')}.", "partitions": 3, "replication_factor": 1}
    )
    ensure_topics(settings, settings.topics.made)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for teller in (checkout(), FLAPPY, GONE):
        for topic, key, value in records(teller, over=teller is not FLAPPY):
            producer.produce(settings.topics.prefix + topic, key=key, value=value)
    producer.produce(settings.topics.prefix + ASSIGNMENTS, key=b"gone", value=None)
    producer.flush()
    return settings


def options(settings: Settings) -> list[str]:
    return [*("--bootstrap-servers", settings.kafka.bootstrap_servers), *("--topic-prefix", settings.topics.prefix)]


def test_the_newest_of_each_key_is_read_to_the_end(settings: Settings) -> None:
    assignments, episodes, _ = read_groups(settings)
    assert {assignment.group_id: assignment for assignment in assignments} == {
        one.group_id: latest(one) for one in (checkout(), FLAPPY)
    }
    assert sorted(episode.value for episode in episodes) == sorted(
        one.value for one in (*told(checkout()), *told(FLAPPY, over=False), *told(GONE))
    )


def test_groups(settings: Settings) -> None:
    done = run("groups", "--json", *options(settings))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["groupId"], line["state"], line["members"], line["episode"]["kind"]) for line in lines] == [
        ("flappy", "settled", 1, "first-start"),
        ("team/checkout", "settled", 3, "rolling-restart"),
    ]


def test_group(settings: Settings) -> None:
    done = run("group", "team/checkout", *options(settings))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("team/checkout  consumer, stable since ")
    assert "│ pay (h1) │ h1   │ t:2-3 │          2 │ pay@h1#2       │" in done.stdout


def test_why(settings: Settings) -> None:
    done = run("why", "team/checkout", "--at", str(RESTARTED), "--json", *options(settings))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{told(checkout())[1].value.decode()}\n"
    gone = run("why", "gone", *options(settings))
    assert (gone.returncode, gone.stdout.splitlines()[0]) == (0, "gone, episode 1: first-start, settled")
