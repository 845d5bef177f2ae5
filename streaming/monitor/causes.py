"""Cause of an observed round, and generations that the coordinator wrote but members never received.

The cause comes from evidence. If there is none, it comes from the comparison with the previous generation.

The coordinator of a classic group answers SyncGroup when the record of the generation is replicated. If the append
times out, or another member joins first, members get an error in place of their assignment and rejoin. The record
stays in the log (``GroupCoordinator.doSyncGroup``, ``GroupMetadataManager.classicGroupSyncToClassicGroup``).
Evidence:

- The coordinator's log: "Error … when storing group assignment during SyncGroup".
- The partitions that members own when they join the next generation. Their subscription lists them (cooperative),
  or its user data does (sticky). If a generation was not delivered, members still own the partitions from before
  it. The generation in a subscription proves nothing, as Java's client sets it from the JoinGroup response.

Members with ``range`` and ``roundrobin`` own nothing when they join, so only the log is evidence for them.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from assignors.assignment import LastOwners, collect_lists
from streaming.monitor.rounds import remaining_last_owners
from streaming.monitor.state import NOTHING, GroupState, MemberState, PriorState, ownership, sorted_partitions
from streaming.records.diffs import Cause, Undelivered
from streaming.records.events import COMPARISON, PROBING, UNDELIVERED, Evidence, GroupObserved

#: The kind of a cause that neither evidence nor the comparison with the previous generation reveals.
UNKNOWN_CAUSE_KIND = "group.observed"
#: Event of a topic's new partition count. It may arrive before or after the rebalance that the new count starts.
PARTITIONS_CHANGED = "topic.partitions_changed"
#: Source of evidence that comes from members' subscriptions.
_OWNED_PARTITIONS_SOURCE: Final = "owned-partitions"
#: The classic assignor whose members always list the partitions they own when they join; the list may be empty.
_COOPERATIVE: Final = "cooperative-sticky"
#: Events that can start a rebalance; the first one that applies is the kind of the rebalance's cause.
CAUSE_KINDS = ("member.joined", "member.fenced", "member.left", "member.subscription_changed", PARTITIONS_CHANGED)


class MemberDifferences(NamedTuple):
    """Members that joined, departed or changed their subscription since the previous generation."""

    joined: list[str]
    gone: list[str]
    resubscribed: list[str]


def compare_members(state: GroupState, members: tuple[MemberState, ...]) -> MemberDifferences:
    """Return the members that joined, left or changed their subscription since the previous generation."""
    past = {member.member_id: member for member in state.members}
    now = {member.member_id for member in members}
    return MemberDifferences(
        joined=[member.member_id for member in members if member.member_id not in past],
        gone=[member_id for member_id in past if member_id not in now],
        resubscribed=[
            member.member_id
            for member in members
            if (before := past.get(member.member_id, member)) is not member
            and before.topics != member.topics
            and set(member.topics) != set(before.topics)
        ],
    )


def has_evidence(cause: Cause, item: Evidence) -> bool:
    """Return whether a cause already contains this evidence, or evidence of its kind about the same members."""
    if item in cause.evidence:
        return True
    named = set(cause.member_ids) if cause.kind == item.kind else set[str]()
    named.update(name for same_kind in cause.evidence if same_kind.kind == item.kind for name in same_kind.member_ids)
    return bool(item.member_ids) and named.issuperset(item.member_ids)


def refine_cause(cause: Cause, state: GroupState, data: GroupObserved) -> Cause:
    """Return the cause of a follow-up round: the rebalance's known cause, else the cause that new evidence shows."""
    if cause.kind != UNKNOWN_CAUSE_KIND:
        return cause
    evidence = [*data.evidence, *(hint for hint in state.hints if hint.kind == PARTITIONS_CHANGED)]
    new = [item for item in evidence if item not in cause.evidence]
    later = find_cause(MemberDifferences([], [], []), new, ())
    return cause if later.kind == UNKNOWN_CAUSE_KIND else structs.replace(later, evidence=[*cause.evidence, *new])


def missed_generations(state: GroupState, data: GroupObserved, number: int, *, first: bool) -> list[Evidence]:
    """Return evidence that the source missed generations or epochs before this one; an empty list if it missed none."""
    if first and number > 1 and not _is_first_epoch(data, number):
        return [Evidence(source=COMPARISON, reason=f"first observation, at generation {number}")]
    if first or number <= state.generation + 1:
        return []
    return [Evidence(source=COMPARISON, reason=f"generations {state.generation + 1} to {number - 1} were not seen")]


def _is_first_epoch(data: GroupObserved, number: int) -> bool:
    """Return whether all members are at their first epoch, so that the group had no members before.

    Epochs of 4.3.1 begin at 2, so the number alone does not show it. A member of a streams group is at epoch 1 until
    its target has been computed.
    """
    return bool(data.members) and all(
        member.previous_member_epoch == 0 and member.member_epoch in (1, number) for member in data.members
    )


