"""Episodes as they stand in their topic now, of a cluster in memory."""

from __future__ import annotations

import pytest

from streaming.episodes.reading import updates
from streaming.kafka.episodes import read_episodes
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from streaming.wire.codec import encode
from streaming.wire.episodes import Episode, MalformedEpisode, key
from tests.support.memory_kafka import MemoryKafka
from tests.support.told import Teller

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
TOPIC = SETTINGS.topics.episodes


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    made = MemoryKafka(monkeypatch)
    ensure_topics(SETTINGS, [TOPIC])
    return made


def put(kafka: MemoryKafka, group_id: str) -> list[Episode]:
    """Every update of two episodes of a group; the last of each."""
    told = list(updates(group_id, Teller(group_id=group_id).join("a").join("b").join("c", after=500).told))
    for one in told:
        headers = [("ce_type", b"rebalance.episode")]
        kafka.append(TOPIC, encode(one), key=key(group_id, one.episode), headers=headers)
    return [told[-2], told[-1]]


def test_the_last_record_of_each_episode_is_read(kafka: MemoryKafka) -> None:
    second, first = put(kafka, "h"), put(kafka, "g")
    assert list(read_episodes(SETTINGS)) == [*first, *second]


def test_of_one_group_only_its_own_are(kafka: MemoryKafka) -> None:
    wanted = put(kafka, "g")
    put(kafka, "g/1")
    put(kafka, "gg")
    assert list(read_episodes(SETTINGS, "g")) == wanted


def test_a_tombstone_takes_an_episode_away(kafka: MemoryKafka) -> None:
    _, left = put(kafka, "g")
    kafka.append(TOPIC, None, key=key("g", 1))
    kafka.append(TOPIC, None, key=key("g", 9))
    assert list(read_episodes(SETTINGS)) == [left]


@pytest.mark.parametrize(("name", "value"), [(b"g/1", b"{"), (b"g", b"{}")])
def test_what_is_no_episode_is_told_or_refused(kafka: MemoryKafka, name: bytes, value: bytes) -> None:
    kafka.append(TOPIC, value, key=name)
    wanted = put(kafka, "h")
    with pytest.raises(MalformedEpisode):
        list(read_episodes(SETTINGS))
    problems: list[MalformedEpisode] = []
    assert list(read_episodes(SETTINGS, on_malformed=problems.append)) == wanted
    assert len(problems) == 1


def test_what_has_no_key_or_is_of_another_type_is_passed_over(kafka: MemoryKafka) -> None:
    kafka.append(TOPIC, b"{}", key=b"g/1", headers=[("ce_type", b"other")])
    kafka.append(TOPIC, b"{}", key=None)
    assert list(read_episodes(SETTINGS)) == []
