"""How many partitions each member may have when all have the same subscription, and who may still receive some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Quotas:
    """``extra`` members end with ``ceiling`` partitions, all others with ``floor``.

    Attributes:
        large: how many have the ceiling by now.
        under: members (places) below the floor.
        exact: members at the floor that may still get one more.
    """

    floor: int
    ceiling: int
    extra: int
    large: int = 0
    under: list[int] = field(default_factory=list)
    exact: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, partitions: int, members: int) -> Quotas:
        """The quotas of so many partitions over so many members."""
        floor, extra = divmod(partitions, members)
        return cls(floor, floor + (extra > 0), extra)

    def keep(self, place: int, size: int) -> int:
        """How many of ``size`` owned partitions a member keeps; called once for each member, in map order."""
        if size < self.floor:
            self.under.append(place)
            return size
        if size >= self.ceiling and self.large < self.extra:
            self.add_large()
            return self.ceiling
        if self.large < self.extra:
            self.exact.append(place)
        return self.floor

    def add_large(self) -> None:
        """One more member has the ceiling; the last of them closes the way for those at the floor."""
        self.large += 1
        if self.large == self.extra:
            self.exact.clear()

    def sort(self, keys: Sequence[str] | Sequence[bytes]) -> None:
        """By member id."""
        self.under.sort(key=keys.__getitem__)
        self.exact.sort(key=keys.__getitem__)

    def receivers(self, sizes: Sequence[int], count: int) -> list[int]:
        """Who gets each of the ``count`` free partitions, in their order.

        Round-robin over ``under``: who reaches the floor leaves the circle and queues up behind ``exact``; then one
        each from the front of that queue. Fewer than ``count`` when there is no more room.
        """
        order: list[int] = []
        circle = self.under
        queue = list(self.exact)
        missing = {place: self.floor - sizes[place] for place in circle}
        filled = 0
        while circle:
            rounds = min(missing[place] for place in circle) - filled
            order += circle * rounds
            filled += rounds
            queue += [place for place in circle if missing[place] == filled]
            circle = [place for place in circle if missing[place] > filled]
        order += queue[: count - len(order)]
        return order
