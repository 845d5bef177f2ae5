from typing import Any

import msgspec
import pytest

from streaming.kafka import topic_reader
from streaming.kafka.diff_reader import DiffReader, DiffRecord, MalformedDiff, read_diffs
from streaming.kafka.topic_reader import TopicUnreadable
from tests.support.histories import sample
from tests.support.memory_kafka import SETTINGS, MemoryKafka
from tests.support.wait import eventually

TOPIC = SETTINGS.topics.diffs


@pytest.fixture
def kafka(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(topic_reader, "CHECK_SECONDS", 0.0)
    kafka.create(TOPIC, 2)
    return kafka


def put(kafka: MemoryKafka, number: int, group: str = "g", partition: int = 0, *, value: bytes | None = None) -> None:
    value = msgspec.json.encode(sample(group_id=group)) if value is None else value
    kafka.append(TOPIC, value, key=group.encode(), partition=partition, headers=[("ce_id", b"%d" % number)])


def ids(**options: Any) -> list[str]:
    return [record.id for record in read_diffs(SETTINGS, exit_at_end=True, **options)]


def test_diff_is_read_with_its_id_bytes_and_position(kafka: MemoryKafka) -> None:
    kafka.mark(TOPIC, 1)
    put(kafka, 7, partition=1)
    (record,) = read_diffs(SETTINGS, exit_at_end=True, from_beginning=True)
    diff = sample(group_id="g")
    assert record == DiffRecord("7", diff, msgspec.json.encode(diff), 1, 1)


def test_rewritten_batch_is_returned_once(kafka: MemoryKafka) -> None:
    for number in (1, 2, 1, 2, 3):
        put(kafka, number)
    kafka.append(TOPIC, b"{}", key=b"g")  # a record without an id is not a diff
    assert ids(from_beginning=True) == ["1", "2", "3"]


def test_reader_of_one_group_yields_only_its_new_diffs(kafka: MemoryKafka) -> None:
    for number in range(4):
        put(kafka, number, f"g{number % 2}", number % 2)
    assert ids(from_beginning=True, group="g1") == ["1", "3"]
    assert ids() == []
    assert sorted(ids(positions={0: 1, 1: 0})) == ["1", "2", "3"]


def test_later_reader_continues_where_an_earlier_stopped(kafka: MemoryKafka) -> None:
    for number in range(3):
        put(kafka, number)
    with DiffReader(SETTINGS, from_beginning=True) as first:
        assert not first.at_end
        assert (first.poll(0.1) or first).id == "0"
        kept = first.positions, first.topic_id
    assert kept == ({0: 1, 1: 0}, "id-1")
    assert ids(positions=kept[0], topic_id=kept[1]) == ["1", "2"]
    assert ids(positions=kept[0], topic_id="another") == ["0", "1", "2"]


def test_record_that_is_not_a_diff_is_reported_and_skipped(kafka: MemoryKafka) -> None:
    put(kafka, 1)
    put(kafka, 2, value=b'{"groupId": 7}')
    put(kafka, 3)
    with DiffReader(SETTINGS, from_beginning=True) as ending_reader:
        assert ending_reader.poll(0.1) is not None
        with pytest.raises(MalformedDiff, match=r"rebalance\.diffs partition 0 offset 1: .*groupId"):
            ending_reader.poll(0.1)
        assert (ending_reader.poll(0.1) or ending_reader).id == "3"
    malformed_diffs: list[MalformedDiff] = []
    assert ids(from_beginning=True, on_malformed=malformed_diffs.append) == ["1", "3"]
    assert len(malformed_diffs) == 1
    with pytest.raises(MalformedDiff):
        ids(from_beginning=True)


def test_following_continues_until_it_is_stopped(kafka: MemoryKafka) -> None:
    put(kafka, 1)
    ids: list[str] = []
    for record in read_diffs(SETTINGS, from_beginning=True, until=lambda: len(ids) == 3):
        ids.append(record.id)
        put(kafka, len(ids) + 1)
    assert ids == ["1", "2", "3"]


def test_recreated_topic_ends_only_a_reader_without_follow(kafka: MemoryKafka) -> None:
    put(kafka, 1)
    with DiffReader(SETTINGS) as following_reader, DiffReader(SETTINGS, follow=False) as ending_reader:
        kafka.delete(TOPIC)
        kafka.create(TOPIC)
        put(kafka, 2)
        assert (eventually(lambda: following_reader.poll(0.01)) or following_reader).id == "2"  # type: ignore[attr-defined] # not None
        assert (following_reader.positions, following_reader.topic_id) == ({0: 1}, "id-2")
        with pytest.raises(TopicUnreadable):
            eventually(lambda: ending_reader.poll(0.01))
