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


def _reported(lines: Iterable[ReportLine], eager: bool) -> dict[str, dict[int, Partitions]]:
    """``{member: {generation: what it held once that generation's callbacks were done}}``.

    Eager members revoke everything before they join again, still under the old generation, so only an assignment
    counts for them; what a consumer gives up while it closes is no part of any generation.
    """
    held: dict[str, dict[int, Partitions]] = defaultdict(dict)
    for line in lines:
        if line.closing or not line.member_id or line.generation < 0:
            continue
        if eager and line.event != "assigned":
            continue
        held[line.member_id][line.generation] = line.owned
    return held


def _given_up(lines: Iterable[ReportLine]) -> dict[tuple[str, int], Partitions]:
    """Return what each member owned after a revocation that was its first callback in a generation."""
    first: dict[tuple[str, int], ReportLine] = {}
    for line in lines:
        first.setdefault((line.member_id, line.generation), line)
    return {place: line.owned for place, line in first.items() if line.event == "revoked" and not line.closing}


def compare(diffs: Iterable[Diff], reports: Iterable[ReportLine], eager_groups: Mapping[str, bool]) -> Agreement:
    """Compare every member of every diff with its own reports.

    A generation that arrives while the consumer closes may show in its last callbacks, or not at all: a consumer
    knows its number before its share. A generation without a callback of its own (cooperative: nothing changed)
    counts with what the member held before. A cooperative client may have joined the next round by the time its
    callback gives partitions up, which then comes under that round's number. A member is compared from the first
    generation it reported on; ``eager_groups`` says by group whether its members run eagerly.

    A consumer has no callback of a generation that the next one replaced before it received its share, or that it
    was killed in. What it held before is compared then as well, but a difference from that proves nothing.
    """
    lines, diffs = list(reports), list(diffs)
    closing: dict[str, dict[int, list[Partitions]]] = defaultdict(lambda: defaultdict(list))
    latest_seen: dict[str, int] = {}
    for line in lines:
        latest_seen[line.member_id] = max(line.generation, latest_seen.get(line.member_id, -1))
        if line.closing:
            closing[line.member_id][line.generation].append(line.owned)
    shown: dict[str, set[int]] = defaultdict(set)
    for diff in diffs:
        for member_id in diff.members:
            shown[member_id].add(diff.generation or 0)
    given_up = _given_up(lines)
    held = {eager: _reported(lines, eager) for eager in (True, False)}
    compared, differences = 0, []
    for diff in diffs:
        generation = diff.generation
        if generation is None:
            continue
        for member_id, member in diff.members.items():
            reports_of = held[eager_groups[diff.group_id]].get(member_id, {})
            earlier = [g for g in reports_of if g <= generation]
            gone = generation > latest_seen.get(member_id, -1) and (member_id in closing or not after(member))
            if not earlier or gone:
                continue  # not joined yet, leaving, or crashed: without a callback
            last_reports = closing.get(member_id, {})
            reported = [reports_of[max(earlier)], *last_reports.get(generation, ())]
            late = given_up.get((member_id, generation + 1))
            if late is not None and generation not in reports_of and not eager_groups[diff.group_id]:
                reported.append(late)
            agrees = after(member) in reported
            closed = generation in last_reports  # joined this round, and closed before it received its share
            last = latest_seen.get(member_id, -1)
            replaced = last < generation or any(generation < later <= last for later in shown[member_id])
            if not agrees and generation not in reports_of and (closed or replaced):
                continue
            compared += 1
            if not agrees:
                differences.append(
                    f"{diff.group_id} generation {generation}, {member_id}: the diff says {after(member)}, "
                    f"the consumer reported {reports_of[max(earlier)]}"
                )
    return Agreement(compared, tuple(differences))
