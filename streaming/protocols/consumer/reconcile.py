"""KIP-848's algebra, member by member and for a whole group (``CurrentAssignmentBuilder``, 4.3.1).

assigned     = current ∩ target
to revoke    = current − assigned
to assign    = target − assigned − what others still own
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from assignors.model import Share
from assignors.shares import common, minus, taken, tidy, union
from streaming.protocols.vocabulary import NOTHING


class Reconciliation(StrEnum):
    """``MemberState``: how far a member is with its target."""

    STABLE = "STABLE"
    UNREVOKED = "UNREVOKED_PARTITIONS"
    UNRELEASED = "UNRELEASED_PARTITIONS"


class CurrentAssignment(NamedTuple):
    """A member's current assignment: what it may own, what it has to give up first, and its epoch."""

    state: Reconciliation
    epoch: int
    assigned: Share
    revoking: Share = NOTHING


def advance(
    current: CurrentAssignment, target: Share, target_epoch: int, others: Share, owned: Share | None
) -> CurrentAssignment:
    """The member's next current assignment.

    Args:
        current: where it stands.
        target: its target assignment, topics that it does not subscribe to any more left out.
        target_epoch: the epoch of the target.
        others: which partitions of ``target`` other members still own or have to give up.
        owned: what the member says it owns; None when its heartbeat does not say.
    """
    if current.state is Reconciliation.STABLE and current.epoch == target_epoch:
        return current
    if current.state is Reconciliation.STABLE and current.assigned == target:
        return CurrentAssignment(Reconciliation.STABLE, target_epoch, current.assigned)
    if current.state is Reconciliation.UNREVOKED and (owned is None or common(owned, current.revoking)):
        return current
    assigned = common(current.assigned, target)
    revoking = minus(current.assigned, assigned)
    if revoking and (owned is None or common(owned, revoking)):
        return CurrentAssignment(Reconciliation.UNREVOKED, current.epoch, assigned, revoking)
    wanted = minus(target, assigned)
    free = minus(wanted, others)
    state = Reconciliation.UNRELEASED if minus(wanted, free) else Reconciliation.STABLE
    return CurrentAssignment(state, target_epoch, tidy(union(assigned, free)))


def first_round(
    held: Mapping[str, Share], target: Mapping[str, Share], members: Iterable[str]
) -> dict[str, Share]:
    """What each member has once everybody has given up what moves: its part of the target less what others held."""
    everyone = {name: held.get(name, NOTHING) for name in members}
    blocked = taken(everyone)
    after: dict[str, Share] = {}
    for name, share in everyone.items():
        wanted = target.get(name, NOTHING)
        if wanted == share:
            after[name] = wanted
            continue
        keep = common(share, wanted)
        free = {
            topic: [p for p in partitions if p not in blocked.get(topic, ())]
            for topic, partitions in minus(wanted, keep).items()
        }
        after[name] = tidy(union(keep, {topic: p for topic, p in free.items() if p}))
    return after
