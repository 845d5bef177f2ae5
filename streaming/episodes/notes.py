"""What an episode is made of: rounds, static members that came back without one, what is awaited, and quiet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from streaming.episodes.evidence import AssignmentChange
from streaming.records.diffs import Cause, Expected
from streaming.records.episodes import Waiting
from streaming.records.events import Holding
from streaming.records.names import Named


class RoundNote(Struct, frozen=True, gc=False):
    """One round, as far as an episode needs it.

    Attributes:
        id: of its diff.
        timestamp: ms.
        number: within its rebalance, from 1.
        protocol: ``classic``, ``consumer``, ``streams`` or ``share``.
        assignor: what it was assigned with.
        kind: of the group.
        cause: of its rebalance.
        delay_ms: how long Connect's tasks still wait for their worker; None: no such delay.
        joined: member ids that were not in the group before.
        gone: those that are not in it any more.
        before: how many members the group had.
        after: how many it has now.
        names: what those of ``joined`` and ``gone`` are called, and others perhaps.
        moved: partitions that another member than their last owner got.
        unassigned: what nobody has after it.
        remade: whether connectors or tasks are new, or are no more.
        midway: of the first round that is known of a group: it was there before.
        derived: nobody observes the group, so its cause is the event itself, and no conclusion of a collector.
        change: the partitions that it takes away and gives out; None: not known.
        expected: whether members got what its assignor makes of it; None where that is not asked.
        generation: or the group epoch; −1: unknown.
        repeats: the generation before was not delivered, so what it moved did not move.
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
    before: int
    after: int
    names: Mapping[str, Named]
    moved: Mapping[str, Sequence[int]]
    unassigned: Holding
    remade: bool = False
    midway: bool = False
    derived: bool = False
    change: AssignmentChange | None = None
    expected: Expected | None = None
    generation: int = -1
    repeats: bool = False


class BounceNote(NamedTuple):
    """Static members that came back under new member ids, which Kafka answers without a rebalance.

    Attributes:
        id: of the event that showed it; no diff has it.
        timestamp: ms.
        renamed: old member id → new member id.
        names: what the new ones are called, and the old ones where that is known.
        before: how many members the group has, before and after.
        protocol: as of a round.
        assignor: as of a round.
        kind: of the group.
        change: as of a round.
    """

    id: str
    timestamp: int
    renamed: Mapping[str, str]
    names: Mapping[str, Named]
    before: int
    protocol: str
    assignor: str | None
    kind: str
    change: AssignmentChange | None = None


class QuietNote(NamedTuple):
    """Nothing came after the note of this id for the quiet time: what a timer writes as ``group.quiet``."""

    after: str


class WaitNote(NamedTuple):
    """What a view of the group shows to be waited for; it may come without a round, and no diff has it.

    Attributes:
        id: of the event that showed it.
        timestamp: ms.
        waits: in the order of who can act first; empty where nothing is waited for.
        names: what the members of ``waits`` are called.
    """

    id: str
    timestamp: int
    waits: tuple[Waiting, ...]
    names: Mapping[str, Named]


Note = RoundNote | BounceNote | WaitNote | QuietNote


def midway(cause: Cause, before: Mapping[str, Holding]) -> bool:
    """Whether the first round that is known of a group shows that it was there before: others held something.

    Args:
        cause: of the round.
        before: what each member owned before it.
    """
    return any(share and one not in cause.member_ids for one, share in before.items())


def remade(
    before: Mapping[str, Holding],
    free: Mapping[str, Mapping[int, str]],
    after: Mapping[str, Holding],
    unassigned: Holding,
) -> bool:
    """Whether a round of Connect has connectors or tasks that are new, or has some no more.

    Args:
        before: what each worker had.
        free: the last owners of what nobody had.
        after: what each worker has.
        unassigned: what nobody has.
    """
    had = _tasks(before)
    known = had | {(name, task) for name, owners in free.items() for task in owners}
    has = _tasks(after)
    left = has | {(name, task) for name, tasks in unassigned.items() for task in tasks}
    return bool(after) and (not has <= known or not known <= left)


def _tasks(shares: Mapping[str, Holding]) -> set[tuple[str, int]]:
    return {(name, task) for share in shares.values() for name, tasks in share.items() for task in tasks}
