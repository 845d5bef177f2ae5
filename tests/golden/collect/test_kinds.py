"""Records of groups other than consumer groups from a real broker: all are read, and the rounds are as expected."""

import json

import pytest

from streaming.collect.fold import CollectedEvent, Fold
from streaming.records.diffs import Diff
from tests.support.histories import diffs, play
from tests.support.offsets_topic import GOLDEN, KINDS, captured_records_of_kind

ROUNDS = GOLDEN / "rounds-of-kinds-4.3.1.json"


def rounds(kind: str) -> list[Diff]:
    """Return the diffs of a captured group, in which topics are named by their ids."""
    fold = Fold("kafka://c/__consumer_offsets", 0, lambda topic_id: topic_id)
    items = [item for row in captured_records_of_kind(kind) for item in fold.add(row)] + fold.settle()
    assert all(isinstance(item, CollectedEvent) for item in items)
    return diffs(play(item.event for item in items if isinstance(item, CollectedEvent))[1])


def diff_summary(diff: Diff) -> list[object]:
    """Return a round's generation or epoch, round number, cause, member count, moves, unassigned partitions, delay."""
    number = diff.generation if diff.group_epoch is None else diff.group_epoch
    delay = diff.delay_ms or 0
    return [number, diff.round, diff.cause.kind, len(diff.members), diff.moved, diff.unassigned, delay]


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_of_a_recorded_group_equal_the_golden_file(kind: str) -> None:
    recorded_rounds = rounds(kind)

    assert {diff.kind for diff in recorded_rounds} == {kind.removesuffix("-classic")}
    assert not [diff.violations for diff in recorded_rounds if diff.violations]
    assert [diff_summary(diff) for diff in recorded_rounds] == json.loads(ROUNDS.read_text())[kind]
