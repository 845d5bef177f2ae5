"""``EagerAssignor``: all connectors, then all tasks, in a circle over the sorted workers.

Goals, in order: determinism, an even number of connectors plus tasks. Nothing is sticky: everything stops first.
O(workers log workers + tasks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from assignors.connect.model import Task, Work, check_configured, check_workers
from assignors.java import string_key


def assign(workers: Sequence[str], configured: Mapping[str, int]) -> dict[str, Work]:
    """Every worker's work. ``configured``: the number of tasks of each connector.

    The circle goes on from the last connector's worker to the first task, as Kafka's does.

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
