"""Dealing whole topics round a circle of members: every share is a stride, and topics alike share them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assignors.model import Assignment, Member

#: A topic's name, its partition count, its subscribers' places in the circle, and who of those gets partition 0.
Turn = tuple[str, int, Sequence[int], int]


def deal(turns: Iterable[Turn], circle: Sequence[Member]) -> Assignment:
    """The shares by member id; members stand in the order of the circle."""
    answer: Assignment = {member.member_id: {} for member in circle}
    shares = list(answer.values())
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
        if len(names) == 1:
            (name,) = names
            for place, share in zip(turn, stride, strict=True):
                shares[place][name] = share
        else:
            for place, share in zip(turn, stride, strict=True):
                shares[place].update(dict.fromkeys(names, share))
    return answer
