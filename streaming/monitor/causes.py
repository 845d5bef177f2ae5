"""Cause of an observed round, and generations that were written and not delivered.

The cause comes from evidence, else from the comparison with the generation before.

The coordinator of a classic group answers SyncGroup when the record of the generation is replicated. If the append
times out, or another member joins first, members get an error in place of their assignment and rejoin. The record
stays in the log (``GroupCoordinator.doSyncGroup``, ``GroupMetadataManager.classicGroupSyncToClassicGroup``).
Evidence:

- The coordinator's log: "Error … when storing group assignment during SyncGroup".
- The partitions that members own when they join the next generation: by the subscription (cooperative) or its user
  data (sticky). They are those of before the generation, though it changed them. The generation in a subscription
  proves nothing, as Java's client sets it from the JoinGroup response.

Members of ``range`` and ``roundrobin`` own nothing when they join, so only the log is evidence of theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from msgspec import structs

from assignors.assignment import LastOwners, collect_lists
from streaming.monitor.rounds import without_owned
from streaming.monitor.state import NOTHING, Former, GroupState, MemberState, ownership, tidy
from streaming.records.diffs import Cause, Undelivered
from streaming.records.events import COMPARISON, PROBING, UNDELIVERED, Evidence, GroupObserved, ObservedMember

#: The kind of a cause that neither evidence nor the comparison shows.
UNKNOWN = "group.observed"
#: A topic's new partition count: it may become known before or after the rebalance that it starts.
GROWTH = "topic.partitions_changed"
#: Where the evidence comes from that members' subscriptions are.
_SOURCE: Final = "owned-partitions"
#: The classic assignor whose members own partitions when they join, and say so even if these are none.
_COOPERATIVE: Final = "cooperative-sticky"
#: What can start a rebalance, in the order in which it names the cause when there is more than one.
KINDS = ("member.joined", "member.fenced", "member.left", "member.subscription_changed", GROWTH)


class Differing(NamedTuple):
    """Members that differ from the generation before."""

    joined: list[str]
    gone: list[str]
    resubscribed: list[str]


def compare(state: GroupState, members: tuple[MemberState, ...]) -> Differing:
    """Return the members that differ from the generation before."""
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


def has_evidence(cause: Cause, item: Evidence) -> bool:
    """Return whether a cause has this evidence, or evidence of its kind about the same members."""
    if item in cause.evidence:
        return True
    named = set(cause.member_ids) if cause.kind == item.kind else set[str]()
    named.update(member_id for other in cause.evidence if other.kind == item.kind for member_id in other.member_ids)
    return bool(item.member_ids) and named.issuperset(item.member_ids)


def learned(cause: Cause, state: GroupState, data: GroupObserved) -> Cause:
    """Return the cause of a further round: that of its rebalance, unless only later evidence names one."""
    if cause.kind != UNKNOWN:
        return cause
    evidence = [*data.evidence, *(hint for hint in state.hints if hint.kind == GROWTH)]
    new = [item for item in evidence if item not in cause.evidence]
    found = cause_of(Differing([], [], []), new, ())
    return cause if found.kind == UNKNOWN else structs.replace(found, evidence=[*cause.evidence, *new])


def unseen(state: GroupState, data: GroupObserved, number: int, *, first: bool) -> list[Evidence]:
    """Return evidence that earlier generations or epochs were not seen; empty if all were."""
    reason = None
    if first and number > 1 and not _begins(data, number):
        reason = f"first observation, at generation {number}"
    elif not first and number > state.generation + 1:
        reason = f"generations {state.generation + 1} to {number - 1} were not seen"
    return [] if reason is None else [Evidence(source=COMPARISON, reason=reason)]


def _begins(data: GroupObserved, number: int) -> bool:
    """Return whether this is the first epoch of all members, so that nobody was in the group before.

    Epochs of 4.3.1 begin at 2, so the number alone does not show it. A member of a streams group is at 1 until its
    target is there.
    """
    return bool(data.members) and all(
        member.previous_member_epoch == 0 and member.member_epoch in (1, number) for member in data.members
    )


def cause_of(
    seen: Differing, evidence: list[Evidence], members: Sequence[MemberState], unseen: Iterable[Evidence] = ()
) -> Cause:
    """Return the cause: the first kind, in the order of :data:`KINDS`, that evidence or else the comparison shows.

    ``members``: the group after the round. Members that joined and are gone again do not name the cause of a round
    that removes others.
    """
    evidence = [*evidence]
    gone: dict[str, list[str]] = {"member.fenced": [], "member.left": [], UNKNOWN: []}
    for member_id in seen.gone:
        said = {item.kind for item in evidence if member_id in item.member_ids}
        # The source saw the departure, and not whether it was a crash or a leave.
        unsure = UNKNOWN in said and "member.left" not in said
        gone["member.fenced" if "member.fenced" in said else UNKNOWN if unsure else "member.left"].append(member_id)
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
    return item.kind == "member.joined" and bool(item.member_ids) and present.isdisjoint(item.member_ids)


_SHOWN = {
    "member.joined": "not in the generation before",
    "member.fenced": "gone since the generation before, its session ended",
    "member.left": "gone since the generation before",
    "member.subscription_changed": "subscribes to other topics than in the generation before",
    UNKNOWN: "gone since the generation before, whether it left or crashed is not known",
}


def undo(state: GroupState, former: Former, data: GroupObserved) -> tuple[GroupState, Undelivered | None]:
    """Return the group without the part of its last generation that was not delivered; None: all of it was."""
    replaced = former.owned
    logged = [one for one in data.evidence if _is_about(one, state.generation)]
    if logged:
        members = [one.member_id for one in state.members if one.member_id in replaced]
        evidence = structs.replace(logged[0], member_ids=members)
    else:
        members = _unchanged(state, former, data)
        if not members:
            return state, None
        evidence = Evidence(
            source=_SOURCE,
            reason=f"generation {state.generation} was not delivered: "
            "members joined again with the partitions of before it",
            member_ids=members,
            kind=UNDELIVERED,
            generation=state.generation,
        )
    return _restored(state, former, {*members}), Undelivered(generation=state.generation, evidence=evidence)


def with_undelivered(cause: Cause, undelivered: Undelivered) -> Cause:
    """Return the cause of a round with the evidence that the generation before was not delivered."""
    others = [item for item in cause.evidence if not _is_about(item, undelivered.generation)]
    return structs.replace(cause, evidence=[*others, undelivered.evidence])


def _is_about(item: Evidence, generation: int) -> bool:
    return item.kind == UNDELIVERED and item.generation == generation


def _unchanged(state: GroupState, replaced: Former, data: GroupObserved) -> list[str]:
    """Return the members that own what they owned before the last generation, which gave them something else."""
    if data.kind == "connect":
        return []
    now = {member.member_id: member.owned for member in state.members}
    found = [
        one
        for one in data.members
        if one.member_id in replaced.owned
        and one.member_id in now
        and tidy(one.owned) == replaced.owned[one.member_id] != now[one.member_id]
        and _has_rejoined(one, state.generation)
    ]
    # Without partitions and without a generation a member may have lost what it had.
    says_so = state.assignor == _COOPERATIVE
    if any(one.owned or (says_so and one.owned_generation >= 0) for one in found):
        return [one.member_id for one in found]
    return []


def _has_rejoined(member: ObservedMember, generation: int) -> bool:
    """Return whether the subscription is of this join: of static members that are away the last one stays."""
    return member.group_instance_id is None or member.owned_generation >= generation


def _restored(state: GroupState, replaced: Former, member_ids: Collection[str]) -> GroupState:
    """Return the group in which these members own what they owned before the last generation."""
    members = tuple(
        structs.replace(member, owned=replaced.owned.get(member.member_id, NOTHING))
        if member.member_id in member_ids
        else member
        for member in state.members
    )
    owners: LastOwners = {topic: {**known} for topic, known in replaced.last_owners.items()}
    for member_id, share in replaced.owned.items():
        for topic, numbers in share.items():
            owners.setdefault(topic, {}).update(dict.fromkeys(numbers, member_id))
    free = without_owned(owners, collect_lists(ownership(members).values()))
    return structs.replace(state, members=members, last_owners=free)
