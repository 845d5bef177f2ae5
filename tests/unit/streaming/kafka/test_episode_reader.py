import pytest

from streaming.kafka import topic_reader
from streaming.kafka.compacted_topics import EpisodeReader
from streaming.kafka.topic_reader import TopicUnreadable
from streaming.kafka.topics import ensure_topics
from streaming.records.codec import encode
from streaming.records.episodes import Episode, EpisodeRecord, MalformedEpisode, key
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import updates
from tests.support.memory_kafka import SETTINGS, MemoryKafka
from tests.support.wait import eventually

TOPIC = SETTINGS.topics.episodes


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    ensure_topics(SETTINGS, [TOPIC])
    return kafka


def put(kafka: MemoryKafka, group_id: str) -> list[Episode]:
    """Write every update of two episodes of a group, and return the last update of each."""
    episodes = list(updates(group_id, DiffBuilder(group_id=group_id).join("a").join("b").join("c", after=500).diffs))
    for episode in episodes:
        headers = [("ce_type", b"rebalance.episode")]
        kafka.append(TOPIC, encode(episode), key=key(group_id, episode.episode), headers=headers)
    return [episodes[-2], episodes[-1]]


def read_new_records(reader: EpisodeReader) -> list[EpisodeRecord]:
    records: list[EpisodeRecord] = []
    eventually(lambda: records.extend(reader.poll(0.01)) or not reader.is_behind)
    return records


def test_follower_gets_every_record_of_the_requested_group(kafka: MemoryKafka) -> None:
    put(kafka, "h")
    put(kafka, "g/1")
    kafka.append(TOPIC, None, key=key("g/1", 1))
    with EpisodeReader(SETTINGS, group="g/1") as reader:
        values = [record.value for record in read_new_records(reader)]
    keys = (key("g/1", 1), key("g/1", 2))
    assert values == [message.value() for message in kafka.records(TOPIC) if message.value() and message.key() in keys]


def test_follower_from_now_on_gets_new_records(kafka: MemoryKafka) -> None:
    put(kafka, "g")
    with EpisodeReader(SETTINGS, from_beginning=False) as reader:
        assert read_new_records(reader) == []
        _, last = put(kafka, "h")
        records: list[EpisodeRecord] = []
        eventually(lambda: records.extend(reader.poll(0.01)) or (records and records[-1].episode == last))
    assert {record.episode.group_id for record in records} == {"h"}


def test_invalid_episode_is_reported_with_its_offset(kafka: MemoryKafka) -> None:
    first, _ = put(kafka, "g")
    kafka.append(TOPIC, b"{", key=b"g/1")
    kafka.append(TOPIC, encode(first), key=b"h/1")
    kafka.append(TOPIC, b"of another kind", key=b"g/1", headers=[("ce_type", b"x")])
    _, last = put(kafka, "g")
    problems: list[MalformedEpisode] = []
    with EpisodeReader(SETTINGS, on_malformed=problems.append) as reader:
        assert read_new_records(reader)[-1].episode == last
    assert ["offset" in str(problem) for problem in problems] == [True, True]
    assert str(problems[1]).endswith("key: b'h/1' does not match the value")


def test_missing_topic_is_awaited_or_refused(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "CHECK_SECONDS", 0.0)
    kafka.delete(TOPIC)
    with pytest.raises(TopicUnreadable):
        EpisodeReader(SETTINGS, follow=False)
    with EpisodeReader(SETTINGS) as reader:
        assert not reader.is_behind
        kafka.create(TOPIC, 1)
        _, last = put(kafka, "g")
        records: list[EpisodeRecord] = []
        eventually(lambda: records.extend(reader.poll(0.01)) or (records and not reader.is_behind))
    assert records[-1].episode == last


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0)])
def test_older_record_in_another_partition_changes_nothing(kafka: MemoryKafka, before: int, after: int) -> None:
    older, newer = list(updates("g", DiffBuilder(group_id="g").join("a").join("b").diffs))[:2]
    assert older.episode == newer.episode
    for partition, episode, written in ((before, older, 10), (after, newer, 20)):
        kafka.append(*(TOPIC, encode(episode)), key=key("g", episode.episode), partition=partition, timestamp=written)
    with EpisodeReader(SETTINGS) as reader:
        assert read_new_records(reader)[-1].episode == newer
