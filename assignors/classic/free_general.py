"""Free partitions of the general sticky path: each to its least loaded subscriber (``maybeAssign``).

Loads only grow here, so a heap of (load, rank) whose entries lag behind is mended when one comes to the top: a heap
a distinct set of subscribers, O(log members) a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace

from assignors.classic.general_state import State
from assignors.classic.racks import Racks


def assign_free(state: State, free: Mapping[str, Sequence[int]]) -> None:
    """Give every free partition away: first to members in its racks, then what is left to anyone."""
    if state.racks is not None:
        free = _assign_near(state, state.racks, free)
    size = len(state.loads)
    heaps: dict[int, list[int]] = {}
    for name in state.owners:
        if name not in free:
            continue
        subscribers = state.subscribers[name]
        heap = heaps.get(id(subscribers))
        if heap is None:
            heap = heaps[id(subscribers)] = _heap(state.loads, subscribers)
        owners = state.owners[name]
        for partition in free[name]:
            rank = _mended(heap, state.loads) % size
            owners[partition] = rank
            state.loads[rank] += 1


def _heap(loads: Sequence[int], members: Iterable[int]) -> list[int]:
    size = len(loads)
    heap = [loads[member] * size + member for member in members]
    heapify(heap)
    return heap


def _mended(heap: list[int], loads: Sequence[int]) -> int:
    """The least entry that is up to date."""
    size = len(loads)
    while True:
        entry = heap[0]
        rank = entry % size
        current = loads[rank] * size + rank
        if entry == current:
            return entry
        heapreplace(heap, current)


def _assign_near(state: State, racks: Racks, free: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The rack pass: the least loaded subscriber that has no rack or one of the partition's. Gives what is left."""
    size = len(state.loads)
    heaps: dict[int, dict[str | None, list[int]]] = {}
    rest: dict[str, list[int]] = {}
    for name in state.owners:
        if name not in free:
            continue
        subscribers = state.subscribers[name]
        by_rack = heaps.get(id(subscribers))
        if by_rack is None:
            members: dict[str | None, list[int]] = {}
            for rank in subscribers:
                members.setdefault(racks.of_member[state.places[rank]], []).append(rank)
            by_rack = heaps[id(subscribers)] = {
                rack: _heap(state.loads, near) for rack, near in members.items()
            }
        in_racks = racks.of_topic(name)
        for partition in free[name]:
            tops = [
                _mended(by_rack[rack], state.loads)
                for rack in (None, *in_racks[partition])
                if rack in by_rack
            ]
            if tops:
                rank = min(tops) % size
                state.owners[name][partition] = rank
                state.loads[rank] += 1
            else:
                rest.setdefault(name, []).append(partition)
    return rest
