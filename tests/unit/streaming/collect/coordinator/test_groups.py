from __future__ import annotations

from streaming.collect.coordinator.classic import ClassicGroup, Generation
from streaming.collect.coordinator.consumer import ConsumerGroup, ConsumerGroupPart
from streaming.collect.coordinator.groups import GONE, CoordinatedGroup, apply, view

GENERATION = Generation("consumer", 3, "range", None, ())


def test_a_group_that_migrates_to_the_consumer_protocol_and_back() -> None:
    classic = apply(GONE, ClassicGroup("g", GENERATION))
    assert classic == CoordinatedGroup(classic=GENERATION)
    assert apply(classic, ClassicGroup("g", None)) == GONE

    consumer = apply(GONE, ConsumerGroupPart("g", "epoch", 4))
    assert consumer == CoordinatedGroup(consumer=ConsumerGroup(epoch=4))
    assert apply(consumer, ConsumerGroupPart("g", "epoch", None)) == GONE


def test_the_view_of_each_kind_and_of_none() -> None:
    def number(group: CoordinatedGroup) -> tuple[int | None, int | None] | None:
        seen = view("g", group, 1, str)
        return None if seen is None else (seen.generation, seen.group_epoch)

    assert number(CoordinatedGroup(classic=GENERATION)) == (3, None)
    assert number(CoordinatedGroup(consumer=ConsumerGroup(epoch=4))) == (None, 4)
    assert number(CoordinatedGroup(consumer=ConsumerGroup())) is None
    assert number(GONE) is None
