"""The published walkthroughs of KIP-415, and one test for each rule of IncrementalCooperativeAssignor."""

import pytest

from assignors.connect import incremental
from assignors.connect.incremental import LeaderMemory, Work, WorkChange

MAX_DELAY_MS = 300_000
#: P1…P6 of the walkthroughs are the tasks of one connector, whose instance runs on c1.
TASKS = TASK_0, TASK_1, TASK_2, TASK_3, TASK_4, TASK_5 = tuple(("p", number) for number in range(6))
TASK_COUNTS = {"p": 6}
NO_CHANGE = WorkChange()


def settled(workers: dict[str, Work]) -> LeaderMemory:
    """Return the leader's memory after it assigned all six tasks to these Connect workers."""
    return LeaderMemory(previous=Work(("p",), TASKS), members=tuple(sorted(workers)), generation=7)


def test_joining_connect_worker_gets_tasks_after_revocation() -> None:
    workers = {"c1": Work(("p",), (TASK_2, TASK_0, TASK_1)), "c2": Work((), (TASK_5, TASK_3, TASK_4)), "c3": Work()}
    first = incremental.assign(settled({"c1": Work(), "c2": Work()}), workers, TASK_COUNTS, 0)
    assert first.changes == {
        "c1": WorkChange(revoked=Work((), (TASK_2,))),
        "c2": WorkChange(revoked=Work((), (TASK_5,))),
        "c3": NO_CHANGE,
    }
    assert first.delay_ms == 0
    running = {name: incremental.apply_work_change(work, first.changes[name]) for name, work in workers.items()}
    second = incremental.assign(first.state, running, TASK_COUNTS, 0)
    assert second.changes == {"c1": NO_CHANGE, "c2": NO_CHANGE, "c3": WorkChange(assigned=Work((), (TASK_2, TASK_5)))}
    assert second.delay_ms == 0


#: Workers after c2 has left.
WORKERS = {"c1": Work(("p",), (TASK_0, TASK_1)), "c3": Work((), (TASK_2, TASK_5))}


@pytest.fixture
def round_after_c2_left() -> incremental.ConnectRound:
    memory = settled({**WORKERS, "c2": Work()})
    return incremental.assign(memory, WORKERS, TASK_COUNTS, 1_000, max_delay_ms=MAX_DELAY_MS)


def test_returning_connect_worker_gets_its_tasks_after_the_delay(round_after_c2_left: incremental.ConnectRound) -> None:
    assert round_after_c2_left.changes == {"c1": NO_CHANGE, "c3": NO_CHANGE}
    assert round_after_c2_left.delay_ms == MAX_DELAY_MS
    workers = {**WORKERS, "c2": Work()}
    back = incremental.assign(round_after_c2_left.state, workers, TASK_COUNTS, 101_000)
    assert back.changes == {"c1": NO_CHANGE, "c2": NO_CHANGE, "c3": NO_CHANGE}
    assert back.delay_ms == 200_000
    over = incremental.assign(back.state, workers, TASK_COUNTS, 301_000)
    assert over.changes == {"c1": NO_CHANGE, "c2": WorkChange(assigned=Work((), (TASK_3, TASK_4))), "c3": NO_CHANGE}
    assert over.delay_ms == 0


def test_tasks_of_a_gone_connect_worker_move_after_the_delay(round_after_c2_left: incremental.ConnectRound) -> None:
    over = incremental.assign(round_after_c2_left.state, WORKERS, TASK_COUNTS, 301_000)
    assert over.changes == {
        "c1": WorkChange(assigned=Work((), (TASK_3,))),
        "c3": WorkChange(assigned=Work((), (TASK_4,))),
    }
    assert over.delay_ms == 0


def test_without_a_delay_lost_work_moves_at_once() -> None:
    workers = {"c1": Work(("p",), (TASK_0, TASK_1, TASK_2))}
    answer = incremental.assign(settled({"c1": Work(), "c2": Work()}), workers, TASK_COUNTS, 0, max_delay_ms=0)
    assert answer.changes == {"c1": WorkChange(assigned=Work((), (TASK_3, TASK_4, TASK_5)))}
    assert answer.delay_ms == 0


