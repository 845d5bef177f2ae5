"""This project's partitioner agrees with the Java client and with librdkafka's murmur2_random on a broker."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streaming.kafka.jars import fetch, java
from streaming.kafka.producer import EventProducer, SendFailed
from streaming.kafka.topics import describe_topics, ensure_topics, max_record_bytes_by_topic
from streaming.records import codec
from streaming.records.events import Event, MemberLeft
from streaming.settings.config import Settings, load
from tests.support.kafka import Kafka, unique_name
from tests.support.topics import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.cluster]

SEED = 20261121
KEYS = [
    "g",
    "21",
    "foobar",
    "a-little-bit-longer-string",
    "Gruppe-ä",
    "消费者",
    "x" * 249,
    *(f"group-{random.Random(SEED + n).getrandbits(40):x}" for n in range(60)),
]


@pytest.fixture
def settings(broker: Kafka) -> Settings:
    chosen = load(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"{unique_name('producer')}.")
    chosen.topics.partitions = 7
    ensure_topics(chosen)
    return chosen


def records(settings: Settings, count: int) -> Iterator[tuple[int, bytes, bytes, dict[str, str]]]:
    topic = settings.topics.membership
    consumer = Consumer({"bootstrap.servers": settings.kafka.bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(settings.topics.partitions)])
    try:
        for message in consumer.consume(count, 30):
            yield message.partition(), message.key(), message.value(), codec.ce_attributes(message.headers())
    finally:
        consumer.close()


def event(key: str) -> Event:
    return Event("test", f"id-{key}", MemberLeft(group_id=key, timestamp=1_700_000_000_000, member_id="m"))


def test_partitions_match_java_client_and_librdkafka(settings: Settings) -> None:
    with EventProducer(settings) as producer:
        for key in KEYS:
            producer.send(event(key))
    client_partitions = {key.decode(): number for number, key, _, _ in records(settings, len(KEYS))}

    librdkafka: dict[str, int] = {}
    plain_producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in KEYS:
        plain_producer.produce(
            settings.topics.dead_letters,
            key=key.encode(),
            on_delivery=lambda _, message: librdkafka.update({message.key().decode(): message.partition()}),
        )
    assert plain_producer.flush(30) == 0

    assert client_partitions == librdkafka == dict(zip(KEYS, java_partitions(settings), strict=True))


def java_partitions(settings: Settings) -> list[int]:
    jars = ":".join(map(str, fetch(["org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"])))
    command = [str(java()[0]), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", jars, str(Path(__file__).with_name("JavaProducer.java"))]
    answer = subprocess.run(
        [*command, settings.kafka.bootstrap_servers, settings.topics.diffs],
        input="\n".join(key.encode().hex() for key in KEYS),
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(line) for line in answer.stdout.split()]


def test_event_matches_the_contract(settings: Settings) -> None:
    sent = event("g")
    with EventProducer(settings) as producer:
        producer.send(sent)

    [(_, key, value, attributes)] = records(settings, 1)

    assert codec.decode_event(key, value, attributes) == sent
    assert (attributes["specversion"], attributes["time"]) == ("1.0", "2023-11-14T22:13:20.000Z")


def test_record_rejected_by_the_broker_raises_an_error(settings: Settings) -> None:
    producer = EventProducer(settings, {"message.max.bytes": 20_000_000})
    producer.send_record(settings.topics.diffs, b"k", random.Random(SEED).randbytes(12_000_000))

    with pytest.raises(SendFailed, match=f"topic {settings.topics.diffs}, key b'k'"):
        producer.flush()


def test_flush_ends_while_the_cluster_is_unavailable() -> None:
    settings = load(bootstrap_servers="127.0.0.1:1")
    producer = EventProducer(settings)
    producer.client.produce("t", b"v")

    with pytest.raises(SendFailed, match=r"1 records are not delivered after 0.2 s"):
        producer.flush(0.2)
    producer.client.purge()


def test_snapshot_may_be_as_long_as_its_topic_allows(broker: Kafka) -> None:
    chosen = load(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"{unique_name('wide')}.")
    max_bytes = 2 * codec.RECORD_BYTES_LIMIT
    topic = create_topic(broker.bootstrap_servers, chosen.topics.membership, max_message_bytes=max_bytes)
    chosen.topics.partitions = 1
    (limit,) = max_record_bytes_by_topic(describe_topics(chosen, [topic])).values()
    value = random.Random(SEED).randbytes(limit - codec.record_bytes(b"g", b"", []))
    with EventProducer(chosen) as producer:
        producer.send_record(topic, b"g", value)
    ((_, key, written, _),) = records(chosen, 1)
    assert (key, written == value) == (b"g", True)
