"""Notes: the input of an episode. Rounds, rejoined static members and waits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from streaming.episodes.downtime import AssignmentChange
from streaming.records.diffs import Cause, Expected, MemberNames
from streaming.records.episodes import Waiting
from streaming.records.events import Holding

#: Evidence of new partition counts: ``orders: 4 → 0 partitions``.
_COUNTS: Final = re.compile(r": (\d+) → (\d+) partitions")


class RoundNote(Struct, frozen=True, gc=False):
    """One round.

    Attributes:
        id: id of its diff.
        timestamp: ms.
        number: within its rebalance, from 1.
        kind: of the group.
        cause: of its rebalance.
        delay_ms: Connect's scheduled delay; None: there is none.
        joined: member ids that are new.
        gone: member ids that departed.
        requesters: other members that requested the rebalance by a rejoin or a new subscription.
        before, after: number of members.
        names: identities of ``joined``, ``gone`` and ``requesters``, and perhaps of others.
        moved: partitions that another member than their last owner got.
        unassigned: partitions without an owner after it.
        remade: connectors or tasks were created or deleted.
        midway: the first round of a group that existed before.
        derived: no collector follows the group, so its cause is the event itself.
        change: the partitions that it takes away and gives out; None if unknown.
        expected: the comparison with its assignor; None if there is none.
        generation: or the group epoch; −1 if unknown.
        repeats: the generation before was not delivered, so what it moved did not move.
        topics: ``added`` or ``deleted``, if new partition counts only did that to the members' topics.
        rack: of all members that departed; ``""``: they had several, or it is unknown.
        is_rack_empty: nobody in that rack is left, and all who are left are in other racks.
    """

    id: str
    timestamp: int
    number: int
    protocol: str
    assignor: str | None
    kind: str
    cause: Cause
    delay_ms: int | None
    joined: Sequence[str]
    gone: Sequence[str]
    requesters: Sequence[str]
    before: int
    after: int
    names: Mapping[str, MemberNames]
    moved: Mapping[str, Sequence[int]]
    unassigned: Holding
    remade: bool = False
    midway: bool = False
    derived: bool = False
    change: AssignmentChange | None = None
    expected: Expected | None = None
    generation: int = -1
    repeats: bool = False
    topics: str = ""
    rack: str = ""
    is_rack_empty: bool = False


class BounceNote(NamedTuple):
    """Static members that rejoined under new member ids, which makes no rebalance.

    Attributes:
        id: of the event; there is no diff.
        renamed: old member id → new member id.
        names: identities of the new ones, and of the old ones if known.
        before: number of members, before and after.
        change: the partitions that stopped and resumed; None if unknown.
    """

    id: str
    timestamp: int
    renamed: Mapping[str, str]
    names: Mapping[str, MemberNames]
    before: int
    protocol: str
    assignor: str | None
    kind: str
    change: AssignmentChange | None = None


class WaitNote(NamedTuple):
    """Waits that the snapshot of this id shows, with names of their members; there is no diff.

    Members that can act come first; ``waits`` is empty if the group waits for nothing.
    """

    id: str
    timestamp: int
    waits: tuple[Waiting, ...]
    names: Mapping[str, MemberNames]


def midway(cause: Cause, before: Mapping[str, Holding]) -> bool:
    """Return whether a group existed before its first known round: members owned partitions before it."""
    return any(share and one not in cause.member_ids for one, share in before.items())


def remade(
    before: Mapping[str, Holding],
    free: Mapping[str, Mapping[int, str]],
    after: Mapping[str, Holding],
    unassigned: Holding,
) -> bool:
    """Return whether connectors or tasks were created or deleted between two rounds of Connect.

    ``free``: last owners of tasks without a worker before. ``unassigned``: tasks without a worker after.
    """
    had = _tasks(before)
    known = had | {(name, task) for name, owners in free.items() for task in owners}
    has = _tasks(after)
    left = has | {(name, task) for name, tasks in unassigned.items() for task in tasks}
    return bool(after) and (not has <= known or not known <= left)


def changed_topics(cause: Cause) -> str:
    """Return ``added`` or ``deleted`` if the new partition counts say no more than that; ``""``: they say more."""
    reasons = " ".join(item.reason for item in cause.evidence if item.kind == cause.kind)
    counts = [(int(was), int(now)) for was, now in _COUNTS.findall(reasons)]
    if not counts:
        return ""
    return "added" if not any(was for was, _ in counts) else "" if any(now for _, now in counts) else "deleted"


def _tasks(shares: Mapping[str, Holding]) -> set[tuple[str, int]]:
    return {(name, task) for share in shares.values() for name, tasks in share.items() for task in tasks}
