"""Compares the callbacks of real consumers with the diffs of their groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from streaming.records.diffs import Diff
from tests.support.histories import holds
from tests.support.members import Share


def distinct(shares: Iterable[Share]) -> list[Share]:
    """Return the assignments that are not empty and differ from the previous one."""
    found: list[Share] = []
    for share in ({topic: sorted(numbers) for topic, numbers in one.items() if numbers} for one in shares):
        if share and (not found or found[-1] != share):
            found.append(share)
    return found


def missing_callbacks(
    diffs: Iterable[Diff], names: Mapping[str, str], callbacks: Mapping[str, Iterable[Share]]
) -> list[str]:
    """Return a line for each member whose assignments do not all appear in the diffs, in order.

    The diffs may have more: a generation that the next one overtook reaches no callback.

    Args:
        diffs: of one group.
        names: client ids by member id.
        callbacks: by client id, the partitions that a consumer owned after each assignment.
    """
    held: dict[str, list[Share]] = defaultdict(list)
    for diff in diffs:
        for member_id, share in holds(diff).items():
            held[names.get(member_id, member_id)].append(share)
    found = []
    for name, shares in callbacks.items():
        owned, rest = distinct(shares), iter(distinct(held[name]))
        if not all(share in rest for share in owned):
            found.append(f"callbacks of {name} {owned}; diffs {distinct(held[name])}")
    return found
