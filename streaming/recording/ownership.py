"""Owners of one partition in each group, and when and why they changed, as the diffs show."""

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, Struct

from streaming.records.diffs import Cause, Diff
from streaming.records.events import MAX_TIMESTAMP
from streaming.records.names import display_names

#: The most moves that are listed per group.
_MAX_LISTED_MOVES: Final = 10


class PartitionMove(Struct, frozen=True, rename="camel"):
    """A change of a partition's owners: diff id, time and cause; ``names``: display names of its members."""

    at: int
    id: str
    cause: Cause
    owners: list[str]
    before: list[str]
    names: dict[str, str]


class PartitionOwner(Struct, frozen=True, rename="camel"):
    """Owners of a partition in one group (only share groups have several owners), and its moves, the newest first."""

    group_id: str
    topic: str
    partition: int
    owners: list[str]
    since: int
    moves: list[PartitionMove]


def partition_owners(
    diffs: Iterable[tuple[str, Diff]], topic: str, partition: int, until_ms: int = MAX_TIMESTAMP
) -> list[PartitionOwner]:
    """Return the owners of a partition by group id.

    ``diffs``: pairs of the ``ce_id`` and the diff; the diffs of each group must be in order.
    """
    moves: dict[str, list[PartitionMove]] = {}
    for diff_id, diff in diffs:
        if diff.timestamp > until_ms:
            continue
        own = moves.setdefault(diff.group_id, [])
        before = own[-1].owners if own else []
        # A diff that lists only changed members has no information about the other members.
        unlisted = [] if diff.unchanged is UNSET else [member for member in before if member not in diff.members]
        holders = [
            member_id
            for member_id, member in diff.members.items()
            if partition in member.assigned.get(topic, ()) or partition in member.kept.get(topic, ())
        ]
        if (owners := [*unlisted, *holders]) != before:
            names = display_names(diff.named)
            named = {member: names[member] for member in names.keys() & {*owners, *before, *diff.cause.member_ids}}
            own.append(PartitionMove(diff.timestamp, diff_id, diff.cause, owners, before, named))
    return [
        PartitionOwner(group_id, topic, partition, own[-1].owners, own[-1].at, own[: -_MAX_LISTED_MOVES - 1 : -1])
        for group_id, own in sorted(moves.items())
        if own
    ]
