from __future__ import annotations

import pytest

from streaming.collect.counts import partitions_changed, read_published, update_counts
from streaming.records import codec
from streaming.records.events import Event, GroupDeleted, GroupObserved, TopicMetadata
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SIX, EIGHT = TopicMetadata(partitions=6, topic_id="i"), TopicMetadata(partitions=8, topic_id="i")


def counts_by_group(*events: Event) -> dict[str, dict[str, TopicMetadata]]:
    found: dict[str, dict[str, TopicMetadata]] = {}
    for event in events:
        key, value, headers = codec.encode_event(event)
        update_counts(found, key, value, headers, "here")
    return found


def counts(group: str, source: str = "here", **topics: TopicMetadata) -> Event:
    return partitions_changed(source, group, 1, topics)


def deleted(group: str) -> Event:
    return Event("elsewhere", "d", GroupDeleted(group_id=group, timestamp=2))


def test_the_last_count_of_each_topic_of_each_group() -> None:
    assert counts_by_group(counts("a", t=SIX, u=SIX), counts("b", t=SIX), counts("a", t=EIGHT)) == {
        "a": {"t": EIGHT, "u": SIX},
        "b": {"t": SIX},
    }


def test_deleted_group_has_no_published_counts() -> None:
    assert counts_by_group(counts("a", t=SIX), counts("b", t=SIX), deleted("a")) == {"b": {"t": SIX}}
    assert counts_by_group(counts("a", t=SIX), deleted("a"), counts("a", u=EIGHT)) == {"a": {"u": EIGHT}}


def test_counts_of_another_cluster_are_passed_over() -> None:
    view = Event("here", "o", GroupObserved(group_id="a", timestamp=1, members=[], generation=1))
    assert counts_by_group(counts("a", "elsewhere", t=SIX), view) == {}


def test_undecodable_records_are_left_to_the_stream() -> None:
    key, _, headers = codec.encode_event(counts("a", t=SIX))
    found: dict[str, dict[str, TopicMetadata]] = {}
    update_counts(found, key, b"{", headers, "here")
    update_counts(found, None, b"{}", headers, "here")
    update_counts(found, key, b"{}", None, "here")
    assert found == {}


def test_a_restarted_collector_reads_the_topic_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    settings = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
    kafka.create(settings.topics.membership, 2)
    for number, event in enumerate(
        (counts("a", t=SIX, u=SIX), counts("b", t=SIX), deleted("a"), counts("a", t=EIGHT))
    ):
        key, value, headers = codec.encode_event(event)
        kafka.append(settings.topics.membership, value, key=key, partition=number == 1, headers=headers)
        kafka.mark(settings.topics.membership, 0)
    assert read_published(settings, "here").counts == {"a": {"t": EIGHT}, "b": {"t": SIX}}
    assert read_published(settings, "elsewhere").counts == {}
