"""The rack pass of sticky under equal subscriptions (``assignRackAwareRoundRobin``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from assignors.classic.dealer import Dealer
from assignors.classic.quotas import Quotas
from assignors.classic.racks import Racks

Free = list[tuple[str, Sequence[int]]]


def give_near(free: Free, racks: Racks, quotas: Quotas, sizes: list[int], dealer: Dealer) -> Free:
    """Give free partitions to members in their racks, those with the fewest such members first.

    Round-robin over the members under the floor, from a moving index; else to the first at the floor that may
    have one more. ``quotas`` and ``sizes`` follow.

    Returns:
        What no member in a rack could take, in the order in which it is dealt next.
    """
    order = sorted(
        [(name, partition) for name, partitions in free for partition in partitions],
        key=lambda item: racks.members_near(*item),
    )
    under = _Circle(quotas.under, racks)
    rest: list[tuple[str, Sequence[int]]] = []
    start = 0
    for name, partition in order:
        near = racks.of(name, partition)
        at = under.find(near, start)
        if at >= 0:
            place = under.places[at]
            sizes[place] += 1
            if sizes[place] >= quotas.floor:
                under.leave(at)
                if sizes[place] < quotas.ceiling and quotas.large < quotas.extra:
                    quotas.exact.append(place)
            else:
                at += 1
            start = at % len(under.places) if under.places else 0
        else:
            place = _first_exact(quotas, racks, near)
            if place < 0:
                rest.append((name, (partition,)))
                continue
            sizes[place] += 1
            if sizes[place] == quotas.ceiling:
                quotas.exact.remove(place)
                quotas.add_large()
        dealer.give(place, name, partition)
    return rest


def _first_exact(quotas: Quotas, racks: Racks, near: Collection[str]) -> int:
    return next((place for place in quotas.exact if racks.of_member[place] in near), -1)


class _Circle:
    """Members under the floor; knows at once when none is left in some racks."""

    def __init__(self, places: list[int], racks: Racks) -> None:
        self.places = places
        self._rack = racks.of_member
        self._left = Counter(self._rack[place] for place in places)

    def find(self, near: Collection[str], start: int) -> int:
        """The index of the first member from ``start`` on, around the circle, in one of the racks; -1 for none."""
        if not any(self._left[rack] for rack in near):
            return -1
        size = len(self.places)
        index = start
        while self._rack[self.places[index]] not in near:
            index = index + 1 if index + 1 < size else 0
        return index

    def leave(self, index: int) -> None:
        """The member at this index has the floor."""
        self._left[self._rack[self.places.pop(index)]] -= 1
