"""Set algebra on shares, ``{topic: ascending partitions}``, without empty topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.model import Share


def minus(left: Share, right: Share) -> Share:
    """What is in ``left`` and not in ``right``."""
    if not left or not right:
        return left
    found = {}
    for topic, partitions in left.items():
        taken = right.get(topic)
        if not taken:
            found[topic] = partitions
        elif partitions != taken:
            gone = set(taken)
            stay = [p for p in partitions if p not in gone]
            if stay:
                found[topic] = stay
    return found


def common(left: Share, right: Share) -> Share:
    """What is in both."""
    found = {}
    for topic, partitions in left.items():
        other = right.get(topic)
        if not other:
            continue
        if partitions == other:
            found[topic] = partitions
            continue
        both = set(other)
        stay = [p for p in partitions if p in both]
        if stay:
            found[topic] = stay
    return found


def union(left: Share, right: Share) -> Share:
    """What is in either."""
    if not left or not right:
        return right or left
    found = dict(left)
    for topic, partitions in right.items():
        found[topic] = sorted({*found.get(topic, ()), *partitions})
    return found


def only(share: Share, topics: Sequence[str]) -> Share:
    """The part of a share in these topics."""
    if tuple(share) == topics:
        return share
    wanted = set(topics)
    if wanted.issuperset(share):
        return share
    return {topic: partitions for topic, partitions in share.items() if topic in wanted}


def same(left: Share, right: Share) -> bool:
    """Whether both hold the same partitions; a ``range`` and a list with the same numbers are equal."""
    return left == right or (
        left.keys() == right.keys() and all(list(left[topic]) == list(right[topic]) for topic in left)
    )


def taken(shares: Mapping[str, Share]) -> dict[str, set[int]]:
    """All partitions in these shares, by topic."""
    found: dict[str, set[int]] = {}
    for share in shares.values():
        for topic, partitions in share.items():
            found.setdefault(topic, set()).update(partitions)
    return found


def tidy(share: Share) -> Share:
    """Lists, topics ascending, nothing empty: the form in which machines keep shares, so that equal is ``==``."""
    return {topic: list(share[topic]) for topic in sorted(share) if share[topic]}
