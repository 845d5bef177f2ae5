"""The cause of an observed round: by evidence, else by the comparison with the generation before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec import structs

from streaming.monitor.state import GroupState, MemberState
from streaming.records.diffs import Cause
from streaming.records.events import COMPARISON, PROBING, Evidence, GroupObserved

#: The kind of a cause that neither evidence nor the comparison shows.
UNKNOWN = "group.observed"
#: A topic's new partition count: it may become known before or after the rebalance that it starts.
GROWTH = "topic.partitions_changed"
#: What can start a rebalance, in the order in which it names the cause when there is more than one.
KINDS = (
    "member.joined",
    "member.fenced",
    "member.left",
    "member.subscription_changed",
    GROWTH,
)


class Differing(NamedTuple):
    """Who differs from the generation before."""

    joined: list[str]
    gone: list[str]
    resubscribed: list[str]


def compare(state: GroupState, members: tuple[MemberState, ...]) -> Differing:
    """Return who differs from the members of the generation before."""
    known = {member.member_id: member for member in state.members}
    now = {member.member_id for member in members}
    return Differing(
        joined=[member.member_id for member in members if member.member_id not in known],
        gone=[member_id for member_id in known if member_id not in now],
        resubscribed=[
            member.member_id
            for member in members
            if (before := known.get(member.member_id, member)) is not member
            and before.topics != member.topics
            and set(member.topics) != set(before.topics)
        ],
    )


def is_told(cause: Cause, item: Evidence) -> bool:
    """Whether a cause says already what this evidence does: in the same words, or of the same members."""
    if item in cause.evidence:
        return True
    named = set(cause.member_ids) if cause.kind == item.kind else set[str]()
    named.update(
        member_id for told in cause.evidence if told.kind == item.kind for member_id in told.member_ids
    )
    return bool(item.member_ids) and named.issuperset(item.member_ids)


def learned(cause: Cause, state: GroupState, data: GroupObserved) -> Cause:
    """The cause of a round that follows: its rebalance's, which later evidence may name where none did at first."""
    if cause.kind != UNKNOWN:
        return cause
    evidence = [*data.evidence, *(hint for hint in state.hints if hint.kind == GROWTH)]
    new = [item for item in evidence if item not in cause.evidence]
    found = cause_of(Differing([], [], []), new, ())
    return cause if found.kind == UNKNOWN else structs.replace(found, evidence=[*cause.evidence, *new])


def unseen(state: GroupState, data: GroupObserved, number: int, *, first: bool) -> list[Evidence]:
    """That there were generations, or epochs, before this one that were not seen."""
    reason = None
    if first and number > 1 and not _begins(data, number):
        reason = f"first observation, at generation {number}"
    elif not first and number > state.generation + 1:
        reason = f"generations {state.generation + 1} to {number - 1} were not seen"
    return [] if reason is None else [Evidence(source=COMPARISON, reason=reason)]


def _begins(data: GroupObserved, number: int) -> bool:
    """Whether all members are in their first epoch, and this is it: nobody was in the group before.

    Epochs of 4.3.1 begin at 2, so the number does not tell it. A member of a streams group is at 1 until its target
    is there.
    """
    return bool(data.members) and all(
        member.previous_member_epoch == 0 and member.member_epoch in (1, number) for member in data.members
    )


def cause_of(
    seen: Differing,
    evidence: list[Evidence],
    members: Sequence[MemberState],
    unseen: Iterable[Evidence] = (),
) -> Cause:
    """Return the cause: the first kind, in the order of :data:`KINDS`, that evidence or else the comparison shows.

    ``members``: the group after the round. Members that joined and are gone again do not name the cause of a round
    that removes others.
    """
    evidence = [*evidence]
    gone: dict[str, list[str]] = {"member.fenced": [], "member.left": [], UNKNOWN: []}
    for member_id in seen.gone:
        said = {item.kind for item in evidence if member_id in item.member_ids}
        # Somebody looked, and can't tell a crash from a leave.
        unsure = UNKNOWN in said and "member.left" not in said
        gone["member.fenced" if "member.fenced" in said else UNKNOWN if unsure else "member.left"].append(
            member_id
        )
    shown: dict[str, list[str]] = {
        "member.joined": seen.joined,
        "member.fenced": gone["member.fenced"],
        "member.left": gone["member.left"],
        "member.subscription_changed": seen.resubscribed,
        UNKNOWN: gone[UNKNOWN],
    }
    shown = {kind: ids for kind, ids in shown.items() if ids}
    present = {member.member_id for member in members}
    named = [
        kind
        for kind in KINDS
        if any(item.kind == kind and not (shown and _is_visit(item, present)) for item in evidence)
    ]
    scheduled = [item.kind for item in evidence if item.kind == PROBING]
    kind = next(iter([*named, *shown, *scheduled]), UNKNOWN)
    member_ids = shown.get(kind) or [
        member_id for item in evidence if item.kind == kind for member_id in item.member_ids
    ]
    evidence.extend(
        Evidence(source=COMPARISON, reason=_SHOWN[other], member_ids=ids, kind=other)
        for other, ids in shown.items()
        if other != kind
    )
    evidence.extend(unseen)
    return Cause(kind=kind, member_ids=list(dict.fromkeys(member_ids)), evidence=evidence)


def _is_visit(item: Evidence, present: AbstractSet[str]) -> bool:
    """Return whether evidence is of members that joined and are not in the group."""
    return item.kind == "member.joined" and bool(item.member_ids) and present.isdisjoint(item.member_ids)


_SHOWN = {
    "member.joined": "not in the generation before",
    "member.fenced": "gone since the generation before, its session ended",
    "member.left": "gone since the generation before",
    "member.subscription_changed": "subscribes to other topics than in the generation before",
    UNKNOWN: "gone since the generation before, whether it left or crashed is not known",
}
