"""Workers, their work and loads, and what a leader remembers; what a worker runs after a round, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from assignors.errors import InvalidGroup
from assignors.java import hash_set_copy_capacity, in_hash_order, string_key

#: ``scheduled.rebalance.max.delay.ms`` when it is not set.
DEFAULT_MAX_DELAY_MS = 300_000
_INT_MAX = 2**31 - 1
#: A cluster with more tasks is refused rather than taking the machine down.
MAX_TASKS = 10_000_000

#: A connector's task: ``(connector, task number)``.
Task = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Work:
    """Connector instances and tasks. The order is the order in which a worker holds or reports them."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def share(self) -> dict[str, list[int]]:
        """The tasks as ``{connector: ascending task numbers}``, as a consumer's share shows partitions."""
        share: dict[str, list[int]] = {}
        for connector, number in sorted(self.tasks):
            share.setdefault(connector, []).append(number)
        return share


@dataclass(frozen=True, slots=True)
class WorkChange:
    """One worker's part of a round: work to start (``assigned``) and to stop (``revoked``)."""

    assigned: Work = field(default_factory=Work)
    revoked: Work = field(default_factory=Work)


@dataclass(slots=True)
class LeaderMemory:
    """Memory of the leader between rounds (the fields of ``IncrementalCooperativeAssignor``).

    A worker that becomes leader starts from ``LeaderMemory()``. Sets are ascending tuples, so that equal states are
    equal values and serialise alike.
    """

    #: All that ran or was lost after the previous round.
    previous: Work = field(default_factory=Work)
    #: What the previous round revoked, until it is known to have taken effect.
    revoked: Work = field(default_factory=Work)
    members: tuple[str, ...] = ()
    generation: int = -1
    revoked_in_previous: bool = False
    #: Workers that came without work while a delay ran, in the order in which they were seen.
    candidates: tuple[str, ...] = ()
    #: When the delayed rebalance is due (ms), 0 when none is.
    scheduled_ms: int = 0
    delay_ms: int = 0
    #: Consecutive rounds that wanted to revoke: the exponent of the back-off.
    successive_revocations: int = 0


class ConnectRound(NamedTuple):
    """One round's answer. After ``delay_ms`` > 0 the workers rejoin by themselves."""

    state: LeaderMemory
    changes: dict[str, WorkChange]
    delay_ms: int


def check_configured(configured: Mapping[str, int]) -> None:
    """``configured`` maps each connector to its number of tasks.

    Raises:
        InvalidGroup: a number is not a whole number from 0 up, or there are more than ``MAX_TASKS`` in all.
    """
    for connector, tasks in configured.items():
        if not isinstance(tasks, int) or isinstance(tasks, bool) or tasks < 0:
            raise InvalidGroup(f"configured.{connector}: {tasks!r} is not a number of tasks, 0 or more")
    if sum(configured.values()) > MAX_TASKS:
        raise InvalidGroup(f"configured: {sum(configured.values())} tasks, more than the limit of {MAX_TASKS}")


def check_workers(workers: Sequence[str] | Mapping[str, Work]) -> None:
    """A group has at least one worker, and what it reports are tasks.

    Raises:
        InvalidGroup: there is none, one is listed twice, or a task number is below 0.
    """
    if not workers:
        raise InvalidGroup("workers: none; a Connect group has at least its leader")
    if not isinstance(workers, Mapping):
        if len(set(workers)) != len(workers):
            twice = next(worker for i, worker in enumerate(workers) if worker in workers[:i])
            raise InvalidGroup(f"workers: {twice!r} is listed twice")
        return
    for worker, work in workers.items():
        for connector, number in work.tasks:
            if number < 0:
                raise InvalidGroup(f"workers.{worker}.tasks: {connector}-{number} is below 0")


def check_delay(max_delay_ms: int) -> None:
    """``scheduled.rebalance.max.delay.ms`` is an int32, 0 or more.

    Raises:
        InvalidGroup: it is not.
    """
    if not 0 <= max_delay_ms <= _INT_MAX:
        raise InvalidGroup(f"max_delay_ms: {max_delay_ms} is not from 0 to {_INT_MAX}")


def work_after(owned: Work, change: WorkChange) -> Work:
    """Return the work of a worker that ran ``owned`` and has applied ``change``, in its own order."""
    stopped_connectors, stopped_tasks = set(change.revoked.connectors), set(change.revoked.tasks)
    received = work_on_wire(change.assigned)
    return Work(
        (*received.connectors, *(name for name in owned.connectors if name not in stopped_connectors)),
        (*received.tasks, *(task for task in owned.tasks if task not in stopped_tasks)),
    )


def work_on_wire(work: Work) -> Work:
    """The same work in the order in which the other side reads it (``ExtendedAssignment.toStruct``)."""
    names = list(dict.fromkeys(work.connectors))
    connectors = in_hash_order(names, capacity=hash_set_copy_capacity(len(names)))
    tasks: dict[str, list[Task]] = {name: [] for name in connectors}
    for task in work.tasks:
        tasks.setdefault(task[0], []).append(task)
    return Work(tuple(connectors), tuple(task for group in tasks.values() for task in group))


Item = TypeVar("Item")


@dataclass(slots=True)
class Shelf(Generic[Item]):
    """One worker's connectors, or tasks: ``held`` in the worker's own order, ``added`` in this round."""

    worker: str
    held: dict[Item, None]
    added: list[Item] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.held) + len(self.added)

    def drop(self, items: Iterable[Item]) -> None:
        """Takes ``items`` off, wherever they came from."""
        gone = set(items)
        self.held = {item: None for item in self.held if item not in gone}
        self.added = [item for item in self.added if item not in gone]


def revocations(shelves: Sequence[Shelf[Item]], configured: int) -> dict[str, list[Item]]:
    """Return the items that each worker gives up to keep its part of ``configured`` items.

    Every worker may keep floor(configured / workers); the first that hold more, in the order of ``shelves``, may
    keep one more until the remainder is used up. Each gives up the items it holds first.
    """
    least, extras = divmod(configured, len(shelves))
    sizes = [len(shelf) for shelf in shelves]
    one_more = sizes.count(least + 1)
    if one_more == extras and sizes.count(least) + one_more == len(shelves):
        return {}
    answer: dict[str, list[Item]] = {}
    for shelf, size in zip(shelves, sizes, strict=True):
        if size <= least:
            continue
        most = least
        if extras:
            extras -= 1
            most = least + 1
        if size > most:
            answer[shelf.worker] = [*shelf.held, *shelf.added][: size - most]
    return answer


def fill(shelves: Sequence[Shelf[Item]], items: Iterable[Item]) -> None:
    """Adds ``items`` in their order to the workers that have least, level by level, by (load, id).

    O(workers log workers + items).
    """
    ordered = sorted(shelves, key=lambda shelf: (len(shelf), string_key(shelf.worker)))
    waiting = list(items)
    at = level_end = 0
    while at < len(waiting):
        level = len(ordered[0])
        while level_end < len(ordered) and len(ordered[level_end]) <= level:
            level_end += 1
        for shelf, item in zip(ordered[:level_end], waiting[at : at + level_end], strict=False):
            shelf.added.append(item)
        at += level_end
