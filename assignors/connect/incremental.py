"""``IncrementalCooperativeAssignor`` (KIP-415, KAFKA-12495) and ``EagerAssignor`` as pure functions.

Running work stays on its worker: only work that must move is revoked, and assigned one round later. Work of a departed
worker waits up to ``max_delay_ms`` for the worker's return. The workers' numbers of connectors differ by at most one,
and so do their numbers of tasks: overloaded workers give up work. Consecutive rounds with revocations back off.
O((tasks + workers) log (tasks + workers)).

Sets, as the Java class names them: deleted = previous − configured; lost = previous − active − deleted;
created = configured − previous − active; duplicated = work that more than one worker runs.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, Generic, NamedTuple, TypeVar

from assignors.java import hash_set_copy_capacity, in_hash_order, string_key

#: A connector's task: ``(connector, task number)``.
Task = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Work:
    """Connector instances and tasks, in the order in which a worker holds or reports them."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def share(self) -> dict[str, list[int]]:
        """Return the tasks as ``{connector: ascending task numbers}``, like the partitions of a consumer."""
        share: dict[str, list[int]] = {}
        for connector, number in sorted(self.tasks):
            share.setdefault(connector, []).append(number)
        return share


class WorkChange(NamedTuple):
    """Change of one worker in a round: work to start (``assigned``) and work to stop (``revoked``)."""

    assigned: Work = Work()
    revoked: Work = Work()


@dataclass(slots=True)
class LeaderMemory:
    """State that the leader keeps between rebalance rounds (the fields of ``IncrementalCooperativeAssignor``).

    A worker that becomes leader starts with ``LeaderMemory()``. Sets are stored as ascending tuples, so that equal
    memories compare as equal.
    """

    #: All work that ran or was lost after the previous round.
    previous: Work = Work()
    #: Work that the previous round revoked, until the leader knows that the workers gave it up.
    revoked: Work = Work()
    members: tuple[str, ...] = ()
    generation: int = -1
    revoked_in_previous: bool = False
    #: Workers that joined without work while a delay ran, in order.
    candidates: tuple[str, ...] = ()
    #: Time at which the delayed rebalance is due (ms); 0: no rebalance is scheduled.
    scheduled_ms: int = 0
    delay_ms: int = 0
    #: Number of consecutive rounds with revocations: the exponent of the back-off.
    successive_revocations: int = 0


class ConnectRound(NamedTuple):
    """Result of a round of Connect's leader; if ``delay_ms`` > 0, the workers rejoin by themselves after that time."""

    state: LeaderMemory
    changes: dict[str, WorkChange]
    delay_ms: int


#: ``IncrementalCooperativeAssignor.consecutiveRevokingRebalancesBackoff``: 1 ms × 40ⁿ.
_BACKOFF_BASE = 40


def assign(
    state: LeaderMemory,
    workers: Mapping[str, Work],
    configured: Mapping[str, int],
    now_ms: int,
    *,
    max_delay_ms: int = 300_000,
    generation: int | None = None,
    last_completed_generation: int | None = None,
) -> ConnectRound:
    """Compute one round of the leader and return ``(state, changes, delay_ms)``.

    ``workers``: reported work of each worker, in the order of the JoinGroup response; a worker gives up its first work
    first. ``configured``: number of tasks of each connector. ``last_completed_generation``: the last generation synced
    by the leader; if it is not the previous round's generation, the leader forgets the work that it remembers as
    running.
    """
    connectors, tasks = _work_balances(state, workers, configured, last_completed_generation)
    memory = replace(state)
    reassign = _handle_lost_work(memory, now_ms, max_delay_ms, connectors, tasks)
    if memory.delay_ms == 0:
        is_busy = any(map(len, connectors.loads.values())) or any(map(len, tasks.loads.values()))
        has_work = is_busy and connectors.configured_count + tasks.configured_count
        from_connectors, from_tasks = (connectors.surplus(), tasks.surplus()) if has_work else ({}, {})
        if _may_revoke(memory, now_ms, max_delay_ms, has_surplus=bool(from_connectors or from_tasks)):
            connectors.revoke(from_connectors)
            tasks.revoke(from_tasks)
    else:
        memory.revoked_in_previous = False
    connectors.assign_new(reassign=reassign)
    tasks.assign_new(reassign=reassign)
    changes = {
        worker: WorkChange(
            Work(tuple(connectors.loads[worker].added), tuple(tasks.loads[worker].added)),
            Work(connectors.sort_items(connectors.revoked[worker]), tasks.sort_items(tasks.revoked[worker])),
        )
        for worker in workers
    }
    memory.previous = Work(connectors.work_to_remember(), tasks.work_to_remember())
    memory.revoked = Work(connectors.revoked_items(), tasks.revoked_items())
    memory.members = tuple(sorted(workers))
    memory.generation = state.generation + 1 if generation is None else generation
    return ConnectRound(memory, changes, memory.delay_ms)


