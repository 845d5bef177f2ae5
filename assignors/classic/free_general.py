"""Free partitions of the general sticky path: each to its least loaded subscriber (``maybeAssign``).

Loads only grow here, so a heap of (load, rank) may hold entries that lag behind: each is mended when it comes to
the top. One heap for each distinct set of subscribers, O(log members) for each partition.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TypeVar

from assignors.classic.general_state import State
from assignors.classic.racks import Racks

Made = TypeVar("Made")
#: A heap without members: its top is behind any other.
_NOBODY = [sys.maxsize]


def assign_free(state: State, free: Mapping[str, Sequence[int]]) -> None:
    """Give every free partition away: first to members in its racks, then what is left to anyone."""
    if state.racks is not None:
        free = _assign_near(state, state.racks, free)
    loads = state.loads
    size = len(loads)
    for name, heap in _topics(state, free, lambda members: _heap(loads, members)):
        owners = state.owners[name]
        for partition in free[name]:
            top = _mended(heap, loads)
            rank = owners[partition] = top % size
            loads[rank] += 1
            heapreplace(heap, top + size)


def _topics(
    state: State, free: Mapping[str, Sequence[int]], heaps_of: Callable[[Sequence[int]], Made]
) -> Iterator[tuple[str, Made]]:
    """Topics with free partitions in their order, each with the heaps made once for its set of subscribers."""
    made: dict[int, Made] = {}
    for name in state.owners:
        if name in free:
            subscribers = state.subscribers[name]
            if id(subscribers) not in made:
                made[id(subscribers)] = heaps_of(subscribers)
            yield name, made[id(subscribers)]


def _heap(loads: Sequence[int], members: Iterable[int]) -> list[int]:
    size = len(loads)
    heap = [loads[member] * size + member for member in members]
    heapify(heap)
    return heap


def _mended(heap: list[int], loads: Sequence[int]) -> int:
    """The least entry, once it is up to date."""
    size = len(loads)
    while True:
        entry = heap[0]
        rank = entry % size
        current = loads[rank] * size + rank
        if entry == current:
            return entry
        heapreplace(heap, current)


def _assign_near(state: State, racks: Racks, free: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The rack pass: each to the least loaded subscriber without a rack or in one of the partition's racks.

    Returns what is left.
    """
    size = len(state.loads)
    rest: dict[str, list[int]] = {}

    def by_rack(subscribers: Sequence[int]) -> dict[str | None, list[int]]:
        members: dict[str | None, list[int]] = {}
        for rank in subscribers:
            members.setdefault(racks.of_member[state.places[rank]], []).append(rank)
        return {rack: _heap(state.loads, near) for rack, near in members.items()}

    loads = state.loads
    for name, heaps in _topics(state, free, by_rack):
        in_racks = racks.of_topic(name)
        owners = state.owners[name]
        known: dict[tuple[str, ...], list[list[int]]] = {}
        for partition in free[name]:
            at = in_racks[partition]
            near = known.get(at)
            if near is None:
                near = known[at] = [heaps[rack] for rack in dict.fromkeys((None, *at)) if rack in heaps]
            best: list[int] = _NOBODY
            for heap in near:
                top = heap[0]
                if top // size != loads[top % size]:
                    top = _mended(heap, loads)
                if top < best[0]:
                    best = heap
            if best is _NOBODY:
                rest.setdefault(name, []).append(partition)
                continue
            rank = owners[partition] = best[0] % size
            loads[rank] += 1
            heapreplace(best, best[0] + size)
    return rest
