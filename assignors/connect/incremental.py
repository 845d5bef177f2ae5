"""``IncrementalCooperativeAssignor`` (KIP-415, KAFKA-12495), stateful, as a pure function; and ``EagerAssignor``.

Goals, in order:
1. what runs keeps running where it runs: only what must move is revoked, and it is given out one round later;
2. work of a worker that went away waits ``max_delay_ms`` for its return;
3. loads of connectors, and of tasks, differ by at most one, reached by revoking from the most loaded;
4. consecutive revoking rounds back off (1 ms × 40ⁿ, at most ``max_delay_ms``).

Sets, as the Java class names them: deleted = previous − configured; lost = previous − active − deleted;
created = configured − previous − active; duplicated = what more than one worker runs.
O((tasks + workers) log (tasks + workers)).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any, Generic

from assignors.connect.model import (
    DEFAULT_MAX_DELAY_MS,
    ConnectRound,
    Item,
    LeaderMemory,
    Shelf,
    Task,
    Work,
    WorkChange,
    check_configured,
    check_delay,
    check_workers,
    fill,
    revocations,
)
from assignors.java import in_hash_order, string_key

#: ``IncrementalCooperativeAssignor.consecutiveRevokingRebalancesBackoff``: 1 ms × 40ⁿ.
_BACKOFF_BASE = 40


def assign(
    state: LeaderMemory,
    workers: Mapping[str, Work],
    configured: Mapping[str, int],
    now_ms: int,
    *,
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS,
    generation: int | None = None,
    last_completed_generation: int | None = None,
) -> ConnectRound:
    """One round of the leader: ``(state, changes, delay_ms)``.

    Args:
        state: what the leader remembers; ``LeaderMemory()`` for a new leader.
        workers: what each worker reports to run, in the order of the JoinGroup response. The order inside a
            worker's work decides what it gives up first: see ``assignors.connect.model``.
        configured: the number of tasks of each configured connector.
        now_ms: the leader's clock.
        max_delay_ms: ``scheduled.rebalance.max.delay.ms``.
        generation: this round's; the one after the previous round's when None.
        last_completed_generation: the last one that the leader has synced; the previous round's when None.
            When it is another, what the leader remembers as running is forgotten.

    Raises:
        InvalidGroup: no worker, a number of tasks below 0, or a delay outside int32.
    """
    check_workers(workers)
    check_configured(configured)
    check_delay(max_delay_ms)
    connectors, tasks = _kinds(state, workers, configured, last_completed_generation)
    memory = replace(state)
    lost, shelves = (connectors.lost, tasks.lost), (connectors.shelves, tasks.shelves)
    reassign = _lost_work(memory, now_ms, max_delay_ms, lost, shelves)
    if memory.delay_ms == 0:
        _balance(connectors, tasks, memory, now_ms, max_delay_ms)
    else:
        memory.revoked_in_previous = False
    connectors.assign(reassign=reassign)
    tasks.assign(reassign=reassign)
    changes = {
        worker: WorkChange(
            Work(connectors.assigned(worker), tasks.assigned(worker)),
            Work(connectors.revoked(worker), tasks.revoked(worker)),
        )
        for worker in workers
    }
    memory.previous = Work(connectors.remembered(), tasks.remembered())
    memory.revoked = Work(connectors.all_revoked(), tasks.all_revoked())
    memory.members = tuple(sorted(workers))
    memory.generation = state.generation + 1 if generation is None else generation
    return ConnectRound(memory, changes, memory.delay_ms)


def _kinds(
    state: LeaderMemory,
    workers: Mapping[str, Work],
    configured: Mapping[str, int],
    last_completed_generation: int | None,
) -> tuple[_Kind[str], _Kind[Task]]:
    # memberConfigs, and then a second HashMap filled from it
    order = in_hash_order(in_hash_order(list(workers)))
    running = {worker: workers[worker] for worker in order}
    previous = state.previous if last_completed_generation in (None, state.generation) else Work()
    if _still_runs(running.values(), state.revoked):
        previous = Work(
            tuple(name for work in running.values() for name in work.connectors),
            tuple(task for work in running.values() for task in work.tasks),
        )
    return _Kind(
        {worker: work.connectors for worker, work in running.items()}, set(configured), previous.connectors, string_key
    ), _Kind(
        {worker: work.tasks for worker, work in running.items()},
        {(name, number) for name, count in configured.items() for number in range(count)},
        previous.tasks,
        _task_order,
    )


class _Kind(Generic[Item]):
    def __init__(
        self,
        reported: Mapping[str, Sequence[Item]],
        configured: set[Item],
        previous: Sequence[Item],
        order: Callable[[Item], Any],
    ) -> None:
        held = {worker: dict.fromkeys(items) for worker, items in reported.items()}
        runs = Counter(item for items in held.values() for item in items)
        remembered = set(previous)
        deleted = remembered - configured
        self.order = order
        self.configured = len(configured)
        self.lost = self._sorted(remembered - deleted - runs.keys())
        self.created = self._sorted(configured - remembered - runs.keys())
        out = {item for item, times in runs.items() if times > 1 or item in deleted}
        self._revoked = {worker: [item for item in items if item in out] for worker, items in held.items()}
        self._shelf = {
            worker: Shelf(worker, {item: None for item in items if item not in out}) for worker, items in held.items()
        }

    @property
    def shelves(self) -> list[Shelf[Item]]:
        return list(self._shelf.values())

    def _sorted(self, items: Iterable[Item]) -> list[Item]:
        return sorted(items, key=self.order)

    def revoke(self, revocations: Mapping[str, Sequence[Item]]) -> None:
        for worker, items in revocations.items():
            self._revoked[worker] += items
            self._shelf[worker].drop(items)

    def assign(self, *, reassign: bool) -> None:
        fill(self.shelves, self.created + self.lost if reassign else self.created)

    def assigned(self, worker: str) -> tuple[Item, ...]:
        return tuple(self._shelf[worker].added)

    def revoked(self, worker: str) -> tuple[Item, ...]:
        return tuple(self._sorted(self._revoked[worker]))

    def all_revoked(self) -> tuple[Item, ...]:
        return tuple(self._sorted({item for items in self._revoked.values() for item in items}))

    def remembered(self) -> tuple[Item, ...]:
        """Return the items that run after this round or are still lost: the next round takes them for running."""
        runs = {item for shelf in self._shelf.values() for item in (*shelf.held, *shelf.added)}
        runs.difference_update(*self._revoked.values())
        runs.update(self.lost)
        return tuple(self._sorted(runs))


def _task_order(task: Task) -> tuple[bytes, int]:
    return string_key(task[0]), task[1]


def _still_runs(running: Iterable[Work], revoked: Work) -> bool:
    connectors, tasks = set(revoked.connectors), set(revoked.tasks)
    return any(not (connectors.isdisjoint(work.connectors) and tasks.isdisjoint(work.tasks)) for work in running)


def _balance(connectors: _Kind[str], tasks: _Kind[Task], memory: LeaderMemory, now_ms: int, max_delay_ms: int) -> None:
    from_connectors: dict[str, list[str]] = {}
    from_tasks: dict[str, list[Task]] = {}
    idle = not any(map(len, connectors.shelves)) and not any(map(len, tasks.shelves))
    if not idle and connectors.configured + tasks.configured:
        from_connectors = revocations(connectors.shelves, connectors.configured)
        from_tasks = revocations(tasks.shelves, tasks.configured)
    if _may_revoke(memory, now_ms, max_delay_ms, wanted=bool(from_connectors or from_tasks)):
        connectors.revoke(from_connectors)
        tasks.revoke(from_tasks)


def _lost_work(
    memory: LeaderMemory,
    now_ms: int,
    max_delay_ms: int,
    lost: tuple[Sequence[str], Sequence[Task]],
    shelves: tuple[Sequence[Shelf[str]], Sequence[Shelf[Task]]],
) -> bool:
    """Decide what becomes of lost work (``handleLostAssignments``); True: it is assigned like new work now.

    Otherwise it was given to the workers that came back empty, or it waits until ``scheduled_ms``.
    """
    if not any(lost) and not memory.revoked_in_previous:
        _reset(memory)
        return False
    workers = {shelf.worker for shelf in shelves[0]}
    if memory.scheduled_ms <= 0 and workers.issuperset(memory.members):
        return True  # nobody left: the answers of the previous round did not arrive
    if max_delay_ms == 0:
        return True
    if 0 < memory.scheduled_ms <= now_ms:
        back = [worker for worker in memory.candidates if worker in workers]
        _deal(lost[0], shelves[0], back)
        _deal(lost[1], shelves[1], back)
        _reset(memory)
        memory.revoked_in_previous = False
        return not back
    empty = [connectors.worker for connectors, tasks in zip(*shelves, strict=True) if not len(connectors) + len(tasks)]
    memory.candidates = tuple(dict.fromkeys((*memory.candidates, *in_hash_order(empty))))
    if now_ms < memory.scheduled_ms:
        memory.delay_ms = min(memory.scheduled_ms - now_ms, max_delay_ms)
    else:
        memory.delay_ms = max_delay_ms
    memory.scheduled_ms = now_ms + memory.delay_ms
    return False


def _may_revoke(memory: LeaderMemory, now_ms: int, max_delay_ms: int, *, wanted: bool) -> bool:
    """True if load-balancing revocations go out in this round; called only while no delay runs."""
    if not wanted:
        if memory.revoked_in_previous:
            memory.revoked_in_previous = False
            memory.successive_revocations = 0
        return False
    if not memory.revoked_in_previous:
        memory.revoked_in_previous = True
        return True
    memory.successive_revocations += 1
    memory.delay_ms = backoff_ms(memory.successive_revocations, max_delay_ms)
    if memory.delay_ms == 0:
        return True
    memory.scheduled_ms = now_ms + memory.delay_ms
    return False


def _reset(memory: LeaderMemory) -> None:
    memory.candidates = ()
    memory.scheduled_ms = memory.delay_ms = 0


def _deal(items: Sequence[Item], shelves: Sequence[Shelf[Item]], workers: Sequence[str]) -> None:
    """One item to each of ``workers`` in turn, whatever each already has."""
    if workers:
        of_worker = {shelf.worker: shelf for shelf in shelves}
        for position, item in enumerate(items):
            of_worker[workers[position % len(workers)]].added.append(item)


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """``ExponentialBackoff(1, 40, max_delay_ms, jitter 0)``: 40ⁿ ms, at most ``max_delay_ms``.

    With the power taken in floating point, as Java does: the longest delay may be one below the maximum.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempts, math.log(max_delay_ms) / math.log(_BACKOFF_BASE))
    return min(int(math.pow(_BACKOFF_BASE, exponent)), max_delay_ms)


def assign_eager(workers: Sequence[str], configured: Mapping[str, int]) -> dict[str, Work]:
    """Return every worker's work under ``EagerAssignor``: all connectors, then all tasks, over the sorted workers.

    The circle goes on from the last connector's worker to the first task. Nothing is sticky: all stops first.
    ``configured`` has the number of tasks of each connector. O(workers log workers + tasks).

    Raises:
        InvalidGroup: no worker, one listed twice, or a number of tasks below 0.
    """
    check_workers(workers)
    check_configured(configured)
    connectors: dict[str, list[str]] = {worker: [] for worker in workers}
    tasks: dict[str, list[Task]] = {worker: [] for worker in workers}
    circle = cycle(sorted(workers, key=string_key))
    names = sorted(configured, key=string_key)
    for name in names:
        connectors[next(circle)].append(name)
    for name in names:
        for number in range(configured[name]):
            tasks[next(circle)].append((name, number))
    return {worker: Work(tuple(connectors[worker]), tuple(tasks[worker])) for worker in workers}
