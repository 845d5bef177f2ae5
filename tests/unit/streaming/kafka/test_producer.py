from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from assignors.partitioner import partition_for_key
from streaming.kafka import producer
from streaming.kafka.access import NoPermission
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.producer import EventProducer, ReplaceableProducer, SendFailed
from streaming.records import codec
from streaming.records.events import Event, MemberLeft
from tests.support.memory_kafka import SETTINGS, Log, MemoryKafka
from tests.support.memory_kafka.clients import MemoryProducer

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
    with EventProducer(SETTINGS) as event_producer:
        for group in groups:
            event_producer.send(event(group))
    assert places(kafka) == {group.encode(): partition_for_key(group.encode(), 5) for group in groups}
    (first,) = (message for message in kafka.records(TOPIC) if message.key() == b"g0")
    assert first.record == tuple(codec.encode_event(event("g0")))
    assert kafka.requests.count("list_topics") == 1  # the partition count is not requested for each record


def test_record_without_key_goes_to_any_partition(kafka: MemoryKafka) -> None:
    kafka.create("other", 3)
    with EventProducer(SETTINGS) as event_producer:
        event_producer.send(event("g"), "other")
        event_producer.send_record(TOPIC, None, None, [("h", None)])
    assert places(kafka, "other") == {b"g": partition_for_key(b"g", 3)}
    assert [message.record for message in kafka.records(TOPIC)] == [(None, None, [("h", None)])]


def test_a_topic_that_grew_is_noticed_after_a_while(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    event_producer = EventProducer(SETTINGS)
    event_producer.send(event("g1"))
    kafka.topics[TOPIC].logs += [Log() for _ in range(11)]
    event_producer.send(event("g2"))
    monkeypatch.setattr(producer, "_METADATA_SECONDS", 0.0)
    event_producer.send(event("g3"))
    event_producer.flush()
    assert places(kafka) == {
        b"g1": partition_for_key(b"g1", 5),
        b"g2": partition_for_key(b"g2", 5),
        b"g3": partition_for_key(b"g3", 16),
    }


def test_refused_record_is_reported_once(kafka: MemoryKafka) -> None:
    event_producer = EventProducer(SETTINGS)
    kafka.fail("produce", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    event_producer.send(event("g1"))
    with pytest.raises(SendFailed, match=r"topic rebalance\.membership, key b'g1': too large"):
        event_producer.send(event("g2"))
    event_producer.send(event("g3"))
    event_producer.flush()
    assert places(kafka).keys() == {b"g3"}


@pytest.mark.parametrize("code", [KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD])
def test_kafka_timestamp_error_suggests_to_check_the_clocks(kafka: MemoryKafka, code: int) -> None:
    kafka.fail("produce", KafkaError(code, "Broker: no"))
    clocks = r"key b'g': Broker: no; is this host's clock right, and the brokers'\?"
    with pytest.raises(SendFailed, match=clocks), EventProducer(SETTINGS) as event_producer:
        event_producer.send(event("g"))


def test_other_errors_are_not_hidden_by_unsent_records(kafka: MemoryKafka) -> None:
    kafka.fail("produce", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    with pytest.raises(KeyError), EventProducer(SETTINGS) as event_producer:
        event_producer.send(event("g"))
        raise KeyError


def test_producer_waits_while_its_queue_is_full(kafka: MemoryKafka) -> None:
    kafka.fail("produce", *[KafkaError(KafkaError._QUEUE_FULL, "full")] * 3)
    with EventProducer(SETTINGS) as event_producer:
        event_producer.send(event("g"))
    assert places(kafka).keys() == {b"g"}


def test_undelivered_records_are_reported(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    event_producer = EventProducer(SETTINGS)
    monkeypatch.setattr(event_producer.client, "flush", lambda _: 3)
    with pytest.raises(SendFailed, match=r"3 records are not delivered after 30 s; is the cluster up\?"):
        event_producer.flush()


def test_missing_topic_and_unreachable_cluster_are_errors(kafka: MemoryKafka) -> None:
    event_producer = EventProducer(SETTINGS)
    with pytest.raises(SendFailed, match=r"topic nowhere: .*; `rebalance-monitor topics --create` creates it"):
        event_producer.send(event("g"), "nowhere")
    kafka.away = True
    with pytest.raises(ClusterUnavailable, match=r"topic rebalance\.membership: broker is away"):
        event_producer.send(event("g"))


def test_denied_topic_error_names_the_missing_permission(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    denied_topic = SimpleNamespace(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), partitions={})
    monkeypatch.setattr(MemoryProducer, "list_topics", lambda *_, **__: SimpleNamespace(topics={TOPIC: denied_topic}))
    with pytest.raises(NoPermission, match=f"may not write topic {TOPIC}, which a producer to it must"):
        EventProducer(SETTINGS).prepare()


def test_a_client_that_delivers_nothing_for_long_is_replaced(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_producer = ReplaceableProducer(SETTINGS.kafka)
    first = event_producer.client
    monkeypatch.setattr(type(first), "__len__", lambda self: int(self is first))
    event_producer.send(TOPIC, lambda *_: None, value=b"1")
    assert event_producer.client is first  # the broker is not away for long
    monkeypatch.setattr(producer, "LATE_DELIVERY_SECONDS", 0.0)
    for value in (b"2", b"3"):
        event_producer.send(TOPIC, lambda *_: None, value=value)
    assert event_producer.client is not first
    assert [message.value() for message in kafka.records(TOPIC)] == [b"1", b"2", b"3"]
