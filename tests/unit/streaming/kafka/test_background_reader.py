"""A reader that reads a topic in the background, over a cluster in memory."""

from collections.abc import Iterator

import pytest

from streaming.kafka import background_reader, topic_reader
from streaming.kafka.background_reader import BufferedTopicReader
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka
from tests.support.wait import eventually

KAFKA = KafkaSettings(bootstrap_servers="memory:1")
TOPIC = "rebalance.episodes"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(background_reader, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(background_reader, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(topic_reader, "CHECK_SECONDS", 0.0)
    return MemoryKafka(monkeypatch)


class StartableReader:
    def __init__(self, *, position: int | None = None, topic_id: str | None = None) -> None:
        positions = {} if position is None else {(TOPIC, 0): position}
        self.reader = BufferedTopicReader(KAFKA, TOPIC, "episodes", positions=positions, topic_id=topic_id)
        self.values: list[bytes | None] = []
        self.ids: list[str] = []

    def has_read_values(self, *values: bytes) -> bool:
        while (batch := self.reader.take()) is not None:
            self.ids += [batch.topic_id] if batch.topic_id not in self.ids else []
            self.values += [message.value() for message in batch.messages]
        return self.values == list(values)

    @property
    def whole(self) -> bool:
        return self.reader.is_complete


@pytest.fixture
def running_reader() -> Iterator[StartableReader]:
    """Yield a reader that has not started yet, so that a test can create the reader's topic first."""
    running_reader = StartableReader()
    yield running_reader
    running_reader.reader.__exit__()


def test_reader_resumes_at_offset_and_new_topic_at_its_start(kafka: MemoryKafka) -> None:
    kafka.create(TOPIC, 1)
    for value in (b"1", b"2", b"3"):
        kafka.append(TOPIC, value)
    first = StartableReader()
    with first.reader:
        eventually(lambda: first.has_read_values(b"1", b"2", b"3"))
    later = StartableReader(position=2, topic_id=first.ids[0])
    with later.reader:
        eventually(lambda: later.has_read_values(b"3"))
    second = StartableReader(position=2, topic_id="another")
    with second.reader:
        eventually(lambda: second.has_read_values(b"1", b"2", b"3"))


def test_recreated_topic_has_another_id(kafka: MemoryKafka, running_reader: StartableReader) -> None:
    kafka.create(TOPIC, 1)
    kafka.append(TOPIC, b"1")
    with running_reader.reader:
        eventually(lambda: running_reader.has_read_values(b"1"))
        kafka.delete(TOPIC)
        kafka.create(TOPIC, 1)
        kafka.append(TOPIC, b"2")
        eventually(lambda: running_reader.has_read_values(b"1", b"2"))
    assert len(running_reader.ids) == 2


def test_background_reader_waits_at_a_full_queue(
    kafka: MemoryKafka, running_reader: StartableReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_reader, "_BATCH_RECORDS", 1)
    kafka.create(TOPIC, 1)
    values = [b"%d" % number for number in range(20)]
    for value in values:
        kafka.append(TOPIC, value)
    with running_reader.reader:
        eventually(running_reader.reader._batches.full)
        assert not running_reader.whole
        eventually(lambda: running_reader.has_read_values(*values) and running_reader.whole)


def test_missing_topic_gives_no_status_until_it_exists(
    kafka: MemoryKafka, running_reader: StartableReader, caplog: pytest.LogCaptureFixture
) -> None:
    with running_reader.reader:
        eventually(lambda: "does not exist yet" in caplog.text)
        assert not running_reader.whole
        kafka.create(TOPIC, 1)
        eventually(lambda: running_reader.has_read_values() and running_reader.whole)


def test_missing_permission_is_reported_once_and_retried(
    kafka: MemoryKafka, running_reader: StartableReader, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create(TOPIC, 1)
    kafka.append(TOPIC, b"1")
    kafka.deny(TOPIC, "DESCRIBE", "READ")
    with running_reader.reader:
        eventually(lambda: "may not read topic rebalance.episodes" in caplog.text)
        assert not running_reader.whole
        kafka.denied_operations.clear()
        eventually(lambda: running_reader.has_read_values(b"1") and running_reader.whole)
    assert caplog.text.count("episodes are not read") == 1