def test_undelivered_assignment_is_sent_again() -> None:
    workers = {"c1": Work(("p",), (TASK_0, TASK_1, TASK_2)), "c2": Work()}
    answer = incremental.assign(settled(workers), workers, TASK_COUNTS, 0)
    assert answer.changes["c2"] == WorkChange(assigned=Work((), (TASK_3, TASK_4, TASK_5)))


def test_second_connect_revocation_waits_for_the_backoff() -> None:
    configured = {"p": 6, "q": 6}
    all_work = Work(("p", "q"), tuple((name, number) for name in "pq" for number in range(6)))
    workers = {"c1": all_work, "c2": Work()}
    first = incremental.assign(LeaderMemory(), workers, configured, 0)
    assert first.changes["c1"].revoked == Work(("p",), tuple(("p", number) for number in range(6)))
    # c1 applies the assignment; c3 joins before the revoked tasks are assigned: another revocation would be due
    workers = {"c1": incremental.apply_work_change(all_work, first.changes["c1"]), "c2": Work(), "c3": Work()}
    second = incremental.assign(first.state, workers, configured, 10)
    assert second.delay_ms == 40
    assert second.state.scheduled_ms == 50
    assert all(not change.revoked for change in second.changes.values())
    assert second.state.successive_revocations == 1


def test_deleted_and_duplicated_work_is_revoked() -> None:
    workers = {"c1": Work(("p", "old"), (TASK_0, TASK_1)), "c2": Work(("p",), (TASK_1, TASK_2, ("old", 0)))}
    previous = Work(("old", "p"), (("old", 0), TASK_0, TASK_1, TASK_2))
    state = LeaderMemory(previous=previous, members=("c1", "c2"), generation=3)
    answer = incremental.assign(state, workers, {"p": 3}, 0)
    assert answer.changes["c1"].revoked == Work(("old", "p"), (TASK_1,))
    assert answer.changes["c2"].revoked == Work(("p",), (("old", 0), TASK_1))


def test_other_completed_generation_clears_previous_assignment() -> None:
    workers = {"c1": Work(("p",), (TASK_0, TASK_1))}
    state = settled({"c1": Work(), "c2": Work()})
    assert incremental.assign(state, workers, TASK_COUNTS, 0).delay_ms == MAX_DELAY_MS
    answer = incremental.assign(state, workers, TASK_COUNTS, 0, last_completed_generation=6)
    assert answer.changes == {"c1": WorkChange(assigned=Work((), (TASK_2, TASK_3, TASK_4, TASK_5)))}
    assert answer.delay_ms == 0


def test_work_after_applies_revoked_and_assigned_work() -> None:
    owned = Work(("a", "b"), (("a", 0), ("b", 0), ("b", 1)))
    change = WorkChange(assigned=Work(("c",), (("d", 0), ("c", 0))), revoked=Work(("a",), (("b", 0),)))
    assert incremental.apply_work_change(owned, change) == Work(("c", "b"), (("c", 0), ("d", 0), ("a", 0), ("b", 1)))


def test_connect_work_is_listed_as_tasks_by_connector() -> None:
    assert Work(("a",), (("b", 1), ("a", 3), ("b", 0))).share() == {"a": [3], "b": [0, 1]}


def test_eager_connect_deals_connectors_and_tasks_in_one_turn() -> None:
    assert incremental.assign_eager(["w2", "w1"], {"b": 2, "a": 3, "c": 0}) == {
        "w1": Work(("a", "c"), (("a", 1), ("b", 0))),
        "w2": Work(("b",), (("a", 0), ("a", 2), ("b", 1))),
    }


def test_workers_are_in_utf16_order() -> None:
    astral_id, late = "\U0001f600", "\uffee"
    assert incremental.assign_eager([late, astral_id], {"a": 0}) == {late: Work(), astral_id: Work(("a",))}
