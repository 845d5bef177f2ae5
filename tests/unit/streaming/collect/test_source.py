"""Tests of the collector's source: the position at which it resumes reading a partition, and the events it reads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.collect import source
from streaming.collect.cluster_view import subscribed
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.collect.fold import Fold
from streaming.collect.source import OffsetsTopic, ResumePoint
from streaming.kafka import metadata
from streaming.kafka.clients import ClusterUnavailable
from streaming.records.events import GroupObserved, PartitionsStopped
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka
from tests.support.offsets_topic import assignment, commit_key, commit_value, group_bytes, group_key, subscription
from tests.support.wait import eventually


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(source, "_IDENTITY_CHECK_SECONDS", 0.0)
    return MemoryKafka(monkeypatch)


def put(kafka: MemoryKafka, *offsets: int, partition: int = 0) -> None:
    """Append a generation of group g per offset."""
    for offset in offsets:
        value = group_bytes(offset + 1, {"m": (subscription(["t"]), assignment({"t": [0]}))})
        kafka.append(OFFSETS_TOPIC, value, key=group_key("g"), partition=partition, timestamp=offset * 1000)


@contextmanager
def reading_offsets_topic(stop: threading.Event | None = None) -> Iterator[OffsetsTopic]:
    settings = KafkaSettings(bootstrap_servers="memory:1")
    topic = OffsetsTopic(settings, "group", stop or threading.Event(), lambda number: Fold("s", number, str))
    try:
        yield topic
    finally:
        topic.close()


def test_batch_reports_read_unread_and_next_offsets(kafka: MemoryKafka) -> None:
    kafka.create(OFFSETS_TOPIC, 3)
    put(kafka, 0, 1)
    put(kafka, 2, partition=2)
    with reading_offsets_topic() as source:
        first = source.read(settle_seconds=60)
        assert (first.records, first.behind, first.lag) == (3, 0, 0)
        assert [item.record.offset for item in first.outcomes] == [0]
        # The source holds back each partition's last record until the record's millisecond is over.
        assert first.place == ResumePoint({0: 1, 2: 0}, "group")
        second = source.read(settle_seconds=0)
        assert (second.records, second.place.offsets) == (0, {0: 2, 2: 1})
        assert sorted(item.record.partition for item in second.outcomes) == [0, 2]
        assert {group: subscribed(view) for group, view in source.snapshots().items()} == {"g": {"t"}}
        put(kafka, 3)
        assert source.read(settle_seconds=0).records == 1


@pytest.mark.parametrize("more", [0, 1])
def test_commit_event_is_held_until_its_millisecond_is_over(kafka: MemoryKafka, more: int) -> None:
    kafka.create(OFFSETS_TOPIC, 1)
    put(kafka, 0)
    key, key_of_other_group = commit_key("g", "t", 0), commit_key("other", "t", 0)
    kafka.append(OFFSETS_TOPIC, commit_value(500, offset=6), key=key, timestamp=500)
    put(kafka, 2)
    for at, of in ((3000, key_of_other_group), (3000, key), (4000, key), (4000, key_of_other_group)):
        kafka.append(OFFSETS_TOPIC, commit_value(at, offset=at // 500), key=of, timestamp=at)
    for at in (4500,)[:more]:
        kafka.append(OFFSETS_TOPIC, commit_value(at), key=key_of_other_group, timestamp=at)
    with reading_offsets_topic() as source:
        batches = [source.read(60), source.read(0)]
    events = [[(type(item.event.data), item.record.offset) for item in batch.outcomes] for batch in batches]
    first = [(GroupObserved, 0), (GroupObserved, 2)]
    stopped = [(PartitionsStopped, 5)]
    assert events == ([[*first, *stopped], []] if more else [first, stopped])
    assert [batch.place.offsets for batch in batches] == ([{0: 8}, {0: 8}] if more else [{0: 5}, {0: 7}])
    assert [batch.records for batch in batches] == [7 + more, 0]


@pytest.mark.parametrize(
    ("lag", "behind", "is_up_to_date"), [(0, 0, True), (2000, 0, True), (2001, 0, False), (0, 1, False)]
)
def test_records_of_the_last_millisecond_wait_for_the_next_read(lag: int, behind: int, is_up_to_date: bool) -> None:
    batch = source.OffsetsBatch([], ResumePoint({}, None), 0, lag, behind)
    assert batch.is_up_to_date is is_up_to_date


def test_lag_counts_unread_records_without_markers(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create(OFFSETS_TOPIC, 1)
    put(kafka, 0, 1, 2)
    kafka.mark(OFFSETS_TOPIC)
    monkeypatch.setattr(source, "_MAX_BATCH_RECORDS", 2)
    with reading_offsets_topic() as reader:
        assert [(batch.lag, batch.behind) for batch in (reader.read(), reader.read())] == [(2, 1), (0, 0)]


def test_partition_that_ends_before_its_position_has_no_lag(kafka: MemoryKafka) -> None:
    kafka.create(OFFSETS_TOPIC, 1)
    put(kafka, 0, 1, 2)
    with reading_offsets_topic() as source:
        assert source.read().lag == 0
        del kafka.topics[OFFSETS_TOPIC].logs[0].entries[1:]
        assert source.read().lag == 0


def test_stored_offset_is_resumed(kafka: MemoryKafka) -> None:
    kafka.create(OFFSETS_TOPIC, 1)
    put(kafka, 0, 1, 2)
    kafka.committed["group", OFFSETS_TOPIC, 0] = 2
    with reading_offsets_topic() as source:
        batches = [source.read(60), source.read(0)]
        assert [item.record.offset for batch in batches for item in batch.outcomes] == [2]
        assert [batch.place.offsets for batch in batches] == [{0: 2}, {0: 3}]


def test_cluster_without_any_group_is_awaited(kafka: MemoryKafka) -> None:
    stop = threading.Event()
    threading.Timer(0.3, lambda: kafka.create(OFFSETS_TOPIC, 2)).start()
    with reading_offsets_topic() as source:
        assert source.read(0).behind == 0
    kafka.delete(OFFSETS_TOPIC)
    stop.set()
    with reading_offsets_topic(stop) as no_groups:
        batch = no_groups.read(0)
    assert (batch.records, batch.behind, batch.place.offsets) == (0, 0, {})
    assert all(consumer.closed for consumer in kafka.consumers)


class WaitRecorder(threading.Event):
    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return False


def test_awaited_metadata_is_requested_five_times_a_second(
    kafka: MemoryKafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stop = WaitRecorder()
    notifications: list[int] = []

    def waiting() -> None:
        notifications.append(1)
        if len(notifications) == 3:
            kafka.create(OFFSETS_TOPIC, 2)

    loading_error = KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    kafka.fail("committed", loading_error, loading_error)
    settings = KafkaSettings(bootstrap_servers="memory:1")
    topic = OffsetsTopic(settings, "group", stop, lambda number: Fold("s", number, str), waiting=waiting)
    topic.close()
    assert stop.seconds == [0.2] * 3
    again = "committed offsets: loading; trying again"
    assert caplog.messages == [again, again, "following 2 partitions of __consumer_offsets as group"]


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_loading_coordinator_is_awaited(kafka: MemoryKafka, code: int) -> None:
    kafka.create(OFFSETS_TOPIC, 1)
    kafka.fail("committed", KafkaError(code, "loading"))
    with reading_offsets_topic() as source:
        assert source.read(0).behind == 0
    stop = threading.Event()
    stop.set()
    kafka.fail("committed", KafkaError(code, "loading"))
    with reading_offsets_topic(stop) as second:  # without assigned partitions the source looks up no position
        assert second.read(0).records == 0


def test_other_errors_end_the_source_at_once(kafka: MemoryKafka) -> None:
    kafka.create(OFFSETS_TOPIC, 1)
    kafka.fail("committed", KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "not allowed"))
    with pytest.raises(KafkaException, match="not allowed"), reading_offsets_topic():
        pass
    assert kafka.consumers[0].closed


def test_fatal_errors_are_raised_and_others_logged(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create(OFFSETS_TOPIC, 1)
    with reading_offsets_topic() as source:
        kafka.deliver_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "away"))
        source.read()
        assert caplog.messages == ["__consumer_offsets: away"]
        kafka.deliver_error(KafkaError(KafkaError._FATAL, "no more", True))
        with pytest.raises(ClusterUnavailable, match="__consumer_offsets: no more"):
            source.read()


def test_client_that_receives_no_records_is_replaced(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata, "STALL_SECONDS", 0.0)
    kafka.create(OFFSETS_TOPIC, 1)
    put(kafka, 0)
    with reading_offsets_topic() as source:
        assert source.read(0).records == 1
        unresponsive_client = kafka.consumers[-1]
        monkeypatch.setattr(unresponsive_client, "_next_message", lambda: None)
        put(kafka, 1)
        offsets: list[int] = []
        eventually(lambda: offsets.extend(item.record.offset for item in source.read(0).outcomes) or offsets)
        assert (offsets, unresponsive_client.closed) == ([1], True)
    message = "__consumer_offsets: no record arrives, though it has more: using a new client"
    assert caplog.messages == [message]


def test_unresponsive_leader_makes_the_source_outdated(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_OFFSETS_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(metadata, "_MAX_OFFSET_AGE_SECONDS", 0.05)
    kafka.create(OFFSETS_TOPIC, 1)
    with reading_offsets_topic() as source:
        eventually(lambda: source.read(0).is_up_to_date)
        kafka.fail("list_offsets", *[KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader")] * 1000)
        eventually(lambda: not source.read(0).is_up_to_date)
