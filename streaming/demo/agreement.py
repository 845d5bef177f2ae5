"""Do the diffs say what the consumers themselves saw? Compares diffs with the consumers' callback reports.

A consumer's own callbacks are the ground truth of what it holds: at every generation that a diff shows, what the
diff says a member holds after the round must equal what the member's callbacks had reported by then.
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
    """How many (member, generation) pairs were compared, and each that differs in words."""

    compared: int
    differences: tuple[str, ...]


def after(member: MemberDiff) -> Partitions:
    """What a member holds after a round: kept + assigned."""
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
    """What each member held after it gave something up as the first thing in a generation."""
    first: dict[tuple[str, int], ReportLine] = {}
    for line in lines:
        first.setdefault((line.member_id, line.generation), line)
    return {
        place: line.owned for place, line in first.items() if line.event == "revoked" and not line.closing
    }


def _latest_seen(lines: Iterable[ReportLine]) -> dict[str, int]:
    """Return the last generation that each member reported on."""
    found: dict[str, int] = {}
    for line in lines:
        found[line.member_id] = max(line.generation, found.get(line.member_id, -1))
    return found


def _shown(diffs: Iterable[Diff]) -> dict[str, set[int]]:
    """Return the generations in whose diffs each member is."""
    found: dict[str, set[int]] = defaultdict(set)
    for diff in diffs:
        for member_id in diff.members:
            found[member_id].add(diff.generation or 0)
    return found


def compare(
    diffs: Iterable[Diff], reports: Iterable[ReportLine], eager_groups: Mapping[str, bool]
) -> Agreement:
    """Compare every member of every diff with its own reports.

    A generation that arrives while the consumer closes may show in its last callbacks, or not at all: a consumer
    knows its number before its share. A generation without a callback of its own (cooperative: nothing changed)
    counts with what the member held before. A cooperative client may have joined the next round by the time its
    callback gives partitions up, which then comes under that round's number. A member is compared from the first
    generation it reported on; ``eager_groups`` says by group whether its members run eagerly.

    A consumer has no callback of a generation that the next one replaced before it received its share, or that it
    was killed in. What it held before is compared then as well, but a difference from that proves nothing.
    """
    lines = list(reports)
    closing: dict[str, dict[int, list[Partitions]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line.closing:
            closing[line.member_id][line.generation].append(line.owned)
    given_up = _given_up(lines)
    held = {eager: _reported(lines, eager) for eager in (True, False)}
    latest_seen = _latest_seen(lines)
    diffs = list(diffs)
    shown = _shown(diffs)
    compared, differences = 0, []
    for diff in diffs:
        generation = diff.generation
        if generation is None:
            continue
        for member_id, member in diff.members.items():
            known = held[eager_groups[diff.group_id]].get(member_id, {})
            told = [g for g in known if g <= generation]
            gone = generation > latest_seen.get(member_id, -1) and (member_id in closing or not after(member))
            if not told or gone:
                continue  # not in yet, or leaving, or crashed: a consumer has no callback for that
            last_words = closing.get(member_id, {})
            said = [known[max(told)], *last_words.get(generation, ())]
            late = given_up.get((member_id, generation + 1))
            if late is not None and generation not in known and not eager_groups[diff.group_id]:
                said.append(late)
            agrees = after(member) in said
            closed = generation in last_words  # joined this round, and closed before it received its share
            last = latest_seen.get(member_id, -1)
            replaced = last < generation or any(generation < one <= last for one in shown[member_id])
            if not agrees and generation not in known and (closed or replaced):
                continue
            compared += 1
            if not agrees:
                differences.append(
                    f"{diff.group_id} generation {generation}, {member_id}: the diff says {after(member)}, "
                    f"the consumer reported {known[max(told)]}"
                )
    return Agreement(compared, tuple(differences))
