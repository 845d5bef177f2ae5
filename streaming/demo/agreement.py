"""Comparison of diffs with the reports of the consumers' own rebalance callbacks.

For every generation, a member's partitions after the round in the diff must equal the partitions that the member's
callbacks have reported until then.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from assignors.assignment import normalize, union
from streaming.records.diffs import Diff, MemberDiff
from streaming.records.events import Partitions


class ReportLine(Struct, frozen=True, rename="camel"):
    """Report of one callback of one consumer (:mod:`streaming.demo.consumer`)."""

    at: int
    name: str
    member_id: str
    generation: int
    event: str
    partitions: Partitions
    owned: Partitions
    closing: bool = False


class ReportComparison(NamedTuple):
    """Result of comparing diffs with callbacks: the number of compared (member, generation) pairs, and differences."""

    compared: int
    differences: tuple[str, ...]


def partitions_after(member: MemberDiff) -> Partitions:
    """Return the partitions of a member after a rebalance round: kept and assigned partitions."""
    return normalize(union(member.kept, member.assigned))


def _owned_by_generation(lines: Iterable[ReportLine], *, eager: bool) -> dict[int, Partitions]:
    """Return the partitions that a member owned after all callbacks of a generation, by generation.

    Revocations of eager members are skipped: eager members revoke all partitions before they rejoin, still under the
    old generation. Partitions that a consumer gives up while it closes do not belong to any generation.
    """
    done = (line for line in lines if not line.closing and line.generation >= 0)
    return {line.generation: line.owned for line in done if line.event == "assigned" or not eager}


def compare(diffs: Iterable[Diff], reports: Iterable[ReportLine], eager_groups: Mapping[str, bool]) -> ReportComparison:
    """Compare each member's partitions in every diff with the reports of the member's callbacks.

    ``eager_groups``: by group, True if its members use the eager protocol. A member is compared from the first
    generation that it reported. A generation that begins while the consumer closes may be in its last callbacks or in
    none, because a consumer receives the generation's number before its partitions. For a generation without a callback
    (cooperative: the member's partitions did not change), the partitions before it are compared. A cooperative client
    may have joined the next round before its callback revokes partitions; that callback then has the number of the next
    round.

    A consumer does not report a generation in which it was killed, or which the next one replaced before the consumer
    received its partitions. Then its partitions before the generation are compared, but a difference is not counted.
    """
    reports_by_member: dict[str, list[ReportLine]] = defaultdict(list)
    for line in reports:
        reports_by_member[line.member_id].append(line)
    numbered_diffs = [(diff.generation, diff) for diff in diffs if diff.generation is not None]
    compared_count, differences = 0, []
    for generation, diff in numbered_diffs:
        eager = eager_groups[diff.group_id]
        for member_id, member in diff.members.items():
            lines = reports_by_member[member_id]
            held, last = _owned_by_generation(lines, eager=eager), max((line.generation for line in lines), default=-1)
            earlier = [reported for reported in held if reported <= generation]
            has_left = any(line.closing for line in lines) or not partitions_after(member)
            if not earlier or (generation > last and has_left):
                continue  # The member has not joined yet, is leaving, or crashed, and so has no callback.
            closing_reports = [line.owned for line in lines if line.closing and line.generation == generation]
            owned = [held[max(earlier)], *closing_reports]
            late = next((line for line in lines if line.generation == generation + 1), None)
            if late is not None and late.event == "revoked" and not (late.closing or eager or generation in held):
                owned.append(late.owned)
            is_reported = partitions_after(member) in owned
            # The consumer closed, or the next round began, before the member received its partitions.
            replaced = last < generation or any(
                generation < later <= last and member_id in shown.members for later, shown in numbered_diffs
            )
            if not is_reported and generation not in held and (closing_reports or replaced):
                continue
            compared_count += 1
            if not is_reported:
                differences.append(
                    f"{diff.group_id} generation {generation}, {member_id}: the diff says {partitions_after(member)}, "
                    f"the consumer reported {owned[0]}"
                )
    return ReportComparison(compared_count, tuple(differences))