def _work_balances(
    state: LeaderMemory,
    workers: Mapping[str, Work],
    configured: Mapping[str, int],
    last_completed_generation: int | None,
) -> "tuple[_WorkBalance[str], _WorkBalance[Task]]":
    # Java fills the HashMap memberConfigs, and then a second HashMap from it.
    running = {worker: workers[worker] for worker in in_hash_order(in_hash_order(list(workers)))}
    all_connectors = tuple(name for work in running.values() for name in work.connectors)
    all_tasks = tuple(task for work in running.values() for task in work.tasks)
    previous = state.previous if last_completed_generation in (None, state.generation) else Work()
    if not (
        set(state.revoked.connectors).isdisjoint(all_connectors) and set(state.revoked.tasks).isdisjoint(all_tasks)
    ):
        previous = Work(all_connectors, all_tasks)  # Some of the previous round's revocations did not take effect.
    return _WorkBalance(
        {worker: work.connectors for worker, work in running.items()}, set(configured), previous.connectors, string_key
    ), _WorkBalance(
        {worker: work.tasks for worker, work in running.items()},
        {(name, number) for name, count in configured.items() for number in range(count)},
        previous.tasks,
        lambda task: (string_key(task[0]), task[1]),
    )


_WorkItem = TypeVar("_WorkItem")


@dataclass(slots=True)
class _WorkerItems(Generic[_WorkItem]):
    """Connectors or tasks of one worker: ``held`` before a round, in the worker's order, and ``added`` in the round."""

    worker: str
    held: list[_WorkItem]
    added: list[_WorkItem] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.held) + len(self.added)


class _WorkBalance(Generic[_WorkItem]):
    def __init__(
        self,
        reported: Mapping[str, Sequence[_WorkItem]],
        configured: set[_WorkItem],
        previous: Sequence[_WorkItem],
        order: Callable[[_WorkItem], Any],
    ) -> None:
        held = {worker: dict.fromkeys(items) for worker, items in reported.items()}
        running_counts = Counter(item for items in held.values() for item in items)
        previous_items = set(previous)
        deleted_items = previous_items - configured
        self._order = order
        self.configured_count = len(configured)
        self.lost = self.sort_items(previous_items - deleted_items - running_counts.keys())
        self.created_items = self.sort_items(configured - previous_items - running_counts.keys())
        revocable_items = {item for item, times in running_counts.items() if times > 1 or item in deleted_items}
        self.revoked = {worker: [item for item in items if item in revocable_items] for worker, items in held.items()}
        remaining = {worker: [item for item in items if item not in revocable_items] for worker, items in held.items()}
        self.loads = {worker: _WorkerItems(worker, items) for worker, items in remaining.items()}

    def sort_items(self, items: Iterable[_WorkItem]) -> tuple[_WorkItem, ...]:
        return tuple(sorted(items, key=self._order))

    def surplus(self) -> dict[str, list[_WorkItem]]:
        """Return the items that each worker gives up for balance (``performLoadBalancingRevocations``).

        Every worker may keep floor(configured / workers); the first workers with more may keep one more until the
        remainder is used up. Each worker gives up its first items.
        """
        smaller_size, larger_left = divmod(self.configured_count, len(self.loads))
        sizes = [len(load) for load in self.loads.values()]
        larger_count = sizes.count(smaller_size + 1)
        if larger_count == larger_left and sizes.count(smaller_size) + larger_count == len(sizes):
            return {}
        surplus: dict[str, list[_WorkItem]] = {}
        for worker, load in self.loads.items():
            kept_size = smaller_size + (larger_left > 0 and len(load) > smaller_size)
            larger_left -= kept_size - smaller_size
            if len(load) > kept_size:
                surplus[worker] = [*load.held, *load.added][: len(load) - kept_size]
        return surplus

    def revoke(self, revocations: Mapping[str, Sequence[_WorkItem]]) -> None:
        for worker, items in revocations.items():
            self.revoked[worker] += items
            revoked_items, load = set(items), self.loads[worker]
            load.held = [item for item in load.held if item not in revoked_items]
            load.added = [item for item in load.added if item not in revoked_items]

    def assign_lost(self, workers: Sequence[str]) -> None:
        """Assign the lost connectors and tasks to ``workers`` round-robin, regardless of the workers' load."""
        for item, worker in zip(self.lost, cycle(workers), strict=False):
            self.loads[worker].added.append(item)

    def assign_new(self, *, reassign: bool) -> None:
        """Assign new connectors and tasks, with ``reassign`` also lost ones, to workers in order of load and id."""
        loads_ascending = sorted(self.loads.values(), key=lambda load: (len(load), string_key(load.worker)))
        unassigned_items = self.created_items + self.lost if reassign else self.created_items
        at = lowest_end = 0
        while at < len(unassigned_items):
            lowest_load = len(loads_ascending[0])
            while lowest_end < len(loads_ascending) and len(loads_ascending[lowest_end]) <= lowest_load:
                lowest_end += 1
            for load, item in zip(loads_ascending[:lowest_end], unassigned_items[at : at + lowest_end], strict=False):
                load.added.append(item)
            at += lowest_end

    def revoked_items(self) -> tuple[_WorkItem, ...]:
        return self.sort_items({item for items in self.revoked.values() for item in items})

    def work_to_remember(self) -> tuple[_WorkItem, ...]:
        """Return the connectors and tasks that the leader counts as running in the next round, lost ones included."""
        running_items = {item for load in self.loads.values() for item in (*load.held, *load.added)}
        running_items.difference_update(*self.revoked.values())
        return self.sort_items(running_items.union(self.lost))


