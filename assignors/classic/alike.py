"""Giving out topics that are divided alike: every member gets the same partitions of each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: So many topics are sooner entered one by one.
_FEW = 3


def give(
    shares: list[dict[str, Sequence[int]]],
    places: Iterable[int],
    parts: Iterable[Sequence[int]],
    names: Sequence[str],
) -> None:
    """The n-th part to the n-th place, of every topic; who has nothing yet gets a new share."""
    if len(names) <= _FEW:
        for place, part in zip(places, parts, strict=False):
            share = shares[place]
            for name in names:
                share[name] = part
        return
    like = dict.fromkeys(names)  # from a dict, Python makes another without looking for room as it grows
    for place, part in zip(places, parts, strict=False):
        if shares[place]:
            shares[place].update(dict.fromkeys(like, part))
        else:
            shares[place] = dict.fromkeys(like, part)
