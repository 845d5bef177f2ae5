"""Random histories of Connect clusters: an assignment never runs a task twice, and a quiet cluster ends in balance."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from assignors.connect import incremental
from assignors.connect.incremental import LeaderMemory, Work
from tests.support.connect_cases import leader_history


@given(st.integers(0, 2**32))
def test_assignment_gives_no_task_to_two_workers(seed: int) -> None:
    rng = random.Random(seed)
    for answer in leader_history(rng, rng.randint(1, 10)).results:
        assigned = Counter(
            item for change in answer.changes.values() for item in (*change.assigned.connectors, *change.assigned.tasks)
        )
        assert not [item for item, times in assigned.items() if times > 1]
        for change in answer.changes.values():
            assert not set(change.assigned.tasks) & set(change.revoked.tasks)


@given(
    st.integers(1, 8),
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 8), max_size=6),
    st.integers(1, 5),
)
def test_connect_workers_are_balanced_after_joins(count: int, configured: dict[str, int], joining: int) -> None:
    running = {f"w{number}": Work() for number in range(count)}
    state, now = LeaderMemory(), 0
    quiet = 0
    for turn in range(60):
        if turn == 2:
            running |= {f"n{number}": Work() for number in range(joining)}
        answer = incremental.assign(state, running, configured, now)
        now += answer.delay_ms or 1
        state = answer.state
        running = {name: incremental.apply_work_change(work, answer.changes[name]) for name, work in running.items()}
        is_unchanged = not answer.delay_ms and not any(c.assigned or c.revoked for c in answer.changes.values())
        quiet = quiet + 1 if is_unchanged and turn > 2 else 0
        if quiet == 2:
            break
    assert quiet == 2
    for kind in ("connectors", "tasks"):
        loads = [len(getattr(work, kind)) for work in running.values()]
        assert max(loads) - min(loads) <= 1
    assert Counter(task for work in running.values() for task in work.tasks) == Counter(
        (name, number) for name, tasks in configured.items() for number in range(tasks)
    )


@given(st.integers(0, 2**32))
def test_order_of_workers_and_connectors_changes_nothing(seed: int) -> None:
    """A leader that reads the same group in another order computes the same assignment."""
    rng = random.Random(seed)
    names = [f"w{number}" for number in range(rng.randint(1, 12))]
    configured = {f"c{number}": rng.randint(0, 5) for number in range(rng.randint(0, 6))}
    state, running = LeaderMemory(), {name: Work() for name in names}
    for now in range(3):
        answer = incremental.assign(state, running, configured, now)
        shuffled = (dict(rng.sample(list(items.items()), len(items))) for items in (running, configured))
        reordered = incremental.assign(state, *shuffled, now)
        assert (reordered.state, reordered.changes) == (answer.state, answer.changes)
        assert reordered.delay_ms == answer.delay_ms
        state = answer.state
        running = {name: incremental.apply_work_change(work, answer.changes[name]) for name, work in running.items()}
        running.pop(rng.choice(names), None)
        running = running or {"last": Work()}
