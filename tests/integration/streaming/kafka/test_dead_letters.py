"""The command ``dlt`` on a real broker: it lists dead letters with their reasons, and publishes records unchanged."""

import json

import pytest
from confluent_kafka import Producer

from streaming.kafka.topics import ensure_topics
from streaming.records.dead_letters import dead_letter_headers
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.support.command import run
from tests.support.kafka import Kafka, unique_name
from tests.support.stream_job import Job

pytestmark = pytest.mark.broker


def test_dead_letters_are_listed_and_resubmitted_unchanged(broker: Kafka) -> None:
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers),
        topics=TopicSettings(prefix=f"{unique_name('dlt')}.", replication_factor=1),
    )
    ensure_topics(settings)
    original = [("ce_type", b"new.type"), ("odd", None)]
    headers = dead_letter_headers(original, ValueError("no such type"), topic="m", partition=3, offset=14)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(settings.topics.dead_letters, key=b"g", value=b"\xff{", headers=headers, partition=2)
    producer.flush()

    cluster = ("--bootstrap-servers", settings.kafka.bootstrap_servers, "--topic-prefix", settings.topics.prefix)
    listed = run("dlt", "list", "--json", *cluster)
    assert [json.loads(line) for line in listed.stdout.splitlines()] == [
        {
            "partition": 2,
            "offset": 0,
            "exception": "ValueError",
            "message": "no such type",
            "sourceTopic": "m",
            "sourcePartition": 3,
            "sourceOffset": 14,
            "key": "Zw==",
            "value": "/3s=",
            "headers": [["ce_type", "bmV3LnR5cGU="], ["odd", None]],
            "truncated": False,
        }
    ]
    refused_command = run("dlt", "resubmit", "9:9", *cluster)
    assert (refused_command.returncode, refused_command.stdout) == (2, "")
    assert refused_command.stderr.startswith("error: '9:9': no dead letter at this offset")
    assert run("dlt", "resubmit", *cluster).returncode == 2
    sent = run("dlt", "resubmit", "2:0", *cluster)
    assert sent.stdout == f"1 published to {settings.topics.membership}\n"
    job = Job.__new__(Job)
    job.settings = settings
    assert job.rows(settings.topics.membership) == {b"g": [(b"\xff{", tuple(original))]}
