import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.collect.cluster import ClusterTopics
from streaming.collect.cluster_view import ClusterView
from streaming.collect.coordinator.records import RawRecord
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.counts import CountsPublisher, PublishedState, is_outdated, partitions_changed, read_published
from streaming.collect.fold import CollectedEvent, RejectedRecord
from streaming.records import codec
from streaming.records.events import (
    ClusterObserved,
    Event,
    GroupDeleted,
    GroupObserved,
    GroupRebalancing,
    ObservedMember,
    PartitionsChanged,
    TopicMetadata,
)
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import SETTINGS, Log, MemoryKafka, Message

RAW_RECORD = RawRecord(0, 0, 0, None, None)
SIX_PARTITIONS = TopicMetadata(partitions=6, topic_id="id-t")


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create("t", 2)
    return kafka


def make_publisher(interval_s: float = 60.0, **published: dict[str, TopicMetadata]) -> CountsPublisher:
    topics = ClusterTopics(KafkaSettings(bootstrap_servers="memory:1"), threading.Event())
    return CountsPublisher(topics, "counts", published, ClusterView("cluster"), interval_s)


def view(*, subscribed: bool = True, **fields: Any) -> Event:
    member = ObservedMember(member_id="m", topics=["t"] if subscribed else [], assigned={"t": [0]})
    return Event("s", "i", GroupObserved(group_id="g", timestamp=1, members=[member], generation=1, **fields))


def counts(item: object) -> dict[str, int] | None:
    if not isinstance(item, Event) or not isinstance(item.data, PartitionsChanged):
        return None
    return {name: topic.partitions for name, topic in item.data.topics.items()}


def snapshots(subscriptions: Mapping[str, Collection[str]]) -> dict[str, GroupObserved]:
    """Return a snapshot per group, with one member that subscribes to the given topics."""
    return {
        group: GroupObserved(
            group_id=group,
            timestamp=1,
            members=[ObservedMember(member_id="m", topics=sorted(topics), assigned={})] if topics else [],
        )
        for group, topics in subscriptions.items()
    }


def published_counts(
    publisher: CountsPublisher,
    *items: Any,
    subscriptions: Mapping[str, Collection[str]] | None = None,
    away: bool = False,
) -> list[Any]:
    """Return published partition counts and group events, in order, without cluster events."""
    groups = None if subscriptions is None else snapshots(subscriptions)
    outcomes = publisher.add_counts(items, None if groups is None else lambda: groups, away=away)
    return [
        outcome if (count := counts(outcome)) is None else count
        for outcome in outcomes
        if not (isinstance(outcome, Event) and isinstance(outcome.data, ClusterObserved))
    ]


def cluster_changes(publisher: CountsPublisher, *, away: bool = False) -> list[tuple[str, str, list[str]]]:
    """Return kind, subject and groups of each published change of the cluster."""
    events = publisher.add_counts((), lambda: snapshots({"g": ["t"]}), away=away)
    return [
        (change.kind, change.subject, change.groups)
        for event in events
        if isinstance(event, Event) and isinstance(event.data, ClusterObserved)
        for change in event.data.changes
    ]


def test_counts_are_published_once_before_their_snapshot(kafka: MemoryKafka) -> None:
    publisher, event, rejected_record = make_publisher(), view(), RejectedRecord(RAW_RECORD, MalformedRecord("x"))
    assert published_counts(publisher, rejected_record, event, event) == [rejected_record, {"t": 2}, event, event]
    assert published_counts(publisher, CollectedEvent(RAW_RECORD, event)) == [CollectedEvent(RAW_RECORD, event)]
    assert kafka.requests.count("list_topics") == 1


def test_only_missing_partition_counts_are_requested(kafka: MemoryKafka) -> None:
    deleted = Event("s", "d", GroupDeleted(group_id="g", timestamp=2))
    publisher = make_publisher(g={"t": TopicMetadata(partitions=2, topic_id="an earlier topic")})
    assert published_counts(publisher, view(), deleted) == [view(), deleted]
    assert kafka.requests == []
    assert published_counts(publisher, deleted, view(), view()) == [deleted, {"t": 2}, view(), view()]
    again = make_publisher(g={"t": TopicMetadata(partitions=2, topic_id="an earlier topic")})
    assert published_counts(again, subscriptions={"g": ["t"]}) == [{"t": 2}]


