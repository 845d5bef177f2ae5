"""When a client counts as stalled, from its positions, the ends and the time."""

from __future__ import annotations

import pytest

from streaming.kafka import metadata as stall
from streaming.kafka.metadata import STALL_SECONDS, Place, Stall
from streaming.settings.connection import KafkaSettings

A, B = ("t", 0), ("t", 1)
Bounds = dict[Place, tuple[int, int]]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Bounds:
    """What the cluster tells of its partitions."""
    found: Bounds = {A: (0, 5), B: (0, 5)}
    monkeypatch.setattr(stall, "bounds", lambda _, places, **__: {place: found[place] for place in places})
    return found


def looks(*positions: dict[Place, int]) -> list[Bounds]:
    """What each look finds, one as soon as it is due after the other."""
    watched = Stall(KafkaSettings())
    return [watched.look(one, number * STALL_SECONDS) for number, one in enumerate(positions)]


def test_who_has_read_all_is_not_stalled(ends: Bounds) -> None:
    assert looks({A: 5, B: 5}, {A: 5, B: 5}) == [{}, {}]


def test_who_reads_nothing_although_there_is_more_is(ends: Bounds) -> None:
    assert looks({A: 5, B: 4}, {A: 5, B: 4}) == [{}, {B: (0, 5)}]


def test_who_reads_another_partition_is_not(ends: Bounds) -> None:
    assert looks({A: 3, B: 4}, {A: 4, B: 4}, {A: 5, B: 4}) == [{}, {}, {}]


def test_a_partition_that_ends_before_its_place_was_cut_whoever_reads_the_others(ends: Bounds) -> None:
    ends[B] = (0, 2)
    assert looks({A: 3, B: 4}, {A: 4, B: 4}) == [{}, {B: (0, 2)}]


def test_a_look_too_soon_finds_nothing(ends: Bounds) -> None:
    watched = Stall(KafkaSettings())
    assert watched.look({A: 4, B: 5}, 0.0) == {}
    assert watched.look({A: 4, B: 5}, STALL_SECONDS - 0.1) == {}
    assert watched.look({A: 4, B: 5}, STALL_SECONDS) == {A: (0, 5)}
