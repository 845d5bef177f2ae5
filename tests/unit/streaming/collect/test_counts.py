from __future__ import annotations

from streaming.collect.counts import PartitionCounts, is_outdated, partitions_changed
from streaming.records.events import (
    Event,
    GroupDeleted,
    GroupObserved,
    ObservedMember,
    PartitionsChanged,
    TopicMetadata,
)

SIX = TopicMetadata(partitions=6, topic_id="id-t")
EIGHT = TopicMetadata(partitions=8, topic_id="id-t")


def counts_of(events: list[Event]) -> dict[str, TopicMetadata] | None:
    for event in events:
        assert len(events) == 1
        assert isinstance(event.data, PartitionsChanged)
        return event.data.topics
    return None


def view(partition: int, at: int = 1) -> GroupObserved:
    member = ObservedMember(member_id="m", topics=["t"], assigned={"t": [partition]})
    return GroupObserved(group_id="g", timestamp=at, members=[member], generation=1)


def observed(partition: int, at: int = 1) -> Event:
    return Event("s", f"o{at}", view(partition, at))


def deleted(at: int = 2) -> Event:
    return Event("s", f"d{at}", GroupDeleted(group_id="g", timestamp=at))


def test_each_group_gets_missing_counts_once() -> None:
    groups = PartitionCounts("s", {"told": {"t": EIGHT}, "stale": {"t": SIX}})
    current = {"t": EIGHT, "unrelated": SIX}

    def publish_counts(group_id: str, *topics: str) -> dict[str, TopicMetadata] | None:
        return counts_of(groups.publish(group_id, topics, current, 7))

    assert publish_counts("new", "t", "missing") == {"t": EIGHT}
    assert publish_counts("told", "t") is None
    assert publish_counts("stale", "t") == {"t": EIGHT}
    assert publish_counts("new", "t") is None


def test_recreated_topic_has_another_id() -> None:
    again = TopicMetadata(partitions=6, topic_id="id-2")

    assert counts_of(PartitionCounts("s", {"g": {"t": SIX}}).publish("g", ["t"], {"t": again}, 7)) == {"t": again}


def test_partition_count_event() -> None:
    assert partitions_changed("s", "g", 7, {"t": SIX}) == Event(
        "s", "g@7:t=id-t/6", PartitionsChanged(group_id="g", timestamp=7, topics={"t": SIX})
    )


def test_snapshot_with_more_than_was_reported() -> None:
    assert is_outdated(view(0), {})
    assert not is_outdated(view(5), {"t": SIX})
    assert is_outdated(view(6), {"t": SIX})


def test_only_missing_partition_counts_are_requested() -> None:
    groups = PartitionCounts("s", {"g": {"t": SIX}})

    assert not groups.lack([observed(5)])
    assert groups.lack([observed(6)])
    assert not groups.lack([deleted()])
    assert groups.lack([deleted(), observed(5, at=3)])


def test_recreated_group_is_published_again() -> None:
    groups, current = PartitionCounts("s", {"g": {"t": SIX}}), {"t": SIX}
    batch = [observed(5), deleted(), observed(0, at=3), observed(1, at=4)]

    assert [counts_of(groups.before(event, current)) for event in batch] == [None, None, {"t": SIX}, None]


def test_group_that_was_empty_gets_partition_counts_again() -> None:
    groups, current = PartitionCounts("s", {"g": {"t": SIX}, "h": {"t": SIX}}), {"t": SIX}
    groups.keep({"h", "new"})
    assert groups.lack([observed(0)])
    assert counts_of(groups.before(observed(0), current)) == {"t": SIX}
    assert groups.publish("h", ["t"], current, 7) == []


def test_tasks_need_no_partition_counts() -> None:
    worker = ObservedMember(member_id="w", topics=[], assigned={"snk": [-1, 0]})
    connect = GroupObserved(group_id="g", timestamp=1, members=[worker], generation=1, kind="connect")
    streams = GroupObserved(
        group_id="g",
        timestamp=1,
        members=[ObservedMember(member_id="m", topics=["in"], assigned={"0": [7]})],
        group_epoch=1,
        group_protocol="streams",
        kind="streams",
    )

    assert not is_outdated(connect, {})
    assert not is_outdated(streams, {"in": SIX})
    assert is_outdated(streams, {})
