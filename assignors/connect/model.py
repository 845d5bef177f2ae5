"""Work of Connect's workers, and the leader's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from assignors.java import hash_set_copy_capacity, in_hash_order

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
        """Return the tasks as ``{connector: ascending task numbers}``, like the partitions of a consumer."""
        share: dict[str, list[int]] = {}
        for connector, number in sorted(self.tasks):
            share.setdefault(connector, []).append(number)
        return share


class WorkChange(NamedTuple):
    """One worker's part of a round: work to start (``assigned``) and to stop (``revoked``)."""

    assigned: Work = Work()
    revoked: Work = Work()


@dataclass(slots=True)
class LeaderMemory:
    """Memory of the leader between rounds (the fields of ``IncrementalCooperativeAssignor``).

    A worker that becomes leader starts from ``LeaderMemory()``. Sets are ascending tuples, so that equal states are
    equal values.
    """

    #: All work that ran or was lost after the previous round.
    previous: Work = Work()
    #: Work that the previous round revoked, until that is known to have taken effect.
    revoked: Work = Work()
    members: tuple[str, ...] = ()
    generation: int = -1
    revoked_in_previous: bool = False
    #: Workers that joined without work while a delay ran, in order.
    candidates: tuple[str, ...] = ()
    #: When the delayed rebalance is due (ms); 0: there is none.
    scheduled_ms: int = 0
    delay_ms: int = 0
    #: Number of consecutive rounds with revocations: the exponent of the back-off.
    successive_revocations: int = 0


class ConnectRound(NamedTuple):
    """Result of one round. After ``delay_ms`` > 0 the workers rejoin by themselves."""

    state: LeaderMemory
    changes: dict[str, WorkChange]
    delay_ms: int


def work_after(owned: Work, change: WorkChange) -> Work:
    """Return the work of a worker that ran ``owned`` and has applied ``change``, in its own order."""
    stopped_connectors, stopped_tasks = set(change.revoked.connectors), set(change.revoked.tasks)
    received = work_on_wire(change.assigned)
    return Work(
        (*received.connectors, *(name for name in owned.connectors if name not in stopped_connectors)),
        (*received.tasks, *(task for task in owned.tasks if task not in stopped_tasks)),
    )


def work_on_wire(work: Work) -> Work:
    """Return the same work in the order after decoding (``ExtendedAssignment.toStruct``)."""
    names = list(dict.fromkeys(work.connectors))
    connectors = in_hash_order(names, capacity=hash_set_copy_capacity(len(names)))
    tasks: dict[str, list[Task]] = {name: [] for name in connectors}
    for task in work.tasks:
        tasks.setdefault(task[0], []).append(task)
    return Work(tuple(connectors), tuple(task for group in tasks.values() for task in group))