def _handle_lost_work(
    memory: LeaderMemory, now_ms: int, max_delay_ms: int, connectors: _WorkBalance[str], tasks: _WorkBalance[Task]
) -> bool:
    """Handle lost work (``handleLostAssignments``); return True if lost work is assigned like new work in this round.

    Otherwise the lost work is assigned to workers that returned without work, or waits until ``scheduled_ms``.
    """
    if not (connectors.lost or tasks.lost or memory.revoked_in_previous):
        _reset(memory)
        return False
    workers = connectors.loads
    if max_delay_ms == 0 or (memory.scheduled_ms <= 0 and set(memory.members).issubset(workers)):
        return True  # No worker departed, so the answers of the previous round did not arrive.
    if 0 < memory.scheduled_ms <= now_ms:
        returned_workers = [worker for worker in memory.candidates if worker in workers]
        connectors.assign_lost(returned_workers)
        tasks.assign_lost(returned_workers)
        _reset(memory)
        memory.revoked_in_previous = False
        return not returned_workers
    empty = [worker for worker, load in workers.items() if not len(load) + len(tasks.loads[worker])]
    memory.candidates = tuple(dict.fromkeys((*memory.candidates, *in_hash_order(empty))))
    is_running = now_ms < memory.scheduled_ms
    memory.delay_ms = min(memory.scheduled_ms - now_ms, max_delay_ms) if is_running else max_delay_ms
    memory.scheduled_ms = now_ms + memory.delay_ms
    return False


def _may_revoke(memory: LeaderMemory, now_ms: int, max_delay_ms: int, *, has_surplus: bool) -> bool:
    """Return True if this round may revoke work to balance the load; call it only while no scheduled delay runs."""
    if not has_surplus:
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


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """Return 40ⁿ ms, at most ``max_delay_ms``, as ``ExponentialBackoff(1, 40, max_delay_ms, jitter 0)`` does.

    The power is computed in floating point as in Java, so the longest delay may be 1 ms below ``max_delay_ms``.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempts, math.log(max_delay_ms) / math.log(_BACKOFF_BASE))
    return min(int(math.pow(_BACKOFF_BASE, exponent)), max_delay_ms)


def assign_eager(workers: Sequence[str], configured: Mapping[str, int]) -> dict[str, Work]:
    """Return every worker's work under ``EagerAssignor``: all connectors, then all tasks, over the sorted workers.

    The first task goes to the worker after the one with the last connector. The assignor is not sticky, as all work
    stops before a round. ``configured``: number of tasks of each connector.
    """
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


def apply_work_change(owned: Work, change: WorkChange) -> Work:
    """Return a worker's connectors and tasks after a change: the newly assigned ones, then those that it keeps."""
    stopped_connectors, stopped_tasks = set(change.revoked.connectors), set(change.revoked.tasks)
    started_work = serialized_work(change.assigned)
    return Work(
        (*started_work.connectors, *(name for name in owned.connectors if name not in stopped_connectors)),
        (*started_work.tasks, *(task for task in owned.tasks if task not in stopped_tasks)),
    )


def serialized_work(work: Work) -> Work:
    """Return the connectors and tasks in their order after serialization (``ExtendedAssignment.toStruct``)."""
    names = list(dict.fromkeys(work.connectors))
    connectors = in_hash_order(names, capacity=hash_set_copy_capacity(len(names)))
    tasks: dict[str, list[Task]] = {name: [] for name in connectors}
    for task in work.tasks:
        tasks.setdefault(task[0], []).append(task)
    return Work(tuple(connectors), tuple(task for group in tasks.values() for task in group))
