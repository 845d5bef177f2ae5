"""The algebra of shares: what a member holds, ``{topic: ascending partitions}``, as a set of partitions.

Partitions are lists or ranges. No topic is empty, in arguments and results alike; :func:`tidy` makes it so.
Nothing here changes its arguments, and a result may be, or hold, what was handed in: treat shares as frozen.
Differences between two rounds are in :mod:`assignors.diff`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from assignors.model import Share


def minus(left: Share, right: Share) -> Share:
    """Partitions in ``left`` that are not in ``right``."""
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
    """Partitions in both."""
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
    """Partitions in either."""
    if not left or not right:
        return right or left
    found = dict(left)
    for topic, partitions in right.items():
        found[topic] = sorted({*found.get(topic, ()), *partitions})
    return found


def only(share: Share, topics: Sequence[str]) -> Share:
    """Return the partitions of these topics alone."""
    if tuple(share) == topics:
        return share
    wanted = set(topics)
    if wanted.issuperset(share):
        return share
    return {topic: partitions for topic, partitions in share.items() if topic in wanted}


def taken(shares: Mapping[str, Share]) -> dict[str, set[int]]:
    """All partitions in these shares, a set for each topic."""
    found: dict[str, set[int]] = {}
    for share in shares.values():
        for topic, partitions in share.items():
            found.setdefault(topic, set()).update(partitions)
    return found


def tidy(share: Share) -> dict[str, list[int]]:
    """The share in new lists, topics ascending and none empty: in this form equal shares are ``==``."""
    if len(share) == 1:
        ((topic, partitions),) = share.items()
        return {topic: list(partitions)} if partitions else {}
    return {topic: list(share[topic]) for topic in sorted(share) if share[topic]}


def tidied(shares: Mapping[str, Share]) -> dict[str, dict[str, list[int]]]:
    """Every member's share, :func:`tidy`."""
    return {member: tidy(share) for member, share in shares.items()}


def minus_others(claim: Share, member: str, shares: Mapping[str, Share]) -> dict[str, list[int]]:
    """What a member claims, ascending and once each, without what others hold. A claim needs no order."""
    free: dict[str, list[int]] = {}
    for topic, partitions in claim.items():
        others = {p for other, share in shares.items() if other != member for p in share.get(topic, ())}
        mine = sorted({p for p in partitions if p not in others})
        if mine:
            free[topic] = mine
    return free


def existing(share: Share, counts: Mapping[str, int]) -> Share:
    """The share, or claim, without partitions beyond their topic's count; a topic without one is left as it is."""
    for topic, partitions in share.items():
        if topic in counts and partitions and max(partitions) >= counts[topic]:
            break
    else:
        return share
    kept = {topic: [p for p in share[topic] if p < counts.get(topic, p + 1)] for topic in share}
    return {topic: partitions for topic, partitions in kept.items() if partitions}


def held(shares: Iterable[Share]) -> dict[str, list[int]]:
    """Every topic's partitions, one share after the other: a partition in two shares is there twice."""
    found: dict[str, list[int]] = {}
    for share in shares:
        for topic, partitions in share.items():
            known = found.get(topic)
            if known is None:
                found[topic] = [*partitions]
            else:
                known += partitions
    return found


def unassigned(topics: Iterable[str], counts: Mapping[str, int], owned: Share) -> dict[str, list[int]]:
    """Partitions of these topics that are not among those ``owned``; a topic without a count has none."""
    found: dict[str, list[int]] = {}
    for topic in sorted(topics):
        whole = range(counts.get(topic, 0))
        taken = set(owned.get(topic, ()))
        if not taken.issuperset(whole):
            found[topic] = [p for p in whole if p not in taken]
    return found
