"""The loads of workers: what balancing takes away and what filling adds (KIP-415, KAFKA-12495).

Dense and mutable inside one call of ``incremental.assign``. Connectors and tasks are balanced apart, by the same
rules, each as one :class:`Shelf` for each worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from assignors.java import string_key

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
    """What each worker gives up to come down to its share of ``configured`` items.

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
