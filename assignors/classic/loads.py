"""Who has how many partitions, so that the least loaded of any set of members is found in a few operations.

Members are bits: each load has the mask of the members that have it. The first in (load, id) order among a set is
the lowest bit of the first load whose mask meets the set's: C-speed on thousands of members at once.
"""

from __future__ import annotations

from bisect import bisect_left, insort


class Loads:
    """Loads of members numbered in the order of their ids.

    Attributes:
        of: the load of each member.
        version: changes with every move.
    """

    def __init__(self, of: list[int]) -> None:
        self.of = of
        self.version = 0
        self._masks: dict[int, int] = {}
        by_load: dict[int, list[int]] = {}
        for member, load in enumerate(of):
            by_load.setdefault(load, []).append(member)
        for load, members in by_load.items():
            self._masks[load] = mask_of(members, len(of))
        self._levels = sorted(self._masks)

    def least(self, mask: int) -> int:
        """The smallest load among the members of a non-empty mask."""
        masks = self._masks
        return next(load for load in self._levels if masks[load] & mask)

    def first_of_least(self, mask: int) -> int:
        """The first member, by (load, id), of a non-empty mask."""
        met = self._masks[self.least(mask)] & mask
        return (met & -met).bit_length() - 1

    def move(self, old: int, new: int) -> None:
        """One partition goes from ``old`` to ``new``."""
        self.version += 1
        self._change(old, -1)
        self._change(new, 1)

    def _change(self, member: int, by: int) -> None:
        load = self.of[member]
        bit = 1 << member
        left = self._masks[load] ^ bit
        if left:
            self._masks[load] = left
        else:
            del self._masks[load]
            del self._levels[bisect_left(self._levels, load)]
        load += by
        self.of[member] = load
        if load in self._masks:
            self._masks[load] |= bit
        else:
            self._masks[load] = bit
            insort(self._levels, load)


def mask_of(members: list[int], size: int) -> int:
    """The members as bits of an int; O(size)."""
    flags = bytearray(b"0") * size
    for member in members:
        flags[size - 1 - member] = 49  # "1"
    return int(flags, 2)
