from streaming.collect.counts import is_outdated, partitions_changed
from streaming.records.events import Event, GroupObserved, ObservedMember, PartitionsChanged, TopicMetadata

SIX_PARTITIONS = TopicMetadata(partitions=6, topic_id="id-t")


def view(partition: int, at: int = 1) -> GroupObserved:
    member = ObservedMember(member_id="m", topics=["t"], assigned={"t": [partition]})
    return GroupObserved(group_id="g", timestamp=at, members=[member], generation=1)


def test_changed_partition_counts_give_an_event() -> None:
    assert partitions_changed("s", "g", 7, {"t": SIX_PARTITIONS}) == Event(
        "s", "g@7:t=id-t/6", PartitionsChanged(group_id="g", timestamp=7, topics={"t": SIX_PARTITIONS})
    )


def test_snapshot_beyond_the_reported_counts_is_outdated() -> None:
    assert is_outdated(view(0), {})
    assert not is_outdated(view(5), {"t": SIX_PARTITIONS})
    assert is_outdated(view(6), {"t": SIX_PARTITIONS})


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
    assert not is_outdated(streams, {"in": SIX_PARTITIONS})
    assert is_outdated(streams, {})
