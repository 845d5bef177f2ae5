"""Conditions come and go: :func:`found` opens, :func:`gone` closes.

A group has one open incident of a kind at most. What comes back within ``reopen_ms`` of its end is the same
incident once more (``times``), so that a condition that flaps is one thing to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import structs

from streaming.episodes.identity import MemberIdentity
from streaming.incidents.state import Condition, Finding, IncidentState
from streaming.records.events import Holding

#: Members and partitions that an incident names: one of a group of thousands is a record of megabytes else.
MOST_LISTED = 500
_NAMELESS = MemberIdentity()


def found(state: IncidentState, what: Finding, at: int, *, episode: int = 0, reopen_ms: int) -> IncidentState:
    """The group's incidents once something is wrong; ``state`` itself where that is known already.

    Args:
        state: before.
        what: is wrong.
        at: the event's time, ms.
        episode: number of the one that is open; 0: none.
        reopen_ms: as named in :class:`~streaming.incidents.state.Thresholds`.
    """
    known = state.known.get(what.kind)
    member_ids = tuple(what.member_ids[:MOST_LISTED])
    told: dict[str, object] = {
        "what": what.what,
        "member_ids": member_ids,
        "names": {one: what.names[one] for one in member_ids if what.names.get(one, _NAMELESS) != _NAMELESS},
        "partitions": _listed(what.partitions),
        "sure": what.sure,
        "evidence": tuple(what.evidence),
    }
    if known is None or (known.closed_at and at - known.closed_at > reopen_ms):
        fresh = structs.replace(Condition(state.last + 1, at, at, episode=episode), **told)
    else:
        fresh = structs.replace(known, closed_at=0, times=known.times + (not known.lasts), **told)
        if fresh == known:
            return state
        fresh = structs.replace(fresh, updated_at=at)
    return structs.replace(state, last=max(state.last, fresh.number), known={**state.known, what.kind: fresh})


def gone(state: IncidentState, kinds: Iterable[str], at: int) -> IncidentState:
    """The group's incidents once nothing of these kinds is wrong any more; ``state`` itself where nothing was."""
    ended = {
        kind: structs.replace(state.known[kind], closed_at=at, updated_at=at)
        for kind in kinds
        if state.lasts(kind)
    }
    return structs.replace(state, known={**state.known, **ended}) if ended else state


def changed(before: IncidentState | None, after: IncidentState | None) -> Iterator[tuple[str, Condition]]:
    """The incidents, with their kinds, whose records are other ones."""
    if after is None or after is before:
        return
    past = before.known if before is not None else {}
    for kind, condition in after.known.items():
        if past.get(kind) != condition:
            yield kind, condition


def _listed(partitions: Mapping[str, list[int]]) -> Holding:
    if sum(map(len, partitions.values())) <= MOST_LISTED:
        return dict(partitions)
    left, some = MOST_LISTED, Holding()
    for topic, numbers in partitions.items():
        if left > 0:
            some[topic] = numbers[:left]
            left -= len(some[topic])
    return some
