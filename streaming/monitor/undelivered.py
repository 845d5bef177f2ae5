"""Generations that were written and not delivered: the next generation shows what members really owned.

The coordinator of a classic group answers SyncGroup when the record of the generation is replicated. Until then the
append may time out (followers are down), or another member may join. Members then get an error instead of their
assignment and join again, and the record stays in the log (``GroupCoordinator.doSyncGroup``,
``GroupMetadataManager.classicGroupSyncToClassicGroup``). Evidence of it:

- The coordinator's log: "Error … when storing group assignment during SyncGroup".
- The partitions that members own by the subscription with which they join the next generation (cooperative), or by
  its user data (sticky). They are those of before the generation, though it changed them. The generation in a
  subscription proves nothing, as Java's client sets it from the JoinGroup response.

Members of ``range`` and ``roundrobin`` own nothing when they join, so of these only the log is evidence.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import structs

from assignors.assignment import LastOwners, collect_lists
from streaming.monitor.rounds import without_owned
from streaming.monitor.state import NOTHING, Former, GroupState, ownership
from streaming.records.diffs import Cause, Undelivered
from streaming.records.events import UNDELIVERED, Evidence, GroupObserved, ObservedMember

#: Where the evidence comes from that members' subscriptions are.
_SOURCE: Final = "owned-partitions"
#: The classic assignor whose members own partitions when they join, and say so even if these are none.
_COOPERATIVE: Final = "cooperative-sticky"


def undo(state: GroupState, data: GroupObserved) -> tuple[GroupState, Undelivered | None]:
    """Return the group without the part of its last generation that was not delivered; None: all of it was.

    Args:
        state: the group before the next generation.
        data: the next generation.
    """
    if state.former is None or data.counts_epochs or data.polled or state.counted:
        return state, None
    replaced = state.former.owned
    logged = [one for one in data.evidence if _is_about(one, state.generation)]
    if logged:
        members = [one.member_id for one in state.members if one.member_id in replaced]
        evidence = structs.replace(logged[0], member_ids=members)
    else:
        members = _unchanged(state, state.former, data)
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
    return _restored(state, state.former, {*members}), Undelivered(
        generation=state.generation, evidence=evidence
    )


def with_undelivered(cause: Cause, undelivered: Undelivered | None) -> Cause:
    """Return the cause of a round with the evidence that the generation before was not delivered."""
    if undelivered is None:
        return cause
    others = [item for item in cause.evidence if not _is_about(item, undelivered.generation)]
    return structs.replace(cause, evidence=[*others, undelivered.evidence])


def _is_about(item: Evidence, generation: int) -> bool:
    """Return whether evidence says that this generation was not delivered."""
    return item.kind == UNDELIVERED and item.generation == generation


def _unchanged(state: GroupState, replaced: Former, data: GroupObserved) -> list[str]:
    """Return the members that own what they owned before the last generation, which gave them something else."""
    if data.kind == "connect":
        return []
    now = ownership(state.members)
    found = [
        one
        for one in data.members
        if one.member_id in replaced.owned
        and one.member_id in now
        and _tidy(one) == replaced.owned[one.member_id] != now[one.member_id]
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


def _tidy(member: ObservedMember) -> dict[str, list[int]]:
    return {topic: sorted(set(numbers)) for topic, numbers in member.owned.items() if numbers}


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
