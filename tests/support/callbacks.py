"""Compares the callbacks of real consumers with the diffs of the consumers' groups."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from streaming.records.diffs import Diff
from tests.support.histories import partitions_after
from tests.support.members import Share


def distinct(shares: Iterable[Share]) -> list[Share]:
    """Return the assignments in order, without empty ones and without consecutive repeats."""
    result: list[Share] = []
    for share in ({topic: sorted(numbers) for topic, numbers in owned.items() if numbers} for owned in shares):
        if share and (not result or result[-1] != share):
            result.append(share)
    return result


def missing_callbacks(
    diffs: Iterable[Diff], names: Mapping[str, str], callbacks: Mapping[str, Iterable[Share]]
) -> list[str]:
    """Return a line for each member with an assignment, seen in its callbacks, that is missing from the diffs.

    The diffs may contain more assignments: no callback reports a generation that was replaced before its members
        synced.

    Args:
        diffs: the diffs of one group.
        names: client ids by member id.
        callbacks: by client id, the partitions that a consumer owned after each assignment.
    """
    owned_shares: dict[str, list[Share]] = defaultdict(list)
    for diff in diffs:
        for member_id, share in partitions_after(diff).items():
            owned_shares[names.get(member_id, member_id)].append(share)
    lines = []
    for name, shares in callbacks.items():
        owned, rest = distinct(shares), iter(distinct(owned_shares[name]))
        if not all(share in rest for share in owned):
            lines.append(f"callbacks of {name} {owned}; diffs {distinct(owned_shares[name])}")
    return lines
