import pytest

from streaming.collect.broker_reasons import add_reasons
from streaming.collect.fold import CollectedEvent, Fold
from streaming.records.diffs import Diff
from tests.support.broker_logs import read_lines
from tests.support.histories import diffs, play
from tests.support.offsets_topic import GOLDEN, captured_records


def _diffs(group_id: str, *, logged: bool) -> list[Diff]:
    log = read_lines(*((GOLDEN / "coordinator-4.3.1.log").read_text().splitlines() if logged else ()))
    rounds = []
    for number, rows in captured_records().items():
        fold = Fold("test", number, lambda topic_id: topic_id)
        items = [item for row in rows for item in fold.add(row)] + fold.settle()
        events = [
            (item.event, item.previous)
            for item in items
            if isinstance(item, CollectedEvent) and item.event.data.group_id == group_id
        ]
        rounds += [add_reasons(event, log, previous) for event, previous in events]
    return diffs(play(rounds)[1])


@pytest.mark.parametrize("logged", [False, True])
def test_one_epoch_is_one_rebalance(logged: bool) -> None:
    crash = "member.fenced" if logged else "member.left"
    assert [(diff.group_epoch, diff.round, diff.cause.kind) for diff in _diffs("g-consumer", logged=logged)] == [
        (2, 1, "member.joined"),
        *((3, number, "member.joined") for number in (1, 2, 3)),
        *((4, number, "member.subscription_changed") for number in (1, 2, 3)),
        *((5, number, "member.left") for number in (1, 2)),
        *((6, number, "member.joined") for number in (1, 2, 3)),
        *((7, number, crash) for number in (1, 2)),
        *((8, number, "member.joined") for number in (1, 2, 3)),
        (9, 1, "member.left"),
    ]


@pytest.mark.parametrize("logged", [False, True])
def test_one_cooperative_join_is_one_rebalance(logged: bool) -> None:
    assert [(diff.generation, diff.round) for diff in _diffs("g-classic", logged=logged)] == [
        *((1, 1), (2, 1), (3, 2), (4, 1), (5, 2), (6, 1)),
        *((7, 1), (8, 2), (9, 1), (10, 1), (11, 2), (12, 1)),
    ]
