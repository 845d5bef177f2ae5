"""Dealing whole topics round a circle of members: every share is a stride, and topics alike share them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assignors.classic.alike import give
from assignors.model import Assignment

#: A topic's name, its partition count, its subscribers' places in the circle, and who of those gets partition 0.
Turn = tuple[str, int, Sequence[int], int]


def deal(turns: Iterable[Turn], circle: Sequence[str]) -> Assignment:
    """The shares by member id; these stand in the order of the circle."""
    shares: list[dict[str, Sequence[int]]] = [{} for _ in circle]
    alike: dict[tuple[int, int, int], tuple[Sequence[int], list[str]]] = {}
    for name, count, places, start in turns:
        alike.setdefault((count, id(places), start), (places, []))[1].append(name)
    strides: dict[tuple[int, int], list[range]] = {}
    for (count, _, start), (places, names) in alike.items():
        size = len(places)
        stride = strides.get((count, size))
        if stride is None:
            stride = strides[count, size] = [range(first, count, size) for first in range(min(count, size))]
        turn = places[start : start + count]
        if len(turn) < len(stride):
            turn = [*turn, *places[: len(stride) - len(turn)]]
        give(shares, turn, stride, names)
    return dict(zip(circle, shares, strict=True))
