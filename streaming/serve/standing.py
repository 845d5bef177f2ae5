"""Whether what is shown is true now; when it is not, since when, and why."""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

from streaming.freshness.verdict import LateKind, Part
from streaming.serve.stories import Sort

#: What keeps the feed from being up to date.
StaleKind = Literal["topic-missing", "partition-offline", "history-blocked", "follower-stalled", LateKind]
STALE_KINDS: Final[tuple[StaleKind, ...]] = get_args(StaleKind)


class Stale(Struct, frozen=True):
    """What is shown was true at ``since`` (ms). ``reason`` is a clause that "since …" can follow."""

    kind: StaleKind
    reason: str
    since: int


class Standing(Struct, frozen=True):
    """How far the topics are read. ``lag`` counts records not read yet: None while the ends can't be known.

    ``parts``: what collectors and the stream say of themselves. ``whole``: the sorts of
    stories of which all are known.
    """

    caught_up: bool = False
    lag: int | None = 0
    stale: Stale | None = None
    parts: tuple[Part, ...] = ()
    whole: frozenset[Sort] = frozenset()
