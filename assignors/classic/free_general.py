"""Free partitions of the general sticky path: each to its least loaded subscriber (``maybeAssign``).

Loads only grow here, so a heap of (load, rank) may hold entries that lag behind: each is mended when it comes to
the top. One heap for each distinct set of subscribers, O(log members) for each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TypeVar

from assignors.classic.general_state import State
from assignors.classic.racks import Racks

Made = TypeVar("Made")


def assign_free(state: State, free: Mapping[str, Sequence[int]]) -> None:
    """Give every free partition away: first to members in its racks, then what is left to anyone."""
    if state.racks is not None:
        free = _assign_near(state, state.racks, free)
    size = len(state.loads)
    for name, heap in _topics(state, free, lambda members: _heap(state.loads, members)):
        for partition in free[name]:
            _give(state, name, partition, _mended(heap, state.loads) % size)


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


def _give(state: State, name: str, partition: int, rank: int) -> None:
    state.owners[name][partition] = rank
    state.loads[rank] += 1


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

    for name, heaps in _topics(state, free, by_rack):
        in_racks = racks.of_topic(name)
        for partition in free[name]:
            tops = [
                _mended(heaps[rack], state.loads) for rack in (None, *in_racks[partition]) if rack in heaps
            ]
            if tops:
                _give(state, name, partition, min(tops) % size)
            else:
                rest.setdefault(name, []).append(partition)
    return rest
