"""Clients that lost the cluster permanently (librdkafka issue 5301) are replaced without lost or repeated events."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streaming.collect.coordinator.records import OFFSETS_TOPIC, RawRecord
from streaming.collect.fold import CollectedEvent, Fold, Outcome
from streaming.collect.publisher import Publisher
from streaming.collect.source import OffsetsTopic, ResumePoint
from streaming.kafka import metadata as stall
from streaming.kafka.topics import ensure_topics
from streaming.records.events import Event, MemberLeft
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.integration.streaming.collect.collector_process import topic_with_writer
from tests.support.kafka import Kafka, eventually, read, unique_name
from tests.support.members import Member
from tests.support.wait import TIMEOUT_SECONDS

pytestmark = pytest.mark.broker


@pytest.fixture
def settings(broker: Kafka) -> Settings:
    made = Settings(
        kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers),
        topics=TopicSettings(prefix=f"{unique_name('lost')}."),
    )
    ensure_topics(made)
    return made


def test_source_that_reads_nothing_gets_a_new_client(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("streaming.collect.source._IDENTITY_CHECK_SECONDS", 0.2)
    monkeypatch.setattr(stall, "STALL_SECONDS", 0.2)
    servers, group = settings.kafka.bootstrap_servers, unique_name("group")
    with topic_with_writer(servers) as topic, Member(servers, unique_name("before"), "a", [topic]) as first:
        eventually(lambda: first.lines)
        source = OffsetsTopic(settings.kafka, unique_name("collector"), threading.Event(), lambda n: Fold("s", n, str))
        outcomes: list[Outcome] = []

        def new_records() -> list[RawRecord]:
            outcomes.extend(source.read().outcomes)
            return [o.record for o in outcomes if isinstance(o, CollectedEvent) and o.event.data.group_id == group]

        try:
            eventually(lambda: source.read().behind == 0)
            # As a client without brokers does, this client receives nothing and sends nothing.
            source._consumer.pause([TopicPartition(OFFSETS_TOPIC, n) for n in source._partitions])
            with Member(servers, group, "b", [topic]) as second:
                eventually(lambda: second.lines)
            eventually(new_records)
        finally:
            source.close()
    read_offsets = [(outcome.record.partition, outcome.record.offset) for outcome in outcomes]
    assert len(read_offsets) == len(set(read_offsets))
    assert f"{OFFSETS_TOPIC}: no record arrives, though it has more: using a new client" in caplog.messages


class UnresponsiveClient:
    def __init__(self, client: Any, commit: Callable[[float], object]) -> None:
        self._client = client
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def commit_transaction(self, timeout: float) -> None:
        self._commit(timeout)
        self._commit = lambda _: None
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "deaf", retriable=True))


@pytest.mark.parametrize("committed", [True, False])
def test_producer_without_commit_response_is_replaced(
    settings: Settings, committed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    collector = unique_name("collector")
    source = OffsetsTopic(settings.kafka, collector, threading.Event(), lambda n: Fold("s", n, str))
    try:
        publisher = Publisher(settings, collector, lambda: False)

        def publish(number: int) -> None:
            event = Event("test", f"e{number}", MemberLeft(group_id="g", timestamp=number, member_id="m"))
            place = ResumePoint({0: number}, source._consumer.consumer_group_metadata())
            publisher.publish([event], place)

        publish(1)
        client = publisher._producer.client
        commit = client.commit_transaction if committed else (lambda _: None)
        unresponsive_client = UnresponsiveClient(client, commit)
        publisher._producer.client = unresponsive_client  # type: ignore[assignment]  # replaces librdkafka's
        publish(2)
        assert publisher._producer.client is not unresponsive_client
        publish(3)

        def kept() -> int:  # the coordinator applies a transaction's offsets shortly after the commit
            (place,) = source._consumer.committed([TopicPartition(OFFSETS_TOPIC, 0)], timeout=TIMEOUT_SECONDS)
            return place.offset

        eventually(lambda: kept() == 3)
    finally:
        source.close()
    ids = [dict(row.headers())["ce_id"] for row in read(settings.kafka.bootstrap_servers, settings.topics.membership)]
    assert ids == [b"e1", b"e2", b"e3"]
    assert "the cluster answers others, but not this producer" in caplog.text