def test_partition_counts_cover_topics_of_the_assignment(kafka: MemoryKafka) -> None:
    event = view(subscribed=False)
    assert published_counts(make_publisher(), event) == [{"t": 2}, event]
    connector = view(subscribed=False, kind="connect")  # the connector has the name of a topic
    assert published_counts(make_publisher(), connector) == [connector]


def test_all_groups_get_partition_counts_when_due(kafka: MemoryKafka) -> None:
    publisher, groups = make_publisher(interval_s=0.0), {"g": ["t"], "empty": []}
    assert published_counts(publisher, subscriptions=groups) == [{"t": 2}]
    assert published_counts(publisher, subscriptions=groups) == []
    kafka.topics["t"].logs.append(Log())
    assert published_counts(publisher, subscriptions=groups) == [{"t": 3}]
    # A group that had no subscriptions for a while gets all partition counts again.
    assert published_counts(publisher, subscriptions={"g": []}) == []
    assert published_counts(publisher, subscriptions=groups) == [{"t": 3}]


def test_counts_are_not_published_before_they_are_due(kafka: MemoryKafka) -> None:
    publisher = make_publisher()
    assert published_counts(publisher, subscriptions={"g": ["t"]}) == [{"t": 2}]
    assert published_counts(publisher, subscriptions={"h": ["t"]}) == []


