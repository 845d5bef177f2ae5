from typing import Any

from streaming.collect.counts import PublishedState, partitions_changed, read_published
from streaming.records import codec
from streaming.records.events import Event, GroupDeleted, GroupObserved, GroupRebalancing, TopicMetadata
from tests.support.memory_kafka import SETTINGS, MemoryKafka, Message

SIX_PARTITIONS, EIGHT_PARTITIONS = TopicMetadata(partitions=6, topic_id="i"), TopicMetadata(partitions=8, topic_id="i")


def published(*events: Event) -> PublishedState:
    state = PublishedState("here")
    for event in events:
        key, value, headers = codec.encode_event(event)
        state.take(Message("t", 0, 0, key=key, value=value, headers=headers))
    return state


def counts(group: str, source: str = "here", **topics: TopicMetadata) -> Event:
    return partitions_changed(source, group, 1, topics)


def deleted(group: str) -> Event:
    return Event("elsewhere", "d", GroupDeleted(group_id=group, timestamp=2))


def test_newest_partition_count_of_each_topic_is_kept_per_group() -> None:
    a, b = counts("a", t=SIX_PARTITIONS, u=SIX_PARTITIONS), counts("b", t=SIX_PARTITIONS)
    assert published(a, b, counts("a", t=EIGHT_PARTITIONS)).counts == {
        "a": {"t": EIGHT_PARTITIONS, "u": SIX_PARTITIONS},
        "b": {"t": SIX_PARTITIONS},
    }


def test_deleted_group_has_no_published_counts() -> None:
    a, b = counts("a", t=SIX_PARTITIONS), counts("b", t=SIX_PARTITIONS)
    assert published(a, b, deleted("a")).counts == {"b": {"t": SIX_PARTITIONS}}
    assert published(a, deleted("a"), counts("a", u=EIGHT_PARTITIONS)).counts == {"a": {"u": EIGHT_PARTITIONS}}


def test_undecodable_partition_counts_are_skipped() -> None:
    key, _, headers = codec.encode_event(counts("a", t=SIX_PARTITIONS))
    state = PublishedState("here")
    for name, value, attributes in ((key, b"{", headers), (None, b"{}", headers), (key, b"{}", None)):
        state.take(Message("t", 0, 0, key=name, value=value, headers=attributes))
    assert state.counts == {}


def rebalancing(group: str, **fields: Any) -> Event:
    data = GroupRebalancing(group_id=group, timestamp=3, since=2, **fields)
    return Event("here", f"{group}-{len(fields)}", data)


def test_rebalances_without_an_end_are_kept() -> None:
    begins = [rebalancing(group) for group in "abcd"]
    view = Event("here", "o", GroupObserved(group_id="a", timestamp=4, members=[], generation=1))
    left = published(*begins, view, deleted("b"), rebalancing("c", ended=True)).rebalances
    assert left == {"d": begins[-1].data}


def test_a_restarted_collector_reads_the_topic_to_its_end(kafka: MemoryKafka) -> None:
    kafka.create(SETTINGS.topics.membership, 2)
    kafka.publish(counts("b", t=SIX_PARTITIONS), partition=1)
    for event in (counts("a", t=SIX_PARTITIONS, u=SIX_PARTITIONS), deleted("a"), counts("a", t=EIGHT_PARTITIONS)):
        kafka.publish(event)
        kafka.mark(SETTINGS.topics.membership, 0)
    assert read_published(SETTINGS, "here").counts == {"a": {"t": EIGHT_PARTITIONS}, "b": {"t": SIX_PARTITIONS}}
    assert read_published(SETTINGS, "elsewhere").counts == {}
