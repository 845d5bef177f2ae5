"""Which partitions were moved from whom to whom (``PartitionMovements``): undoing a move beats a second one."""

from __future__ import annotations

from collections.abc import Iterator

from assignors.java import HashTable, signed, string_hash

#: (topic, from, to)
_Pair = tuple[str, int, int]
_SMALL = 8


class Movements:
    """The net movement of every partition, and the sets that Java looks reverse moves up in."""

    def __init__(self) -> None:
        self._of_partition: dict[tuple[str, int], _Pair] = {}
        self._moved: dict[_Pair, _MovedSet] = {}

    def snapshot(self) -> dict[_Pair, list[int]]:
        """All movements, each set in its order."""
        return {pair: list(moved) for pair, moved in self._moved.items()}

    def instead_of(self, name: str, partition: int, old: int, new: int) -> int:
        """The partition to move to ``new``: one of the topic that came from there to ``old``'s side, if any."""
        pair = self._of_partition.get((name, partition))
        reverse = self._moved.get((name, new, old if pair is None else pair[1]))
        return partition if reverse is None else reverse.first()

    def record(self, name: str, partition: int, old: int, new: int) -> None:
        """``movePartition``: two moves of a partition count as one from the first owner, or as none."""
        before = self._of_partition.pop((name, partition), None)
        if before is not None:
            moved = self._moved[before]
            moved.remove(partition)
            if not moved:
                del self._moved[before]
            old = before[1]
            if old == new:
                return
        pair = (name, old, new)
        self._of_partition[name, partition] = pair
        if pair not in self._moved:
            self._moved[pair] = _MovedSet(name)
        self._moved[pair].add(partition)


class _MovedSet:
    """A ``HashSet<TopicPartition>`` of one topic. Up to eight it can't have grown, and a dict tells the order."""

    __slots__ = ("_base", "_few", "_table")

    def __init__(self, name: str) -> None:
        self._base = string_hash(name) + 31 * 31
        self._few: dict[int, int] = {}
        self._table: HashTable | None = None

    def __len__(self) -> int:
        return len(self._few) if self._table is None else len(self._table)

    def __iter__(self) -> Iterator[int]:
        return iter(self._few if self._table is None else self._table)

    def add(self, partition: int) -> None:
        """It is not in the set; with the ninth the set becomes a table, which may grow."""
        code = signed(self._base + 31 * partition)
        if self._table is not None:
            self._table.add(partition, code)
            return
        self._few[partition] = code
        if len(self._few) > _SMALL:
            self._table = HashTable()
            for known, its_code in self._few.items():
                self._table.add(known, its_code)

    def remove(self, partition: int) -> None:
        """It is in the set."""
        if self._table is None:
            del self._few[partition]
        else:
            self._table.remove(partition)

    def first(self) -> int:
        """What ``iterator().next()`` gives."""
        if self._table is not None:
            return next(iter(self._table))
        few = self._few
        return min(few, key=lambda partition: (few[partition] ^ few[partition] >> 16) & 15)
