from typing import Any

import pytest

from streaming.collect.counts import PublishedState, partitions_changed, read_published
from streaming.records import codec
from streaming.records.events import Event, GroupDeleted, GroupObserved, GroupRebalancing, TopicMetadata
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SIX_PARTITIONS, EIGHT_PARTITIONS = TopicMetadata(partitions=6, topic_id="i"), TopicMetadata(partitions=8, topic_id="i")


class Record:
    """A record as the Kafka client returns it."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]] | None) -> None:
        self.key, self.value, self.headers = (lambda: key), (lambda: value), (lambda: headers)
        self.partition, self.timestamp = (lambda: 0), (lambda: (1, 1))


def published(*events: Event) -> PublishedState:
    state = PublishedState("here")
    for event in events:
        state.take(Record(*codec.encode_event(event)))
    return state


def received(*events: Event) -> dict[str, dict[str, TopicMetadata]]:
    return published(*events).counts


def counts(group: str, source: str = "here", **topics: TopicMetadata) -> Event:
    return partitions_changed(source, group, 1, topics)


def deleted(group: str) -> Event:
    return Event("elsewhere", "d", GroupDeleted(group_id=group, timestamp=2))


def test_newest_partition_count_of_each_topic_is_kept_per_group() -> None:
    assert received(
        counts("a", t=SIX_PARTITIONS, u=SIX_PARTITIONS), counts("b", t=SIX_PARTITIONS), counts("a", t=EIGHT_PARTITIONS)
    ) == {"a": {"t": EIGHT_PARTITIONS, "u": SIX_PARTITIONS}, "b": {"t": SIX_PARTITIONS}}


def test_deleted_group_has_no_published_counts() -> None:
    assert received(counts("a", t=SIX_PARTITIONS), counts("b", t=SIX_PARTITIONS), deleted("a")) == {
        "b": {"t": SIX_PARTITIONS}
    }
    assert received(counts("a", t=SIX_PARTITIONS), deleted("a"), counts("a", u=EIGHT_PARTITIONS)) == {
        "a": {"u": EIGHT_PARTITIONS}
    }


def test_counts_of_another_cluster_are_skipped() -> None:
    view = Event("here", "o", GroupObserved(group_id="a", timestamp=1, members=[], generation=1))
    assert received(counts("a", "elsewhere", t=SIX_PARTITIONS), view) == {}


def test_undecodable_partition_counts_are_skipped() -> None:
    key, _, headers = codec.encode_event(counts("a", t=SIX_PARTITIONS))
    state = PublishedState("here")
    for record in (Record(key, b"{", headers), Record(None, b"{}", headers), Record(key, b"{}", None)):
        state.take(record)
    assert state.counts == {}


def rebalancing(group: str, **fields: Any) -> Event:
    data = GroupRebalancing(group_id=group, timestamp=3, since=2, **fields)
    return Event("here", f"{group}-{len(fields)}", data)


def test_rebalances_without_an_end_are_kept() -> None:
    begins = [rebalancing(group) for group in "abcd"]
    view = Event("here", "o", GroupObserved(group_id="a", timestamp=4, members=[], generation=1))
    left = published(*begins, view, deleted("b"), rebalancing("c", ended=True)).rebalances
    assert left == {"d": begins[-1].data}


def test_a_restarted_collector_reads_the_topic_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    settings = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
    kafka.create(settings.topics.membership, 2)
    for number, event in enumerate(
        (
            counts("a", t=SIX_PARTITIONS, u=SIX_PARTITIONS),
            counts("b", t=SIX_PARTITIONS),
            deleted("a"),
            counts("a", t=EIGHT_PARTITIONS),
        )
    ):
        key, value, headers = codec.encode_event(event)
        kafka.append(settings.topics.membership, value, key=key, partition=number == 1, headers=headers)
        kafka.mark(settings.topics.membership, 0)
    assert read_published(settings, "here").counts == {"a": {"t": EIGHT_PARTITIONS}, "b": {"t": SIX_PARTITIONS}}
    assert read_published(settings, "elsewhere").counts == {}
