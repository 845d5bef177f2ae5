import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from assignors.errors import OutsideFailure
from streaming.kafka import topic_reader
from streaming.kafka.topics import ensure_topics
from streaming.serve.records import TopicRecord
from streaming.serve.source import Source
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka
from tests.support.wait import eventually

SETTINGS = Settings(
    kafka=KafkaSettings(bootstrap_servers="memory:1"), topics=TopicSettings(prefix="p.", replication_factor=1)
)


@pytest.fixture
def kafka(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(topic_reader, "CHECK_SECONDS", 0.0)
    ensure_topics(SETTINGS)
    return kafka


def kind(source: Source) -> str | None:
    """Poll the source once more; return the kind of reason for outdated data, or None if the data are current."""
    source.poll(0.01)
    return None if source.stale is None else source.stale.kind


DIFFS, ASSIGNMENTS = SETTINGS.topics.diffs, SETTINGS.topics.assignments


@pytest.fixture
def source(kafka: MemoryKafka) -> Iterator[Source]:
    opened = Source(SETTINGS)
    yield opened
    opened.close()


def test_leaderless_partition_is_reported_until_it_has_one(kafka: MemoryKafka, source: Source) -> None:
    source.open({}, {})
    eventually(lambda: source.poll(0.01) == [] and source.caught_up and source.stale is None)
    kafka.topics["p.rebalance.diffs"].offline.add(2)
    eventually(lambda: kind(source) == "partition-offline")
    assert source.stale is not None
    assert source.stale.reason == "Topic p.rebalance.diffs partition 2 has no leader"
    stale_since = source.stale.since
    assert (kind(source), source.stale.since) == ("partition-offline", stale_since)
    kafka.topics["p.rebalance.diffs"].offline.clear()
    eventually(lambda: kind(source) is None)


def read(source: Source) -> list[TopicRecord]:
    polled: list[TopicRecord] = []
    eventually(lambda: polled.extend(source.poll(0.01)) or source.caught_up)
    return polled


def test_record_is_returned_as_in_the_topic(kafka: MemoryKafka, source: Source) -> None:
    kafka.append(DIFFS, b"diff", key=b"g", partition=3, headers=[("ce_id", b"g:1"), ("ce_type", b"x")])
    kafka.append(ASSIGNMENTS, None, key=b"g", partition=1)
    source.open({}, {})
    assert sorted(read(source), key=lambda topic_record: topic_record.topic) == [
        TopicRecord(ASSIGNMENTS, 1, 0, b"g", None, None),
        TopicRecord(DIFFS, 3, 0, b"g", b"diff", "g:1", type="x"),
    ]
    assert source.ids == {name: kafka.topics[name].id for name in (DIFFS, ASSIGNMENTS)}
    assert source.lag == 0


def test_source_resumes_at_stored_offsets(kafka: MemoryKafka, source: Source) -> None:
    for value in (b"0", b"1", b"2"):
        kafka.append(DIFFS, value, key=b"g")
    source.open({(DIFFS, 0): 2}, {DIFFS: kafka.topics[DIFFS].id})
    assert [(record.offset, record.value) for record in read(source)] == [(2, b"2")]


def test_lost_rounds_are_logged_and_compaction_is_not(
    kafka: MemoryKafka, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in (DIFFS, ASSIGNMENTS):
        kafka.append(topic, b"0", key=b"g")
        for _ in range(3):
            kafka.mark(topic)
        kafka.append(topic, b"4", key=b"g")
        kafka.append(topic, b"5", key=b"g")
    source.open({}, {})
    assert sorted(topic_record.offset for topic_record in read(source)) == [0, 0, 4, 4, 5, 5]
    gone = [message for message in caplog.messages if message.endswith("are gone")]
    assert gone == [f"{DIFFS} partition 0: offsets 1 to 3 are gone"]


def test_offsets_of_a_recreated_topic_start_again(
    kafka: MemoryKafka, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.append(DIFFS, b"before", key=b"g")
    source.open({}, {})
    read(source)
    partitions = len(kafka.topics[DIFFS].logs)
    kafka.delete(DIFFS)
    topic = kafka.create(DIFFS, partitions)
    for _ in range(9):
        kafka.mark(DIFFS)
    kafka.append(DIFFS, b"after", key=b"g")
    polled: list[TopicRecord] = []
    eventually(lambda: polled.extend(source.poll(0.01)) or polled)
    assert [(record.offset, record.value) for record in polled] == [(9, b"after")]
    assert source.ids[DIFFS] == topic.id
    assert not any("are gone" in message for message in caplog.messages)


def test_missing_topic_is_reported_until_it_exists(kafka: MemoryKafka, source: Source) -> None:
    kafka.delete(DIFFS)
    source.open({}, {})
    assert kind(source) == "topic-missing"
    assert source.stale is not None
    assert source.stale.reason == f"Topic {DIFFS} is missing"
    stale_since = source.stale.since
    assert abs(stale_since / 1000 - time.time()) < 60
    assert (kind(source), source.stale.since) == ("topic-missing", stale_since)
    kafka.create(DIFFS, 2)
    eventually(lambda: kind(source) is None and source.caught_up)


def test_lost_contact_with_kafka_is_reported_once(
    kafka: MemoryKafka, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.open({}, {})
    read(source)
    kafka.away = True
    kafka.deliver_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "away"))
    eventually(lambda: kind(source) == "kafka-unreachable")
    assert source.stale is not None
    assert source.stale.reason == "No contact with Kafka"
    assert abs(source.stale.since / 1000 - time.time()) < 60
    kind(source)
    kafka.away = False
    eventually(lambda: kind(source) is None)
    kind(source)
    messages = [message for message in caplog.messages if message.startswith("cluster")]
    assert messages == ["cluster memory:1: no contact", "cluster memory:1: answers again"]


OTHER_CLUSTER = r"another cluster answers now \(id other, before memory\)"


def test_changed_cluster_after_lost_contact_is_refused(kafka: MemoryKafka, source: Source) -> None:
    source.open({}, {})
    read(source)
    kafka.away = True
    eventually(lambda: kind(source) == "kafka-unreachable")
    kafka.away, kafka.cluster_id = False, "other"
    with pytest.raises(OutsideFailure, match=OTHER_CLUSTER):
        eventually(lambda: kind(source) is None)


def test_changed_cluster_is_refused_before_reading(kafka: MemoryKafka, source: Source) -> None:
    source.open({}, {})
    read(source)
    kafka.cluster_id = "other"  # the source has not noticed the deletion
    for topic in source.topics:
        kafka.create(topic)
        kafka.append(topic, b"v", key=b"k")
    with pytest.raises(OutsideFailure, match=OTHER_CLUSTER):
        eventually(lambda: source.poll(0.01))
