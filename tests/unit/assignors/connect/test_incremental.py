"""The published walkthroughs of KIP-415, and one test for each rule of IncrementalCooperativeAssignor."""

from __future__ import annotations

import pytest

from assignors.connect import incremental
from assignors.connect.incremental import LeaderMemory, Work, WorkChange

MAX_DELAY_MS = 300_000
#: P1…P6 of the walkthroughs are the tasks of one connector, whose instance runs on c1.
P1, P2, P3, P4, P5, P6 = [("p", number) for number in range(6)]
CONFIGURED = {"p": 6}
NOTHING = WorkChange()


def settled(workers: dict[str, Work]) -> LeaderMemory:
    """Return the leader's memory after it assigned all six tasks to these Connect workers."""
    return LeaderMemory(previous=Work(("p",), (P1, P2, P3, P4, P5, P6)), members=tuple(sorted(workers)), generation=7)


def test_a_new_consumer_joins() -> None:
    workers = {"c1": Work(("p",), (P3, P1, P2)), "c2": Work((), (P6, P4, P5)), "c3": Work()}
    first = incremental.assign(settled({"c1": Work(), "c2": Work()}), workers, CONFIGURED, 0)
    assert first.changes == {
        "c1": WorkChange(revoked=Work((), (P3,))),
        "c2": WorkChange(revoked=Work((), (P6,))),
        "c3": NOTHING,
    }
    assert first.delay_ms == 0
    running = {name: incremental.work_after(work, first.changes[name]) for name, work in workers.items()}
    second = incremental.assign(first.state, running, CONFIGURED, 0)
    assert second.changes == {"c1": NOTHING, "c2": NOTHING, "c3": WorkChange(assigned=Work((), (P3, P6)))}
    assert second.delay_ms == 0


@pytest.fixture
def round_without_c2() -> incremental.ConnectRound:
    workers = {"c1": Work(("p",), (P1, P2)), "c3": Work((), (P3, P6))}
    all_three = {**workers, "c2": Work()}
    return incremental.assign(settled(all_three), workers, CONFIGURED, 1_000, max_delay_ms=MAX_DELAY_MS)


def test_a_member_bounces(round_without_c2: incremental.ConnectRound) -> None:
    assert round_without_c2.changes == {"c1": NOTHING, "c3": NOTHING}
    assert round_without_c2.delay_ms == MAX_DELAY_MS
    workers = {"c1": Work(("p",), (P1, P2)), "c2": Work(), "c3": Work((), (P3, P6))}
    back = incremental.assign(round_without_c2.state, workers, CONFIGURED, 101_000)
    assert back.changes == {"c1": NOTHING, "c2": NOTHING, "c3": NOTHING}
    assert back.delay_ms == 200_000
    over = incremental.assign(back.state, workers, CONFIGURED, 301_000)
    assert over.changes == {"c1": NOTHING, "c2": WorkChange(assigned=Work((), (P4, P5))), "c3": NOTHING}
    assert over.delay_ms == 0


def test_member_leaves_permanently(round_without_c2: incremental.ConnectRound) -> None:
    workers = {"c1": Work(("p",), (P1, P2)), "c3": Work((), (P3, P6))}
    over = incremental.assign(round_without_c2.state, workers, CONFIGURED, 301_000)
    assert over.changes == {"c1": WorkChange(assigned=Work((), (P4,))), "c3": WorkChange(assigned=Work((), (P5,)))}
    assert over.delay_ms == 0


def test_without_a_delay_lost_work_moves_at_once() -> None:
    workers = {"c1": Work(("p",), (P1, P2, P3))}
    answer = incremental.assign(settled({"c1": Work(), "c2": Work()}), workers, CONFIGURED, 0, max_delay_ms=0)
    assert answer.changes == {"c1": WorkChange(assigned=Work((), (P4, P5, P6)))}
    assert answer.delay_ms == 0


def test_undelivered_assignment_is_sent_again() -> None:
    workers = {"c1": Work(("p",), (P1, P2, P3)), "c2": Work()}
    answer = incremental.assign(settled(workers), workers, CONFIGURED, 0)
    assert answer.changes["c2"] == WorkChange(assigned=Work((), (P4, P5, P6)))


def test_a_second_revoking_round_backs_off() -> None:
    configured = {"p": 6, "q": 6}
    everything = Work(("p", "q"), tuple((name, number) for name in "pq" for number in range(6)))
    workers = {"c1": everything, "c2": Work()}
    first = incremental.assign(LeaderMemory(), workers, configured, 0)
    assert first.changes["c1"].revoked == Work(("p",), tuple(("p", number) for number in range(6)))
    # c1 applies the assignment; c3 joins before the revoked tasks are assigned: another revocation would be due
    workers = {"c1": incremental.work_after(everything, first.changes["c1"]), "c2": Work(), "c3": Work()}
    second = incremental.assign(first.state, workers, configured, 10)
    assert second.delay_ms == 40
    assert second.state.scheduled_ms == 50
    assert all(not change.revoked for change in second.changes.values())
    assert second.state.successive_revocations == 1


def test_deleted_and_duplicated_work_is_revoked() -> None:
    workers = {"c1": Work(("p", "old"), (P1, P2)), "c2": Work(("p",), (P2, P3, ("old", 0)))}
    state = LeaderMemory(previous=Work(("old", "p"), (("old", 0), P1, P2, P3)), members=("c1", "c2"), generation=3)
    answer = incremental.assign(state, workers, {"p": 3}, 0)
    assert answer.changes["c1"].revoked == Work(("old", "p"), (P2,))
    assert answer.changes["c2"].revoked == Work(("p",), (("old", 0), P2))


def test_other_completed_generation_clears_previous_assignment() -> None:
    workers = {"c1": Work(("p",), (P1, P2))}
    state = settled({"c1": Work(), "c2": Work()})
    remembered = incremental.assign(state, workers, CONFIGURED, 0)
    forgotten = incremental.assign(state, workers, CONFIGURED, 0, last_completed_generation=6)
    assert remembered.delay_ms == MAX_DELAY_MS
    assert forgotten.changes == {"c1": WorkChange(assigned=Work((), (P3, P4, P5, P6)))}
    assert forgotten.delay_ms == 0


def test_next_work_of_a_worker() -> None:
    owned = Work(("a", "b"), (("a", 0), ("b", 0), ("b", 1)))
    change = WorkChange(assigned=Work(("c",), (("d", 0), ("c", 0))), revoked=Work(("a",), (("b", 0),)))
    assert incremental.work_after(owned, change) == Work(("c", "b"), (("c", 0), ("d", 0), ("a", 0), ("b", 1)))


def test_worker_share_has_the_format_of_a_consumer_share() -> None:
    assert Work(("a",), (("b", 1), ("a", 3), ("b", 0))).share() == {"a": [3], "b": [0, 1]}


def test_round_robin_continues_from_connectors_to_tasks() -> None:
    assert incremental.assign_eager(["w2", "w1"], {"b": 2, "a": 3, "c": 0}) == {
        "w1": Work(("a", "c"), (("a", 1), ("b", 0))),
        "w2": Work(("b",), (("a", 0), ("a", 2), ("b", 1))),
    }


def test_workers_are_in_utf16_order() -> None:
    astral, late = "\U0001f600", "\uffee"
    assert incremental.assign_eager([late, astral], {"a": 0}) == {late: Work(), astral: Work(("a",))}
