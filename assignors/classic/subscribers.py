"""Who subscribes to a topic, worked out once for each distinct set of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from assignors.model import Member


class Subscribers:
    """Places, ascending, of a topic's subscribers; topics with the same subscribers share one list."""

    def __init__(self, members: Sequence[Member]) -> None:
        places: dict[tuple[str, ...], list[int]] = {}
        by_identity: dict[
            int, list[int]
        ] = {}  # hashing a long tuple for each member would cost more than the rest
        for place, member in enumerate(members):
            alike = by_identity.get(id(member.topics))
            if alike is None:
                alike = by_identity[id(member.topics)] = places.setdefault(member.topics, [])
            alike.append(place)
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
            merged = sorted([place for number in numbers for place in self._places[number]])
            self._merged[numbers] = merged
        return merged
