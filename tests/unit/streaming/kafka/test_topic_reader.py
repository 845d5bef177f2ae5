"""Tests of a topic reader on a cluster in memory, while topics are deleted, created again, grown or unavailable."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.kafka import metadata, topic_reader
from streaming.kafka.access import NoPermission
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.topic_reader import RecordOrder, TopicReader, TopicUnreadable, read_to_end
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import Log, MemoryKafka, Message
from tests.support.memory_kafka.admin import MemoryAdmin, answered
from tests.support.wait import eventually

SETTINGS = KafkaSettings(bootstrap_servers="memory:1")


@pytest.fixture
def kafka(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(topic_reader, "CHECK_SECONDS", 0.0)
    kafka.create("t", 2)
    for number in range(6):
        kafka.append("t", b"%d" % number, partition=number % 2)
    return kafka


def values(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def polled(reader: TopicReader, most: int = 1000) -> list[bytes | None]:
    return values(reader.poll(0.01, most))


def read_values_to_end(*readers: TopicReader) -> list[bytes | None]:
    values: list[bytes | None] = []
    for reader in readers:
        eventually(lambda reader=reader: values.extend(polled(reader)) or reader.at_end)
    return values


def ends(reader: TopicReader, message: str) -> None:
    """Wait until polling the reader raises TopicUnreadable with this message."""
    with pytest.raises(TopicUnreadable, match=message):
        eventually(lambda: reader.poll(0.01))


def reader(*topics: str, **options: Any) -> TopicReader:
    return TopicReader(SETTINGS, topics or ["t"], **options)


def test_reader_reads_from_beginning_to_end_and_continues(kafka: MemoryKafka) -> None:
    with reader() as first:
        assert not first.at_end
        assert sorted(read_values_to_end(first), key=repr) == [b"%d" % number for number in range(6)]
        assert (first.positions, first.ids, first.lag) == ({("t", 0): 3, ("t", 1): 3}, {"t": "id-1"}, 0)
    kafka.append("t", b"later", partition=1)
    with reader(positions=first.positions, ids=first.ids) as second:
        assert second.lag == 1
        assert read_values_to_end(second) == [b"later"]
    assert all(consumer.closed for consumer in kafka.consumers)


def test_reader_from_the_ends_reads_only_new_records(kafka: MemoryKafka) -> None:
    with reader(from_beginning=False) as late:
        assert late.at_end
        assert polled(late) == []
        kafka.append("t", b"new")
        assert polled(late) == [b"new"]


def test_poll_returns_at_most_the_requested_records(kafka: MemoryKafka) -> None:
    with reader() as slow:
        assert [len(polled(slow, most)) for most in (1, 2)] == [1, 2]
        assert slow.lag == 3


def test_the_lag_follows_the_ends_of_the_log(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_OFFSETS_INTERVAL_SECONDS", 0.0)
    with reader() as slow:
        assert slow.lag == 6
        assert read_values_to_end(slow)
        assert slow.lag == 0
        kafka.append("t", b"more")
        assert slow.lag == 1
        kafka.topics["t"].logs.append(Log())
        kafka.append("t", b"in the new one", partition=2)
        eventually(lambda: polled(slow, 9) and slow.lag == 0)


def test_lag_is_computed_without_calls_to_the_client(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    with reader() as slow:

        def reject_client_call(*_: object, **__: object) -> None:
            raise AssertionError("waits for librdkafka while it holds the interpreter lock")

        for call in ("get_watermark_offsets", "position", "assignment", "committed"):
            monkeypatch.setattr(kafka.consumers[-1], call, reject_client_call, raising=False)
        assert (len(polled(slow, 2)), slow.lag) == (2, 4)


def test_partition_leader_move_is_not_the_end_of_the_log(
    kafka: MemoryKafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "STALL_SECONDS", 0.0)
    with reader() as first:
        assert len(read_values_to_end(first)) == 6
        with monkeypatch.context() as patch_context:

            def describe_moving_partitions(_: MemoryAdmin, places: Iterable[Any], **__: Any) -> dict[Any, Any]:
                return {place: answered(lambda: SimpleNamespace(offset=-1001)) for place in places}

            patch_context.setattr(MemoryAdmin, "list_offsets", describe_moving_partitions)
            for _ in range(20):
                assert polled(first) == []
        assert (sum(first.positions.values()), first.lag) == (6, 0)
        kafka.append("t", b"more")
        eventually(lambda: polled(first) == [b"more"])
    assert "read again" not in caplog.text


@pytest.mark.parametrize("positions", [{("t", 0): 2}, {("t", 0): 2, ("t", 1): 3}])
def test_given_positions_override_beginning_and_end(kafka: MemoryKafka, positions: dict[tuple[str, int], int]) -> None:
    with reader(positions=positions, from_beginning=True) as first:
        expected = [b"4"] if len(positions) == 2 else [b"4", b"1", b"3", b"5"]
        assert sorted(read_values_to_end(first), key=repr) == sorted(expected, key=repr)
    with reader(positions=positions, from_beginning=False) as second:
        assert read_values_to_end(second) == [b"4"]


def test_reader_passes_markers_and_removed_records_at_the_end(kafka: MemoryKafka) -> None:
    kafka.mark("t", 0)
    kafka.mark("t", 1)
    kafka.topics["t"].logs[1].begins = 4  # all of partition 1 was removed
    with reader() as first:
        assert sorted(read_values_to_end(first), key=repr) == [b"0", b"2", b"4"]
        assert first.positions == {("t", 0): 4, ("t", 1): 4}
    kafka.topics["t"].logs[0].begins = 4
    with reader() as second:
        assert second.at_end


def test_partitions_that_are_added_are_read_from_their_beginning(kafka: MemoryKafka) -> None:
    with reader(from_beginning=False) as first:
        kafka.topics["t"].logs.append(Log())
        kafka.append("t", b"in the new one", partition=2)
        eventually(lambda: polled(first) == [b"in the new one"])
        assert first.positions == {("t", 0): 3, ("t", 1): 3, ("t", 2): 1}


def test_missing_topic_is_refused_or_awaited(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TopicUnreadable, match="topic late: does not exist; `rebalance-monitor topics --create`"):
        reader("t", "late")
    assert all(consumer.closed for consumer in kafka.consumers)
    with reader("t", "late", wait=True) as waiting:
        assert waiting.missing == {"late"}
        read_values = []
        eventually(lambda: read_values.extend(polled(waiting)) or len(read_values) == 6)
        assert not waiting.at_end
        kafka.create("late")
        kafka.append("late", b"first")
        eventually(lambda: polled(waiting) == [b"first"])
        assert (waiting.at_end, waiting.missing) == (True, frozenset())
    assert caplog.messages == [
        "topic late does not exist yet: waiting for it",
        "topic late exists now: it is read from its beginning",
    ]


def test_deleted_topic_is_an_error_or_awaited(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    with reader() as ending_reader, reader(follow=True) as following_reader:
        read_values_to_end(ending_reader, following_reader)
        kafka.delete("t")
        ends(ending_reader, "topic t: was deleted while it was read; start again")
        eventually(lambda: polled(following_reader) == [] and following_reader.missing == {"t"})
        assert (following_reader.positions, following_reader.at_end, following_reader.ids) == ({}, False, {})
        kafka.create("t")
        kafka.append("t", b"again")
        eventually(lambda: polled(following_reader) == [b"again"])
        assert following_reader.ids == {"t": "id-2"}
    assert caplog.messages == [
        "topic t was deleted: waiting until it is created again",
        "topic t exists now: it is read from its beginning",
    ]


def test_recreated_topic_is_an_error_or_read_from_the_start(
    kafka: MemoryKafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create("other")
    with reader() as ending_reader, reader("t", "other", follow=True) as following_reader:
        read_values_to_end(ending_reader, following_reader)
        kafka.delete("t")
        kafka.create("t")
        kafka.append("t", b"again")
        kafka.append("other", b"beside")
        ends(ending_reader, "was deleted and created again while it was read; start again")
        values: list[bytes | None] = []
        eventually(lambda: values.extend(polled(following_reader)) or len(values) == 2)
        assert sorted(values, key=repr) == [b"again", b"beside"]
        assert following_reader.positions == {("t", 0): 1, ("other", 0): 1}
    assert caplog.messages == ["topic t was deleted and created again: it is read from its beginning"]
    assert all(consumer.closed for consumer in kafka.consumers)


def test_positions_of_a_recreated_topic_are_not_used(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    with reader(positions={("t", 0): 3, ("t", 1): 2}, ids={"t": "older"}) as first:
        assert len(read_values_to_end(first)) == 6
    assert caplog.messages == ["topic t was deleted and created again: it is read from its beginning"]


def test_position_beyond_the_end_means_a_recreated_topic(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    with reader(positions={("t", 0): 4, ("t", 1): 3}) as first:
        assert read_values_to_end(first) == [b"0", b"2", b"4"]
    assert caplog.messages == ["topic t partition 0: ends at offset 3, before position 4: reading it again"]


def test_missing_describe_or_read_right_is_named(kafka: MemoryKafka) -> None:
    kafka.deny("t", "DESCRIBE")
    with pytest.raises(NoPermission, match=r"may not read topic t, which this program must; kafka-acls\.sh"):
        reader()
    kafka.deny("t")
    with reader() as first:
        kafka.deliver_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no"), "t")
        with pytest.raises(NoPermission, match="may not read topic t"):
            first.poll(0.01)
        kafka.deliver_error(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no"))
        with pytest.raises(NoPermission, match="may not read topic"):
            first.poll(0.01)


def test_only_fatal_client_errors_are_raised(kafka: MemoryKafka) -> None:
    with reader() as first:
        kafka.deliver_error(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE, "gone"), "t")
        assert polled(first, 1) == []
        kafka.deliver_error(KafkaError(KafkaError._FATAL, "no more", True))
        with pytest.raises(TopicUnreadable, match="topic t: no more"):
            first.poll(0.01)


@pytest.mark.parametrize("code", [KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT])
def test_reader_reports_silence_until_the_cluster_answers(kafka: MemoryKafka, code: int) -> None:
    with reader() as first:
        read_values_to_end(first)
        assert first.silent_since is None
        kafka.away = True
        kafka.deliver_error(KafkaError(code, "away"))
        eventually(lambda: first.poll(0.01) or first.silent_since)
        since = first.silent_since
        first.poll(0.01)
        assert first.silent_since == since
        kafka.away = False
        eventually(lambda: first.poll(0.01) or first.silent_since is None)
        kafka.away = True  # the reader gets no event and no answer
        eventually(lambda: first.poll(0.01) or first.silent_since)
        assert (first.silent_since or 0) >= (since or 0)


def test_client_that_receives_no_records_is_replaced(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata, "STALL_SECONDS", 0.0)
    with reader() as first:
        read_values_to_end(first)
        unresponsive_client = kafka.consumers[-1]
        monkeypatch.setattr(unresponsive_client, "_next_message", lambda: None)
        assert polled(first) == []
        kafka.append("t", b"more")
        eventually(lambda: polled(first) == [b"more"])
        assert unresponsive_client.closed
    assert set(caplog.messages) == {"topic t partition 0: no record arrives, though it has more: using a new client"}


def test_partition_with_lost_records_is_reported_and_reread(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata, "STALL_SECONDS", 0.0)
    with reader() as first:
        read_values_to_end(first)
        del kafka.topics["t"].logs[0].entries[1:]
        kafka.append("t", b"new")  # the record has an offset that was read before
        values: list[bytes | None] = []
        eventually(lambda: values.extend(polled(first)) or b"new" in values)
    assert values == [b"0", b"new"]
    assert caplog.messages == ["topic t partition 0: ends at offset 2, before position 3: reading it again"]


def test_briefly_refused_end_offsets_are_requested_again(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with reader() as first:
        read_values_to_end(first)
        kafka.topics["t"].logs.append(Log())
        kafka.append("t", b"new", partition=2)
        kafka.fail("list_offsets", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied"))
        eventually(lambda: polled(first) == [b"new"])
    assert caplog.messages == ["topic t: no broker returns its partitions' ends: denied"]


def test_refused_start_closes_the_client(kafka: MemoryKafka) -> None:
    kafka.fail("list_offsets", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied"))
    with pytest.raises(ClusterUnavailable, match="topic t: no broker returns its partitions' ends: denied"):
        reader()
    assert all(consumer.closed for consumer in kafka.consumers)


def test_reader_ends_at_the_end_or_when_stopped(kafka: MemoryKafka) -> None:
    assert len(list(read_to_end(SETTINGS, "t"))) == 6
    assert list(read_to_end(SETTINGS, "t", until=lambda: True)) == []


@pytest.mark.parametrize(
    ("written", "accepted"),  # partition and timestamp of each record of a key
    [
        (((4, 90), (0, 10), (4, 20)), [True, False, True]),  # within a partition, offsets decide
        (((0, 10), (4, 90), (0, 20)), [True, True, False]),
        (((0, 10), (4, 10)), [True, True]),
    ],
)
def test_older_record_of_a_key_in_another_partition_is_ignored(
    written: tuple[tuple[int, int], ...], accepted: list[bool]
) -> None:
    order = RecordOrder()
    messages = [Message("t", partition, 0, key=b"k", value=b"", timestamp=at) for partition, at in written]
    assert [order.accept(message) for message in messages] == accepted