def find_cause(
    seen: MemberDifferences, evidence: list[Evidence], members: Sequence[MemberState], missed: Iterable[Evidence] = ()
) -> Cause:
    """Return the cause of a round: the first of :data:`CAUSE_KINDS` in the evidence, else by comparing members.

    ``members``: the group after the round. A member that joined and departed again is not the cause of a round that
    removes other members.
    """
    evidence = [*evidence]
    order = ("member.joined", "member.fenced", "member.left", "member.subscription_changed", UNKNOWN_CAUSE_KIND)
    shown: dict[str, list[str]] = {kind: [] for kind in order}
    shown |= {"member.joined": seen.joined, "member.subscription_changed": seen.resubscribed}
    for member_id in seen.gone:
        kinds = {item.kind for item in evidence if member_id in item.member_ids}
        # The source saw the departure, but not whether it was a crash or a leave.
        is_unknown = UNKNOWN_CAUSE_KIND in kinds and "member.left" not in kinds
        departure = "member.fenced" if "member.fenced" in kinds else UNKNOWN_CAUSE_KIND if is_unknown else "member.left"
        shown[departure].append(member_id)
    shown = {kind: ids for kind, ids in shown.items() if ids}
    present = {member.member_id for member in members}
    joins = [item for item in evidence if item.kind == "member.joined" and item.member_ids and shown]
    short_joins = [item for item in joins if present.isdisjoint(item.member_ids)]
    named = [kind for kind in CAUSE_KINDS if any(item.kind == kind and item not in short_joins for item in evidence)]
    kind = next(iter([*named, *shown, *[item.kind for item in evidence if item.kind == PROBING]]), UNKNOWN_CAUSE_KIND)
    member_ids = shown.get(kind) or [name for item in evidence if item.kind == kind for name in item.member_ids]
    others = [(_REASON_BY_DIFFERENCE[change], ids, change) for change, ids in shown.items() if change != kind]
    evidence += (Evidence(source=COMPARISON, reason=why, member_ids=ids, kind=change) for why, ids, change in others)
    evidence.extend(missed)
    return Cause(kind=kind, member_ids=list(dict.fromkeys(member_ids)), evidence=evidence)


_REASON_BY_DIFFERENCE = {
    "member.joined": "not in the generation before",
    "member.fenced": "gone since the generation before, its session ended",
    "member.left": "gone since the generation before",
    "member.subscription_changed": "subscribes to other topics than in the generation before",
    UNKNOWN_CAUSE_KIND: "gone since the generation before, whether it left or crashed is not known",
}


def delivered_share(state: GroupState, prior: PriorState, data: GroupObserved) -> tuple[GroupState, Undelivered | None]:
    """Return the group without the undelivered part of its last generation; None if everything was delivered."""
    replaced = prior.owned
    logged = [item for item in data.evidence if _is_about_generation(item, state.generation)]
    if logged:
        members = [member.member_id for member in state.members if member.member_id in replaced]
        evidence = structs.replace(logged[0], member_ids=members)
    else:
        members = _members_with_prior_share(state, prior, data)
        if not members:
            return state, None
        evidence = Evidence(
            source=_OWNED_PARTITIONS_SOURCE,
            reason=f"generation {state.generation} was not delivered: "
            "members rejoined with the partitions that they owned before it",
            member_ids=members,
            kind=UNDELIVERED,
            generation=state.generation,
        )
    return _restore_prior_state(state, prior, {*members}), Undelivered(generation=state.generation, evidence=evidence)


def add_undelivered(cause: Cause, undelivered: Undelivered) -> Cause:
    """Return the cause of a round, with the evidence that the previous generation was not delivered."""
    others = [item for item in cause.evidence if not _is_about_generation(item, undelivered.generation)]
    return structs.replace(cause, evidence=[*others, undelivered.evidence])


def _is_about_generation(item: Evidence, generation: int) -> bool:
    return item.kind == UNDELIVERED and item.generation == generation


def _members_with_prior_share(state: GroupState, replaced: PriorState, data: GroupObserved) -> list[str]:
    """Return ids of members that rejoin with their old partitions, although the last generation assigned new ones."""
    if data.kind == "connect":
        return []
    now = {member.member_id: member.owned for member in state.members}
    rejoined_members = [
        member
        for member in data.members
        if member.member_id in replaced.owned
        and member.member_id in now
        and sorted_partitions(member.owned) == replaced.owned[member.member_id] != now[member.member_id]
        # The subscription was sent with this join; an absent static member still has the subscription of its last join.
        and (member.group_instance_id is None or member.owned_generation >= state.generation)
    ]
    # A member that lists neither partitions nor a generation may have lost its partitions.
    reports_owned = state.assignor == _COOPERATIVE
    if any(member.owned or (reports_owned and member.owned_generation >= 0) for member in rejoined_members):
        return [member.member_id for member in rejoined_members]
    return []


def _restore_prior_state(state: GroupState, replaced: PriorState, member_ids: Collection[str]) -> GroupState:
    """Return the group with the partitions that these members owned before the last generation."""
    members = tuple(
        structs.replace(member, owned=replaced.owned.get(member.member_id, NOTHING))
        if member.member_id in member_ids
        else member
        for member in state.members
    )
    owners: LastOwners = {topic: {**by_partition} for topic, by_partition in replaced.last_owners.items()}
    for member_id, share in replaced.owned.items():
        for topic, numbers in share.items():
            owners.setdefault(topic, {}).update(dict.fromkeys(numbers, member_id))
    free = remaining_last_owners(owners, collect_lists(ownership(members).values()))
    return structs.replace(state, members=members, last_owners=free)
