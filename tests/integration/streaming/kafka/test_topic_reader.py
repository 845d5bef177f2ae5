"""The topic reader on a real broker: it reads to the end of a topic, and continues after every change of the topic."""

import logging
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.clients import confluent_config
from streaming.kafka.diff_reader import DiffReader
from streaming.kafka.metadata import request_identities
from streaming.kafka.producer import EventProducer, SendFailed
from streaming.kafka.topic_reader import TopicReader, TopicUnreadable, read_to_end
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.kafka import PROPERTIES, Kafka, eventually, unique_name

pytestmark = pytest.mark.broker


class Topic:
    """A topic that one test uses."""

    def __init__(self, kafka: Kafka | EmbeddedBroker) -> None:
        self.settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
        self.name = unique_name("read")
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self.make()

    @property
    def partitions(self) -> int | None:
        identity = request_identities(self.settings, [self.name])[self.name]
        return None if identity is None else identity.partitions

    def make(self, partitions: int = 2) -> None:
        new = NewTopic(self.name, num_partitions=partitions, replication_factor=1)
        self.admin.create_topics([new])[self.name].result(30)
        eventually(lambda: self.partitions == partitions)

    def delete(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result(30)
        eventually(lambda: self.partitions is None)

    def write(self, partition: int, *values: str) -> None:
        producer = Producer(confluent_config(self.settings))
        failed: list[object] = []
        for value in values:
            producer.produce(
                self.name, value, partition=partition, on_delivery=lambda error, _: error and failed.append(error)
            )
        assert (producer.flush(30), failed) == (0, [])


@pytest.fixture
def topic(broker: Kafka) -> Topic:
    return Topic(broker)


@pytest.fixture(scope="module")
def own_broker() -> Iterator[EmbeddedBroker]:
    """Yield a broker that the tests may stop, and which creates each topic that a client requests."""
    with EmbeddedBroker(properties={**PROPERTIES, "auto.create.topics.enable": "true"}) as broker:
        yield broker


def values(reader: TopicReader, until: Callable[[], bool], seconds: float = 30) -> list[str]:
    by = time.monotonic() + seconds
    values = []
    while not until():
        assert time.monotonic() < by, values
        values += [(message.value() or b"").decode() for message in reader.poll(0.05, 100)]
    return values


def read_some_texts(reader: TopicReader, count: int) -> list[str]:
    texts: list[str] = []
    by = time.monotonic() + 60
    while len(texts) < count:
        assert time.monotonic() < by, texts
        texts += values(reader, iter([False, True]).__next__)
    return sorted(texts)


def test_reader_reads_to_the_end_and_continues(topic: Topic) -> None:
    topic.write(0, "a", "b")
    topic.write(1, "c")
    with TopicReader(topic.settings, [topic.name]) as reader:
        assert sorted(values(reader, lambda: reader.at_end)) == ["a", "b", "c"]
        assert reader.positions == {(topic.name, 0): 2, (topic.name, 1): 1}
        assert (reader.lag, reader.silent_since, reader.missing) == (0, None, frozenset())
        positions, ids = reader.positions, reader.ids
    topic.write(1, "d")
    with TopicReader(topic.settings, [topic.name], positions=positions, ids=ids) as reader:
        assert values(reader, lambda: reader.at_end) == ["d"]
    with TopicReader(topic.settings, [topic.name], from_beginning=False) as reader:
        assert reader.at_end
        topic.write(0, "e")
        assert read_some_texts(reader, 1) == ["e"]


def test_trailing_markers_and_open_transactions_are_not_records(topic: Topic) -> None:
    producer = Producer(confluent_config(topic.settings) | {"transactional.id": topic.name})
    producer.init_transactions(30)
    for value, end in (("kept", producer.commit_transaction), ("given up", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic.name, value, partition=0)
        producer.flush(30)
        end(30)
    producer.begin_transaction()
    producer.produce(topic.name, "open", partition=0)
    producer.flush(30)
    assert [message.value() for message in read_to_end(topic.settings, topic.name)] == [b"kept"]
    producer.abort_transaction(30)


def test_recreated_topic_is_followed_and_reported(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    topic.write(0, "a", "b", "c")
    with TopicReader(topic.settings, [topic.name], follow=True) as reader:
        assert read_some_texts(reader, 3) == ["a", "b", "c"]
        before = reader.ids
        topic.delete()
        topic.make(1)
        topic.write(0, "d", "e", "f", "g")  # more than the old position: by offsets alone only "g" would be read
        assert set(read_some_texts(reader, 4)) >= {"d", "e", "f"}
        assert reader.ids != before
        assert reader.positions == {(topic.name, 0): 4}
    assert f"topic {topic.name} was deleted and created again: it is read from its beginning" in caplog.messages


def test_reader_follows_a_topic_through_broker_restarts(own_broker: EmbeddedBroker) -> None:
    """The broker's restarts raise the topic's leader epochs; when it is created again, it starts again at epoch 0."""
    topic = Topic(own_broker)
    topic.write(0, "before")
    with TopicReader(topic.settings, [topic.name], follow=True) as reader:
        assert read_some_texts(reader, 1) == ["before"]
        before = time.time()
        own_broker.stop()
        values(reader, lambda: reader.silent_since is not None, seconds=15)
        assert reader.silent_since is not None
        assert before - 5 < reader.silent_since < time.time()
        own_broker.start()
        values(reader, lambda: reader.silent_since is None, seconds=30)
        topic.write(0, "once")
        assert read_some_texts(reader, 1) == ["once"]
        own_broker.restart()
        eventually(lambda: topic.partitions == 2)
        topic.write(0, "twice")
        assert read_some_texts(reader, 1) == ["twice"]
        topic.delete()
        topic.make()
        topic.write(0, "again")
        assert read_some_texts(reader, 1) == ["again"]


def test_our_clients_never_auto_create_topics(own_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=own_broker.bootstrap_servers))
    names = settings.topics
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    before = admin.list_topics(timeout=10).topics.keys()
    with pytest.raises(TopicUnreadable):
        DiffReader(settings)
    with pytest.raises(TopicUnreadable):
        list(read_to_end(settings.kafka, names.dead_letters))
    with EventProducer(settings) as producer, pytest.raises(SendFailed, match="topics --create"):
        producer.send_record(names.membership, b"key", b"{}")
    Producer(confluent_config(settings.kafka)).list_topics(names.diffs, timeout=5)
    AdminClient(confluent_config(settings.kafka)).list_topics(names.diffs, timeout=5)
    created_topics = admin.list_topics(timeout=10).topics.keys() - before
    assert {name for name in created_topics if not name.startswith("__")} == set()
