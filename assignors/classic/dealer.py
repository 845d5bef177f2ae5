"""Hands free partitions to members, withholding those that someone else must give up first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from assignors.model import Share


class Dealer:
    """Adds to kept shares.

    Args:
        kept: by place.
        lost: of each topic, the partitions that members had to give up, and whose they were.
        doubly: partitions claimed twice, whoever has them.
        withhold: partitions in ``lost`` of another member and in ``doubly`` are counted, but given to no one.
    """

    def __init__(
        self,
        kept: Sequence[Share],
        lost: Mapping[str, Mapping[int, int]],
        doubly: set[tuple[str, int]],
        *,
        withhold: bool,
    ) -> None:
        self.shares: list[dict[str, Sequence[int]]] = [dict(share) for share in kept]
        self._lost = lost if withhold else {}
        self._doubly: dict[str, set[int]] = {}
        for name, partition in doubly if withhold else ():
            self._doubly.setdefault(name, set()).add(partition)

    def deal(self, free: Sequence[tuple[str, Sequence[int]]], receivers: Sequence[int]) -> None:
        """The n-th free partition to the n-th receiver."""
        start = 0
        shares = self.shares
        for name, partitions in free:
            turn = receivers[start : start + len(partitions)]
            start += len(partitions)
            if name in self._lost or name in self._doubly or len(set(turn)) < len(turn):
                self.give(zip(partitions, turn, strict=True), name)
                continue
            for place, partition in zip(turn, partitions, strict=True):
                share = shares[place]
                share[name] = sorted({*share[name], partition}) if name in share else (partition,)

    def give(self, pairs: Iterable[tuple[int, int]], name: str) -> None:
        """A topic's ascending partitions, each to the next member (by place)."""
        lost = self._lost.get(name, {})
        doubly = self._doubly.get(name, ())
        given: dict[int, list[int]] = {}
        for partition, place in pairs:
            if lost.get(partition, place) == place and partition not in doubly:
                given.setdefault(place, []).append(partition)
        for place, partitions in given.items():
            share = self.shares[place]
            share[name] = sorted({*share[name], *partitions}) if name in share else partitions
