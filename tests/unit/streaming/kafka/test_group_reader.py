"""Tests that the newest snapshot of a live group is found in whichever partition of the topic it is."""

import pytest

from streaming.kafka.group_reader import read_live_group
from streaming.kafka.topics import ensure_topics
from streaming.records.events import Event, GroupObserved, ObservedMember
from tests.support.memory_kafka import SETTINGS, MemoryKafka


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0)])
def test_newest_snapshot_in_any_partition_is_used(kafka: MemoryKafka, before: int, after: int) -> None:
    ensure_topics(SETTINGS)
    for partition, generation in ((before, 1), (before, 2), (after, 3), (after, 4)):
        members = [ObservedMember(member_id=f"m{generation}", topics=["t"], assigned={"t": [0]})]
        snapshot = GroupObserved(
            group_id="g", timestamp=generation, members=members, generation=generation, state="Stable"
        )
        kafka.publish(Event("anyone", f"g-{generation}", snapshot), partition=partition, timestamp=generation)
    assert {member.member_id for member in read_live_group(SETTINGS, "g").members} == {"m4"}
