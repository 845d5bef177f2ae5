"""What diffs of a large group tell once: who caused a rebalance, and which partitions nobody has.

While many of a group's members are out at once, the round of each of the others has the same cause, and nearly the
same partitions without an owner. Said in each of them, a restart in ten waves would take four times the bytes in a
group of twice the members. So a diff that leaves members out leaves these out as well, where they are many and the
diff before has told them. :class:`streaming.wire.owners.Owners` puts them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import UNSET, structs

from assignors.diff import as_lists, size
from assignors.model import Share
from assignors.shares import held, minus
from streaming.monitor.rendering import AssignmentOutput, DiffOutput
from streaming.monitor.state import Said
from streaming.wire.diffs import Cause, MemberDiff, told_once
from streaming.wire.events import Holding


def sparing(
    output: DiffOutput, members: Mapping[str, MemberDiff], cause: Cause | None, unassigned: Holding
) -> DiffOutput:
    """The diff without what the one before it has told.

    Args:
        output: leaves members out.
        members: those that it names.
        cause: that of the diff before.
        unassigned: what nobody had by the diff before, as far as it need not be told again.
    """
    decided = output.decided
    if cause is not None and decided.number > 1 and decided.cause == cause and cause.is_told_once:
        same = Cause(kind=cause.kind, omitted=len(cause.member_ids))
        output = structs.replace(output, cause=same)
    return _freed(output, members.values(), unassigned)


def beginning(output: AssignmentOutput, said: Said, cause: Cause | None) -> AssignmentOutput:
    """The latest assignment with what the next diff need not say. ``cause``: that of the last one."""
    return structs.replace(
        output,
        after=said.last,
        cause=cause if cause is not None and cause.is_told_once else UNSET,
        unassigned=said.unassigned or UNSET,
    )


def _freed(output: DiffOutput, members: Iterable[MemberDiff], before: Holding) -> DiffOutput:
    """The diff with those partitions alone that had an owner before it.

    It stays as it is where what members gave and got does not tell which partitions have one now, as it does not of
    topics that are gone: then neither a reader that goes on nor one that goes back would find the others.
    """
    after = output.changes.unassigned
    if not before or not told_once(after):
        return output
    members = tuple(members)
    assigned, revoked = held(one.assigned for one in members), held(one.revoked for one in members)
    if _sorted(minus(before, after)) != _sorted(minus(assigned, revoked)):
        return output
    freed = as_lists(minus(after, before))
    return structs.replace(output, unassigned=freed, still_unassigned=size(after) - size(freed))


def _sorted(share: Share) -> dict[str, list[int]]:
    return {topic: sorted(numbers) for topic, numbers in share.items()}
