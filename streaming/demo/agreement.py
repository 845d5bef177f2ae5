"""Compare diffs with what the consumers' own callbacks reported.

At every generation, a diff's assignment of a member after the round must equal what the member's callbacks reported
by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from streaming.records.diffs import Diff, MemberDiff
from streaming.records.events import Partitions


class ReportLine(Struct, frozen=True, rename="camel"):
    """One callback of one consumer (:mod:`streaming.demo.consumer`)."""

    at: int
    name: str
    member_id: str
    generation: int
    event: str
    partitions: Partitions
    owned: Partitions
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of compared (member, generation) pairs, and a text for each that differs."""

    compared: int
    differences: tuple[str, ...]


def after(member: MemberDiff) -> Partitions:
    """Return a member's partitions after a round: kept + assigned."""
    merged: dict[str, set[int]] = defaultdict(set)
    for share in (member.kept, member.assigned):
        for topic, partitions in share.items():
            merged[topic].update(partitions)
    return {topic: sorted(partitions) for topic, partitions in sorted(merged.items()) if partitions}


def _held(lines: Iterable[ReportLine], *, eager: bool) -> dict[int, Partitions]:
    """Return what a member owned once a generation's callbacks were done, by generation.

    Eager members revoke everything before they join again, still under the old generation, so only an assignment
    counts for them; what a consumer gives up while it closes is no part of any generation.
    """
    done = (line for line in lines if not line.closing and line.generation >= 0)
    return {line.generation: line.owned for line in done if line.event == "assigned" or not eager}


def compare(diffs: Iterable[Diff], reports: Iterable[ReportLine], eager_groups: Mapping[str, bool]) -> Agreement:
    """Compare every member of every diff with its own reports.

    A generation that arrives while the consumer closes may show in its last callbacks, or not at all: a consumer
    knows its number before its share. A generation without a callback of its own (cooperative: nothing changed)
    counts with what the member held before. A cooperative client may have joined the next round by the time its
    callback gives partitions up, which then comes under that round's number. A member is compared from the first
    generation it reported on; ``eager_groups``: whether the members of a group run eagerly.

    A consumer has no callback of a generation that the next one replaced before it received its share, or that it
    was killed in. What it held before is compared then as well, but a difference from that proves nothing.
    """
    diffs = list(diffs)
    reports_of: dict[str, list[ReportLine]] = defaultdict(list)
    for line in reports:
        reports_of[line.member_id].append(line)
    shown: dict[str, set[int]] = defaultdict(set)
    for diff in diffs:
        for member_id in diff.members:
            shown[member_id].add(diff.generation or 0)
    compared, differences = 0, []
    for diff in (diff for diff in diffs if diff.generation is not None):
        generation, eager = diff.generation or 0, eager_groups[diff.group_id]
        for member_id, member in diff.members.items():
            lines = reports_of[member_id]
            held, last = _held(lines, eager=eager), max((line.generation for line in lines), default=-1)
            earlier = [reported for reported in held if reported <= generation]
            if not earlier or (generation > last and (any(line.closing for line in lines) or not after(member))):
                continue  # not joined yet, leaving, or crashed: without a callback
            closing = [line.owned for line in lines if line.closing and line.generation == generation]
            owned = [held[max(earlier)], *closing]
            late = next((line for line in lines if line.generation == generation + 1), None)
            if late is not None and late.event == "revoked" and not (late.closing or eager or generation in held):
                owned.append(late.owned)
            agrees = after(member) in owned
            # Closed in this round, or replaced by the next one, before the member received its share.
            replaced = last < generation or any(generation < later <= last for later in shown[member_id])
            if not agrees and generation not in held and (closing or replaced):
                continue
            compared += 1
            if not agrees:
                differences.append(
                    f"{diff.group_id} generation {generation}, {member_id}: the diff says {after(member)}, "
                    f"the consumer reported {owned[0]}"
                )
    return Agreement(compared, tuple(differences))
