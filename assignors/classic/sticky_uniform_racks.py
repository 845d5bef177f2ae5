"""The rack pass of sticky under equal subscriptions (``assignRackAwareRoundRobin``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from assignors.classic.dealer import Dealer
from assignors.classic.quotas import Quotas
from assignors.classic.racks import Racks

Free = list[tuple[str, Sequence[int]]]
NO_ONE = -1


def give_near(free: Free, racks: Racks, quotas: Quotas, sizes: list[int], dealer: Dealer) -> Free:
    """Give free partitions to members in their racks, those with the fewest such members first.

    ``quotas`` and ``sizes`` follow. Gives what no member in a rack could take, in the order in which it is dealt.
    """
    circle = _Circle(racks, quotas, sizes)
    given: dict[str, list[tuple[int, int]]] = {name: [] for name, _ in free}
    rest: Free = []
    for name, partition, near in _rarest_first(free, racks):
        place = circle.take(near)
        if place == NO_ONE:
            rest.append((name, (partition,)))
        else:
            given[name].append((partition, place))
    for name, pairs in given.items():
        pairs.sort()
        dealer.give(pairs, name)
    return rest


def _rarest_first(free: Free, racks: Racks) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Free partitions and their racks, stable by how many members there are in those racks."""
    items = [
        (name, partition, near)
        for name, partitions in free
        for of_topic in (racks.of_topic(name),)
        for partition in partitions
        for near in (of_topic[partition],)
    ]
    near_by = racks.members_near
    known: dict[tuple[str, ...], int] = {near: near_by(near) for near in {item[2] for item in items}}
    counts = [known[item[2]] for item in items]
    return map(items.__getitem__, sorted(range(len(items)), key=counts.__getitem__))


class _Circle:
    """Members under the floor, served round-robin; behind them those at the floor that may have one more."""

    def __init__(self, racks: Racks, quotas: Quotas, sizes: list[int]) -> None:
        self._rack = racks.of_member
        self._quotas = quotas
        self._sizes = sizes
        self._under = quotas.under
        self._start = 0
        # How many of them there are in each rack, so that a search that would fail is not begun.
        self._left = Counter(self._rack[place] for place in quotas.under)

    def take(self, near: Collection[str]) -> int:
        """Who gets a partition in these racks: the next under the floor, else the first at it."""
        left = self._left
        for rack in near:
            if left[rack]:
                break
        else:
            return self._take_exact(near)
        rack_of, under, index = self._rack, self._under, self._start
        size = len(under)
        place = under[index]
        while rack_of[place] not in near:
            index += 1
            if index == size:
                index = 0
            place = under[index]
        held = self._sizes[place] = self._sizes[place] + 1
        quotas = self._quotas
        if held < quotas.floor:
            index += 1
        else:
            del under[index]
            size -= 1
            left[rack_of[place]] -= 1
            if held < quotas.ceiling and quotas.large < quotas.extra:
                quotas.exact.append(place)
        self._start = index if index < size else 0
        return place

    def _take_exact(self, near: Collection[str]) -> int:
        quotas = self._quotas
        for place in quotas.exact:
            if self._rack[place] in near:
                self._sizes[place] += 1
                if self._sizes[place] == quotas.ceiling:
                    quotas.exact.remove(place)
                    quotas.add_large()
                return place
        return NO_ONE
