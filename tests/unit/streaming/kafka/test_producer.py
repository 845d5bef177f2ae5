from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from assignors.partitioner import partition_for_key
from streaming.kafka import producer
from streaming.kafka.access import NotAllowed
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.producer import EventProducer, NotDelivered, ReplaceableProducer
from streaming.records import codec
from streaming.records.events import Event, MemberLeft
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import Log, MemoryKafka
from tests.support.memory_kafka.clients import MemoryProducer

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
TOPIC = SETTINGS.topics.membership


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(TOPIC, 5)
    return kafka


def event(group: str) -> Event:
    return Event("s", "1", MemberLeft(group_id=group, timestamp=1, member_id="m"))


def places(kafka: MemoryKafka, topic: str = TOPIC) -> dict[bytes | None, int | None]:
    return {message.key(): message.partition() for message in kafka.records(topic)}


def test_record_goes_to_the_partition_of_its_key(kafka: MemoryKafka) -> None:
    groups = [f"g{number}" for number in range(20)]
    with EventProducer(SETTINGS) as sending:
        for group in groups:
            sending.send(event(group))
    assert places(kafka) == {group.encode(): partition_for_key(group.encode(), 5) for group in groups}
    (first,) = (message for message in kafka.records(TOPIC) if message.key() == b"g0")
    assert first.record == tuple(codec.encode_event(event("g0")))
    assert kafka.requests.count("list_topics") == 1  # the partition count is not requested for each record


def test_record_without_key_goes_to_any_partition(kafka: MemoryKafka) -> None:
    kafka.create("other", 3)
    with EventProducer(SETTINGS) as sending:
        sending.send(event("g"), "other")
        sending.send_record(TOPIC, None, None, [("h", None)])
    assert places(kafka, "other") == {b"g": partition_for_key(b"g", 3)}
    assert [message.record for message in kafka.records(TOPIC)] == [(None, None, [("h", None)])]


def test_a_topic_that_grew_is_noticed_after_a_while(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    sending = EventProducer(SETTINGS)
    sending.send(event("g1"))
    kafka.topics[TOPIC].logs += [Log() for _ in range(11)]
    sending.send(event("g2"))
    monkeypatch.setattr(producer, "_METADATA_SECONDS", 0.0)
    sending.send(event("g3"))
    sending.flush()
    assert places(kafka) == {
        b"g1": partition_for_key(b"g1", 5),
        b"g2": partition_for_key(b"g2", 5),
        b"g3": partition_for_key(b"g3", 16),
    }


def test_refused_record_is_reported_once(kafka: MemoryKafka) -> None:
    sending = EventProducer(SETTINGS)
    kafka.fail("produce", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    sending.send(event("g1"))
    with pytest.raises(NotDelivered, match=r"topic rebalance\.membership, key b'g1': too large"):
        sending.send(event("g2"))
    sending.send(event("g3"))
    sending.flush()
    assert places(kafka).keys() == {b"g3"}


@pytest.mark.parametrize("code", [KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD])
def test_timestamp_error_of_kafka_names_the_clocks(kafka: MemoryKafka, code: int) -> None:
    kafka.fail("produce", KafkaError(code, "Broker: no"))
    clocks = r"key b'g': Broker: no; is this host's clock right, and the brokers'\?"
    with pytest.raises(NotDelivered, match=clocks), EventProducer(SETTINGS) as sending:
        sending.send(event("g"))


def test_other_errors_are_not_hidden_by_unsent_records(kafka: MemoryKafka) -> None:
    kafka.fail("produce", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    with pytest.raises(KeyError), EventProducer(SETTINGS) as sending:
        sending.send(event("g"))
        raise KeyError


def test_full_queue_is_waited_out(kafka: MemoryKafka) -> None:
    kafka.fail("produce", *[KafkaError(KafkaError._QUEUE_FULL, "full")] * 3)
    with EventProducer(SETTINGS) as sending:
        sending.send(event("g"))
    assert places(kafka).keys() == {b"g"}


def test_undelivered_records_are_reported(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    sending = EventProducer(SETTINGS)
    monkeypatch.setattr(sending.client, "flush", lambda _: 3)
    with pytest.raises(NotDelivered, match=r"3 records are not delivered after 30 s; is the cluster up\?"):
        sending.flush()


def test_missing_topic_and_unreachable_cluster_are_errors(kafka: MemoryKafka) -> None:
    sending = EventProducer(SETTINGS)
    with pytest.raises(NotDelivered, match=r"topic nowhere: .*; `rebalance-monitor topics --create` creates it"):
        sending.send(event("g"), "nowhere")
    kafka.away = True
    with pytest.raises(ClusterUnavailable, match=r"topic rebalance\.membership: broker is away"):
        sending.send(event("g"))


def test_a_topic_that_may_not_be_described_names_the_acl(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = SimpleNamespace(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), partitions={})
    monkeypatch.setattr(MemoryProducer, "list_topics", lambda *_, **__: SimpleNamespace(topics={TOPIC: denied}))
    with pytest.raises(NotAllowed, match=f"may not write topic {TOPIC}, which a producer to it must"):
        EventProducer(SETTINGS).prepare()


def test_a_client_that_delivers_nothing_for_long_is_replaced(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = ReplaceableProducer(SETTINGS.kafka)
    first = sending.client
    monkeypatch.setattr(type(first), "__len__", lambda self: int(self is first))
    sending.send(TOPIC, lambda *_: None, value=b"1")
    assert sending.client is first  # the broker is not away for long
    monkeypatch.setattr(producer, "LATE_SECONDS", 0.0)
    for value in (b"2", b"3"):
        sending.send(TOPIC, lambda *_: None, value=value)
    assert sending.client is not first
    assert [message.value() for message in kafka.records(TOPIC)] == [b"1", b"2", b"3"]
