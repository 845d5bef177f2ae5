"""Notes about a group, from which its episodes are computed: rounds, rejoins of static members, and waits."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from streaming.episodes.downtime import AssignmentChange
from streaming.records.diffs import Cause, Diff, MemberNames
from streaming.records.episodes import Waiting
from streaming.records.events import Holding

#: Evidence of new partition counts: ``orders: 4 → 0 partitions``.
_PARTITION_COUNT_CHANGE: Final = re.compile(r": (\d+) → (\d+) partitions")


class RoundNote(Struct, frozen=True, gc=False):
    """Note of one rebalance round, from which episodes are built.

    Attributes:
        id: ``ce_id`` of the round's diff.
        diff: the round's diff, in which ``members`` and ``moved`` may be missing.
        joined, gone: ids of members that joined, and of members that departed.
        before, after: number of members before and after the round.
        names: identities of at least the members that joined, departed or requested the rebalance.
        moved: partitions assigned to another member than their last owner.
        changes_tasks: True if connectors or tasks were created or deleted.
        existed_before: True for the first known round of a group that existed before.
        derived: True if no collector observes the group, so that the cause is a member's event.
        change: partitions that the round takes away and assigns; None if unknown.
        rack: rack of all departed members; ``""``: several racks, or unknown.
        is_rack_empty: True if all remaining members are in other racks.
    """

    id: str
    timestamp: int
    diff: Diff
    joined: Sequence[str]
    gone: Sequence[str]
    before: int
    after: int
    names: Mapping[str, MemberNames]
    moved: Mapping[str, Sequence[int]]
    changes_tasks: bool = False
    existed_before: bool = False
    derived: bool = False
    change: AssignmentChange | None = None
    rack: str = ""
    is_rack_empty: bool = False


class BounceNote(NamedTuple):
    """Note of static members that rejoined under new member ids, which does not cause a rebalance.

    ``id``: id of the event, as there is no diff. ``renamed``: old member id → new member id. ``names``: identities of
    both, where known. ``before``: number of members, which does not change. ``change``: partitions that stopped and
    resumed; None if unknown.
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
    """Note of the members that a group waits for, from a snapshot; ``id``: id of the snapshot's event.

    Members that can act at once come first; ``waits`` is empty if the group waits for nothing.
    """

    id: str
    timestamp: int
    waits: tuple[Waiting, ...]
    names: Mapping[str, MemberNames]


def existed_before(cause: Cause, before: Mapping[str, Holding]) -> bool:
    """Return whether a group existed before its first known round: its members owned partitions before that round."""
    return any(share and member_id not in cause.member_ids for member_id, share in before.items())


def changes_tasks(
    before: Mapping[str, Holding],
    free: Mapping[str, Mapping[int, str]],
    after: Mapping[str, Holding],
    unassigned: Holding,
) -> bool:
    """Return whether connectors or tasks were created or deleted between two rounds of a Connect group.

    ``free``: last owners of the tasks without a worker in the first round; ``unassigned``: such tasks in the second.
    """
    existing_tasks, owned = _task_set([*before.values(), free]), _task_set(after.values())
    return bool(after) and (not owned <= existing_tasks or not existing_tasks <= owned | _task_set([unassigned]))


def topic_change(cause: Cause) -> str | None:
    """Return ``added`` or ``deleted`` if all changes of topics in a cause were, else ``""``; None without counts."""
    reasons = " ".join(item.reason for item in cause.evidence if item.kind == cause.kind)
    counts = [(int(old), int(new)) for old, new in _PARTITION_COUNT_CHANGE.findall(reasons)]
    if not counts:
        return None
    return "added" if not any(old for old, _ in counts) else "" if any(new for _, new in counts) else "deleted"


def _task_set(shares: Iterable[Mapping[str, Iterable[int]]]) -> set[tuple[str, int]]:
    return {(name, task) for share in shares for name, tasks in share.items() for task in tasks}
