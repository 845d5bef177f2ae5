from __future__ import annotations

from streaming.collect.coordinator.classic import ClassicGroup, Generation
from streaming.collect.coordinator.consumer import ConsumerGroup
from streaming.collect.coordinator.groups import CoordinatedGroup
from streaming.collect.coordinator.modern import GroupPart

GENERATION = Generation("consumer", 3, "range", None, ())


def after(*records: ClassicGroup | GroupPart) -> CoordinatedGroup:
    group = CoordinatedGroup()
    for record in records:
        group.apply(record)
    return group


def test_a_group_migrates_to_the_consumer_protocol() -> None:
    epoch = GroupPart("g", "consumer", "epoch", 4)
    both = after(ClassicGroup("g", GENERATION), epoch)
    assert both == CoordinatedGroup(GENERATION, ConsumerGroup(epoch=4))
    both.apply(ClassicGroup("g", None))
    assert both == CoordinatedGroup(modern=ConsumerGroup(epoch=4))
    both.apply(GroupPart("g", "consumer", "epoch", None))
    assert both.is_gone


def test_a_tombstone_of_another_kind_changes_nothing() -> None:
    group = after(GroupPart("g", "share", "epoch", 4), GroupPart("g", "consumer", "epoch", None))
    assert group.modern is not None
    assert group.modern.epoch == 4


def test_a_snapshot_of_each_kind_and_of_none() -> None:
    def number(group: CoordinatedGroup) -> tuple[int | None, int | None] | None:
        snapshot = group.snapshot("g", 1, str)
        return None if snapshot is None else (snapshot.generation, snapshot.group_epoch)

    assert number(CoordinatedGroup(classic=GENERATION)) == (3, None)
    assert number(CoordinatedGroup(modern=ConsumerGroup(epoch=4))) == (None, 4)
    assert number(CoordinatedGroup(modern=ConsumerGroup())) is None
    assert number(CoordinatedGroup()) is None
