"""What a worker runs after a round, and the order in which it reports that (``WorkerCoordinator``, KIP-415).

The incremental assignor revokes what a worker reports first, so the order is part of the answer. On the wire a
worker's work is grouped by connector: first the connectors whose instance it holds, in ``HashSet`` order, then the
others in the order of their first task. A worker puts what it was newly given before what it kept.
"""

from __future__ import annotations

from assignors.connect.model import Task, Work, WorkChange
from assignors.java import hash_set_copy_capacity, in_hash_order


def after(owned: Work, change: WorkChange) -> Work:
    """What a worker that ran ``owned`` runs once it has applied ``change``, in its own order."""
    stopped_connectors, stopped_tasks = set(change.revoked.connectors), set(change.revoked.tasks)
    received = on_wire(change.assigned)
    return Work(
        (*received.connectors, *(name for name in owned.connectors if name not in stopped_connectors)),
        (*received.tasks, *(task for task in owned.tasks if task not in stopped_tasks)),
    )


def on_wire(work: Work) -> Work:
    """The same work in the order in which the other side reads it (``ExtendedAssignment.toStruct``)."""
    names = list(dict.fromkeys(work.connectors))
    connectors = in_hash_order(names, capacity=hash_set_copy_capacity(len(names)))
    tasks: dict[str, list[Task]] = {name: [] for name in connectors}
    for task in work.tasks:
        tasks.setdefault(task[0], []).append(task)
    return Work(tuple(connectors), tuple(task for group in tasks.values() for task in group))