def test_unresponsive_cluster_delays_no_event(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    publisher, event = make_publisher(), view()
    assert published_counts(publisher, event, away=True) == [event]
    assert kafka.requests == []
    kafka.fail("list_topics", KafkaError(KafkaError._TRANSPORT, "broker is away"))
    assert published_counts(publisher, event) == [event]
    assert "topic metadata: broker is away" in caplog.messages
    assert published_counts(publisher, event) == [{"t": 2}, event]


def test_partition_counts_have_the_time_of_publishing(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.5)
    groups = snapshots({"g": ["t"], "h": ["t"]})
    events = make_publisher().add_counts((), lambda: groups, away=False)
    assert [event.data.timestamp for event in events if isinstance(event, Event)] == [1_700_000_000_500] * 2


def test_deleted_topic_has_no_partitions_before_its_snapshot(kafka: MemoryKafka) -> None:
    """A KIP-848 member that subscribes by a pattern still lists a deleted topic for a while."""
    publisher, event = make_publisher(), view()
    assert published_counts(publisher, event) == [{"t": 2}, event]
    kafka.delete("t")
    member = ObservedMember(member_id="m", topics=["t"], assigned={}, target={})
    event_without_topics = Event("s", "j", GroupObserved(group_id="g", timestamp=2, members=[member], group_epoch=2))
    assert published_counts(publisher, event_without_topics) == [{"t": 0}, event_without_topics]
    assert published_counts(publisher, event_without_topics) == [event_without_topics]
    kafka.create("t", 3)
    assert published_counts(publisher, event) == [{"t": 3}, event]


def test_a_deleted_topic_is_noticed_without_a_view(kafka: MemoryKafka) -> None:
    publisher, groups = make_publisher(interval_s=0.0), {"g": ["t", "never-there"]}
    assert published_counts(publisher, subscriptions=groups) == [{"t": 2}]
    kafka.delete("t")
    assert published_counts(publisher, subscriptions=groups) == [{"t": 0}]
    assert published_counts(publisher, subscriptions=groups) == []
    kafka.create("t", 4)
    assert published_counts(publisher, subscriptions=groups) == [{"t": 4}]


def test_changes_of_the_cluster_are_published_once(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    publisher = make_publisher(interval_s=0.0)
    kafka.brokers[2] = {}
    assert cluster_changes(publisher) == []
    del kafka.brokers[2]
    assert cluster_changes(publisher) == [("broker-restart", "broker 2", [])]
    assert cluster_changes(publisher) == []
    kafka.delete("t")
    assert cluster_changes(publisher) == [("topic-deleted", "t", ["g"])]
    assert cluster_changes(publisher, away=True) == []
    now += 30
    assert cluster_changes(publisher) == [("broker-restart", "all brokers", ["g"])]


def test_changed_partition_counts_give_an_event() -> None:
    assert partitions_changed("s", "g", 7, {"t": SIX_PARTITIONS}) == Event(
        "s", "g@7:t=id-t/6", PartitionsChanged(group_id="g", timestamp=7, topics={"t": SIX_PARTITIONS})
    )


def test_snapshot_beyond_the_reported_counts_is_outdated() -> None:
    def observed(partition: int) -> GroupObserved:
        member = ObservedMember(member_id="m", topics=["t"], assigned={"t": [partition]})
        return GroupObserved(group_id="g", timestamp=1, members=[member], generation=1)

    assert is_outdated(observed(0), {})
    assert not is_outdated(observed(5), {"t": SIX_PARTITIONS})
    assert is_outdated(observed(6), {"t": SIX_PARTITIONS})


def test_tasks_need_no_partition_counts() -> None:
    worker = ObservedMember(member_id="w", topics=[], assigned={"snk": [-1, 0]})
    instance = ObservedMember(member_id="m", topics=["in"], assigned={"0": [7]})
    streams = GroupObserved(group_id="g", timestamp=1, members=[instance], group_epoch=1, group_protocol="streams")
    assert not is_outdated(GroupObserved(group_id="g", timestamp=1, members=[worker], kind="connect"), {})
    assert not is_outdated(streams, {"in": SIX_PARTITIONS})
    assert is_outdated(streams, {})


EIGHT_PARTITIONS = TopicMetadata(partitions=8, topic_id="id-t")


def published(*events: Event) -> PublishedState:
    state = PublishedState("here")
    for event in events:
        key, value, headers = codec.encode_event(event)
        state.take(Message("t", 0, 0, key=key, value=value, headers=headers))
    return state


def counts_event(group: str, **topics: TopicMetadata) -> Event:
    return partitions_changed("here", group, 1, topics)


def deleted(group: str) -> Event:
    return Event("elsewhere", "d", GroupDeleted(group_id=group, timestamp=2))


def test_newest_partition_count_of_each_topic_is_kept_per_group() -> None:
    a, b = counts_event("a", t=SIX_PARTITIONS, u=SIX_PARTITIONS), counts_event("b", t=SIX_PARTITIONS)
    assert published(a, b, counts_event("a", t=EIGHT_PARTITIONS)).counts == {
        "a": {"t": EIGHT_PARTITIONS, "u": SIX_PARTITIONS},
        "b": {"t": SIX_PARTITIONS},
    }


def test_deleted_group_has_no_published_counts() -> None:
    a, b = counts_event("a", t=SIX_PARTITIONS), counts_event("b", t=SIX_PARTITIONS)
    assert published(a, b, deleted("a")).counts == {"b": {"t": SIX_PARTITIONS}}
    assert published(a, deleted("a"), counts_event("a", u=EIGHT_PARTITIONS)).counts == {"a": {"u": EIGHT_PARTITIONS}}


def test_undecodable_partition_counts_are_skipped() -> None:
    key, _, headers = codec.encode_event(counts_event("a", t=SIX_PARTITIONS))
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
    kafka.publish(counts_event("b", t=SIX_PARTITIONS), partition=1)
    for event in (
        counts_event("a", t=SIX_PARTITIONS, u=SIX_PARTITIONS),
        deleted("a"),
        counts_event("a", t=EIGHT_PARTITIONS),
    ):
        kafka.publish(event)
        kafka.mark(SETTINGS.topics.membership, 0)
    assert read_published(SETTINGS, "here").counts == {"a": {"t": EIGHT_PARTITIONS}, "b": {"t": SIX_PARTITIONS}}
    assert read_published(SETTINGS, "elsewhere").counts == {}
