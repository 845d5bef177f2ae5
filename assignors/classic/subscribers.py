"""Who subscribes to a topic, worked out once for each distinct set of subscriptions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from assignors.model import Member


class Subscribers:
    """Places, ascending, of a topic's subscribers; topics with the same subscribers share one list."""

    def __init__(self, members: Sequence[Member]) -> None:
        # Hashing a long tuple for each member would cost more than the rest.
        lists = [member.topics for member in members]
        by_identity = defaultdict[int, list[int]](list)
        for place, address in enumerate(map(id, lists)):
            by_identity[address].append(place)
        places: dict[tuple[str, ...], list[int]] = {}
        for alike in by_identity.values():
            known = places.setdefault(lists[alike[0]], alike)
            if known is not alike:
                known += alike
        self._subscriptions = list(places)
        self._places = list(places.values())
        self._of_topic: dict[str, list[int]] = {}
        for number, subscription in enumerate(self._subscriptions):
            for name in subscription:
                self._of_topic.setdefault(name, []).append(number)
        self._merged: dict[tuple[int, ...], list[int]] = {}

    def of(self, name: str) -> list[int]:
        """The places of the topic's subscribers: the caller must not change the list."""
        numbers = tuple(dict.fromkeys(self._of_topic.get(name, ())))  # a topic may be listed twice
        merged = self._merged.get(numbers)
        if merged is None:
            merged = sorted(chain.from_iterable(self._places[number] for number in numbers))
            self._merged[numbers] = merged
        return merged
