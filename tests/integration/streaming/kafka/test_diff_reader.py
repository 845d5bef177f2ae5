import json

import msgspec
import pytest
from confluent_kafka import Producer

from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.command import run
from tests.support.histories import sample
from tests.support.kafka import Kafka, unique_name

pytestmark = pytest.mark.broker

HOSTILE_NAME = "g\x1b]0;x\x07\nerror: forged"


@pytest.fixture(scope="module")
def settings(broker: Kafka) -> Settings:
    """Return settings with a diff topic of one partition that contains two valid and several invalid records."""
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
    settings.topics = settings.topics.model_copy(
        update={"prefix": f"{unique_name('reader')}.", "partitions": 1, "replication_factor": 1}
    )
    ensure_topics(settings)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    values = {
        "1": msgspec.json.encode(sample(group_id=HOSTILE_NAME)),
        "2": b"{\x1b",
        "3": json.dumps({"groupId": HOSTILE_NAME, "generation": HOSTILE_NAME}).encode(),
        "4": None,
    }
    valid_diffs = {"2": msgspec.json.encode(sample(group_id="second"))}
    for ce_id, value in (*values.items(), *valid_diffs.items()):
        headers = [("ce_id", ce_id.encode()), ("ce_type", b"rebalance.diff")]
        producer.produce(settings.topics.diffs, key=b"g", value=value, headers=headers)
    producer.flush()
    return settings


def options(settings: Settings) -> list[str]:
    return [*("--bootstrap-servers", settings.kafka.bootstrap_servers), *("--topic-prefix", settings.topics.prefix)]


def test_watch_reports_invalid_diffs_and_continues(settings: Settings) -> None:
    done = run("watch", "--from-beginning", "--exit-at-end", *options(settings))
    assert done.returncode == 0
    assert ["\x1b" in text for text in (done.stdout, done.stderr)] == [False, False]
    assert [line.split()[1] for line in done.stdout.splitlines() if line[:1].isdigit()] == [
        "g\\x1b]0;x\\x07\\nerror:",
        "second",
    ]
    place = f"skipped: {settings.topics.diffs} partition 0 offset"
    assert [line[: len(place) + 2] for line in done.stderr.splitlines()] == [f"{place} 1", f"{place} 2", f"{place} 3"]


def test_watch_json_prints_only_valid_diffs(settings: Settings) -> None:
    done = run("watch", "--json", "--from-beginning", "--exit-at-end", *options(settings))
    assert (done.returncode, done.stderr.count("\n")) == (0, 3)
    assert [json.loads(line)["groupId"] for line in done.stdout.splitlines()] == [HOSTILE_NAME, "second"]


def test_replay_reports_invalid_diffs_as_differences(settings: Settings) -> None:
    done = run("replay", "--check", *options(settings))
    assert (done.returncode, done.stderr) == (1, "5 differences\n")
    assert sum("partition 0 offset" in line for line in done.stdout.splitlines()) == 3
