"""The last episodes of each group, over a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streaming.kafka import recent, topic_reader
from streaming.kafka.recent import GroupEpisodes, RecentEpisodes
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from streaming.wire.episodes import key
from tests.support.compacted import EPISODES, checkout, records, told
from tests.support.memory_kafka import MemoryKafka
from tests.support.wait import eventually

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
GROUP = "team/checkout"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    monkeypatch.setattr(recent, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(recent, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(topic_reader, "LOOK_SECONDS", 0.0)
    return MemoryKafka(monkeypatch)


@pytest.fixture
def followed() -> Iterator[RecentEpisodes]:
    """Not yet begun where a test makes its topic first."""
    made = RecentEpisodes(SETTINGS)
    yield made
    if made._thread.ident is not None:
        made.__exit__()


def put(kafka: MemoryKafka) -> None:
    """Every update of two episodes of a group."""
    for topic, name, value in records(checkout()):
        if topic == EPISODES:
            kafka.append(topic, value, key=name)


def values(found: GroupEpisodes) -> list[bytes]:
    return [one.value for one in found.told]


NEWEST_FIRST = [one.value for one in reversed(told(checkout()))]


def test_the_newest_records_are_known_and_what_is_gone_is_not(
    kafka: MemoryKafka, followed: RecentEpisodes
) -> None:
    kafka.create(EPISODES, 1)
    put(kafka)
    followed.__enter__()
    eventually(lambda: followed.of(GROUP).caught_up)
    assert values(followed.of(GROUP)) == NEWEST_FIRST
    assert followed.of("team") == GroupEpisodes(caught_up=True)
    kafka.append(EPISODES, None, key=key(GROUP, 2))
    eventually(lambda: values(followed.of(GROUP)) == NEWEST_FIRST[1:])
    kafka.append(EPISODES, None, key=key(GROUP, 1))
    eventually(lambda: followed.of(GROUP).told == ())


def test_of_many_the_newest_are_kept(
    kafka: MemoryKafka, followed: RecentEpisodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "MOST_EPISODES", 1)
    kafka.create(EPISODES, 1)
    put(kafka)
    followed.__enter__()
    eventually(lambda: followed.of(GROUP).caught_up)
    assert values(followed.of(GROUP)) == NEWEST_FIRST[:1]


def test_without_the_topic_nothing_is_known_until_it_is_there(
    kafka: MemoryKafka, followed: RecentEpisodes, caplog: pytest.LogCaptureFixture
) -> None:
    followed.__enter__()
    eventually(lambda: "does not exist yet" in caplog.text)
    assert followed.of(GROUP) == GroupEpisodes(caught_up=False)
    kafka.create(EPISODES, 1)
    put(kafka)
    eventually(lambda: followed.of(GROUP).caught_up and len(followed.of(GROUP).told) == 2)
    assert values(followed.of(GROUP)) == NEWEST_FIRST


def test_without_the_right_it_is_said_once_and_tried_again(
    kafka: MemoryKafka, followed: RecentEpisodes, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create(EPISODES, 1)
    put(kafka)
    kafka.deny(EPISODES, "DESCRIBE", "READ")
    followed.__enter__()
    eventually(lambda: "may not read topic rebalance.episodes" in caplog.text)
    assert followed.of(GROUP) == GroupEpisodes(caught_up=False)
    kafka.denied.clear()
    eventually(lambda: followed.of(GROUP).caught_up)
    assert caplog.text.count("episodes are not read") == 1
    assert values(followed.of(GROUP)) == NEWEST_FIRST


def test_what_is_no_episode_or_no_text_is_skipped_and_told_once(
    kafka: MemoryKafka, followed: RecentEpisodes, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create(EPISODES, 1)
    kafka.append(EPISODES, b"{", key=key(GROUP, 7))
    kafka.append(EPISODES, NEWEST_FIRST[0][:-1] + b',"x":"\xff"}', key=key(GROUP, 2))
    put(kafka)
    followed.__enter__()
    eventually(lambda: followed.of(GROUP).caught_up)
    assert values(followed.of(GROUP)) == NEWEST_FIRST
    assert caplog.text.count("not usable, skipped") == 1
