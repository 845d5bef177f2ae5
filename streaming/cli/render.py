"""Diffs, assignments and checks as lines and tables for people. Colour in a terminal only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from rich.table import Column, Table

from assignors.errors import BadInput
from streaming.cli.output import json_lines, raw_json
from streaming.kafka.diff_reader import DiffRecord
from streaming.process.plain import printable, warn
from streaming.process.terminal import SafeText, console
from streaming.wire.diffs import Diff, Expected, MemberDiff
from streaming.wire.events import COMPARISON, PROBING, Evidence
from streaming.wire.names import called, shortened, worded

if TYPE_CHECKING:
    from streaming.kafka.dead_letters import DeadLetter
    from streaming.kafka.topics import MonitorTopic
    from streaming.spark.state import Inspected


#: What brokers add to a reason when the client gave none.
_NO_REASON = re.compile(r" with group instance id null|; client reason: not provided")

#: Cause → the words for it, and its colour.
CAUSES: dict[str, tuple[str, str]] = {
    "member.joined": ("joined", "green"),
    "member.left": ("left", "yellow"),
    "member.fenced": ("was fenced", "red"),
    "member.subscription_changed": ("changed its subscription", "cyan"),
    "topic.partitions_changed": ("partitions changed", "cyan"),
    PROBING: ("probing rebalance", "cyan"),
    "group.deleted": ("group deleted", "red"),
}


def short_member(member_id: str) -> str:
    """A client's member id, also inside a text, printable and without the tail of its UUID: ``c1-3f2a…``."""
    return shortened(printable(member_id))


def short_share(share: Mapping[str, Sequence[int]]) -> str:
    """``orders 0-2 · payments 1``."""
    return " · ".join(f"{topic} {partition_runs(p)}" for topic, p in sorted(share.items()) if p)


def clock(timestamp: int) -> str:
    """The time of day here; a timestamp that no calendar has is shown as the number that it is."""
    try:
        return f"{datetime.fromtimestamp(timestamp / 1000, tz=UTC).astimezone():%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(timestamp)


def _round_headline(diff: Diff, names: Mapping[str, str]) -> SafeText:
    words, colour = CAUSES.get(diff.cause.kind, (diff.cause.kind, "white"))
    members = ", ".join(short_member(names.get(m, m)) for m in diff.cause.member_ids)
    count = f"generation {diff.generation}" if diff.generation is not None else f"epoch {diff.group_epoch}"
    line = SafeText()
    line.append(f"{clock(diff.timestamp)} ", "dim")
    line.append(diff.group_id, "bold")
    line.append(f" {count}" + (f", round {diff.round}" if diff.round > 1 else ""), "dim")
    line.append(f"  {members} {words}".rstrip(), colour)
    line.append(f"  moved {diff.moved}" if diff.moved else "", "magenta")
    return line


def _member_line(member: MemberDiff, cells: Sequence[tuple[str, int]]) -> SafeText:
    line = SafeText()
    for (text, width), style in zip(cells, ("", "dim"), strict=False):
        line.append(f"  {text:<{width}}", style)
    for sign, share, colour in (
        ("=", member.kept, "dim"),
        ("-", member.revoked, "red"),
        ("+", member.assigned, "green"),
    ):
        if any(share.values()):
            line.append(f"  {sign} {short_share(share)}", colour)
    for role, tasks in (("standby", member.standby), ("warm-up", member.warmup)):
        if tasks:
            line.append(f"  {role} {short_share(tasks)}", "dim")
    if member.present is False:
        line.append("  gone", "dim")
    elif not any(
        any(share.values())
        for share in (member.kept, member.revoked, member.assigned, member.standby or {}, member.warmup or {})
    ):
        line.append("  nothing", "dim")
    return line


def diff_lines(diff: Diff) -> Iterator[SafeText]:
    """Who caused the round, then a line a member: ``=`` kept, ``-`` revoked, ``+`` assigned.

    Members are named as people know them; the member id of one with another name stands in its line.
    """
    names = called(diff.named)
    yield _round_headline(diff, names)
    reasons = (
        f"{_subject(item, diff, names)}{worded(item.reason, names)} ({item.source})"
        for item in diff.cause.evidence
    )
    for reason in dict.fromkeys(short_member(_NO_REASON.sub("", reason)) for reason in reasons):
        yield SafeText(f"  why: {reason}", "dim italic")
    rows = [
        ((short_member(names.get(one, one)), short_member(one) if one in names else ""), one)
        for one in diff.members
    ]
    widths = [max(map(len, column)) for column in zip(*(cells for cells, _ in rows), strict=True)]
    for cells, member_id in sorted(rows):
        shown = [cell for cell in zip(cells, widths, strict=True) if cell[1]]
        yield _member_line(diff.members[member_id], shown)
    if diff.unchanged:
        others = f"{diff.unchanged:,} others" if diff.members else f"all {diff.unchanged:,} members"
        yield SafeText(f"  = {others} keep what they have", "dim")
    if any(diff.unassigned.values()):
        waits = (
            f", waiting for their worker until {clock(diff.timestamp + diff.delay_ms)}"
            if diff.delay_ms
            else ""
        )
        yield SafeText(f"  nobody has {short_share(diff.unassigned)}{waits}", "yellow")
    for violation in diff.violations:
        yield SafeText(f"  violation: {short_member(worded(violation, names))}", "bold red")
    if diff.expected is not UNSET and diff.expected.verdict == "different":
        yield from _difference_lines(diff.expected, names)


def _subject(item: Evidence, diff: Diff, names: Mapping[str, str]) -> str:
    """Return the members that a comparison of generations is about, where the headline names others."""
    if item.source != COMPARISON or not item.member_ids or item.member_ids == diff.cause.member_ids:
        return ""
    return f"{', '.join(names.get(one, one) for one in item.member_ids)}: "


def _difference_lines(expected: Expected, names: Mapping[str, str]) -> Iterator[SafeText]:
    """What members should have got, and did not."""
    yield SafeText(f"  not as expected: {expected.why}", "bold red")
    for word, shares in (("should have", expected.missing), ("should not have", expected.extra)):
        for member_id, share in ({} if shares is UNSET else shares).items():
            who = short_member(names.get(member_id, member_id))
            yield SafeText(f"    {who} {word} {short_share(share)}", "red")


def print_diffs(records: Iterable[DiffRecord], *, as_json: bool) -> None:
    """Each diff as it comes: its own bytes on a line for programs, a block for people."""
    write = json_lines()
    screen = console(soft_wrap=True)
    for record in records:
        if as_json:
            write(raw_json(record.value))
            continue
        for line in diff_lines(record.diff):
            screen.print(line)


def warn_skipped(problem: BadInput) -> None:
    """Tell of a record that does not parse; reading goes on behind it."""
    warn(f"skipped: {problem}")


def dead_letter_table(letters: Iterable[DeadLetter]) -> Table:
    """A row a dead letter: where it is, why, and what it was."""
    table = Table(Column("place", no_wrap=True), "reason", "message", "read from", "key")
    for letter in letters:
        table.add_row(
            f"{letter.partition}:{letter.offset}",
            letter.exception,
            letter.message,
            f"{letter.source_topic} {letter.source_partition}:{letter.source_offset}",
            "" if letter.key is None else letter.key.decode(errors="backslashreplace"),
        )
    return table


def topic_table(states: Iterable[MonitorTopic]) -> Table:
    """A row a topic of the monitor."""
    table = Table(Column("topic", no_wrap=True), "cleanup", "partitions", "replicas", "state")
    for state in states:
        table.add_row(
            state.name,
            state.cleanup_policy or state.wanted_cleanup_policy,
            str(state.partitions or ""),
            str(state.replication_factor or ""),
            "wrong cleanup policy" if state.problem else "there" if state.exists else "missing",
        )
    return table


def state_table(found: Iterable[Inspected]) -> Table:
    """A row a group that a checkpoint knows."""
    table = Table("group", "bucket", "protocol", "assignor", "generation", "members", "bytes", box=None)
    for one in found:
        state = one.tracked.state
        if state is not None:
            values = (state.protocol, state.assignor or "", state.generation, len(state.members), one.size)
            table.add_row(one.group_id, str(one.bucket), *map(str, values))
    return table


def table_writer(table: Callable[[Any], Table | SafeText]) -> Callable[[Any], None]:
    """Prints answers as ``table`` shapes them, errors as text."""
    screen = console(wide=True)

    def write(answer: Any) -> None:
        screen.print(_error_text(answer["error"]) if "error" in answer else table(answer))

    return write


def assignment_table(answer: Mapping[str, Any]) -> Table:
    """One assignment; with reasons, a row a decision."""
    if "members" in answer:
        return _explanation_table(answer)
    table = Table(Column("member", no_wrap=True), "assignment", Column("partitions", justify="right"))
    for member, share in answer["assignment"].items():
        table.add_row(SafeText(member), SafeText(share_text(share)), str(sum(map(len, share.values()))))
    return table


#: Of a member's change: what ``explain`` calls it → how it is marked, and its colour.
_CHANGES = {
    "kept": ("= kept", "default"),
    "assigned": ("+ assigned", "green"),
    "revoked": ("− revoked", "red"),
}


def _explanation_table(answer: Mapping[str, Any]) -> Table:
    """A row a change and rule, topics together; a section a member."""
    table = Table(
        Column("member", no_wrap=True), Column("change", no_wrap=True), "partitions", Column("why", ratio=1)
    )
    for member, reason in answer["members"].items():
        cell = SafeText(member)
        for change, rule, why, share in _member_changes(reason):
            mark, colour = _CHANGES[change]
            reasons = SafeText.assemble((rule, "bold"), f": {why}")
            table.add_row(cell, SafeText(mark, style=colour), SafeText(share_text(share)), reasons)
            cell = SafeText()
        if not reason["decisions"]:
            table.add_row(cell, SafeText("nothing", style="dim"))
        table.add_section()
    return table


def _member_changes(reason: Mapping[str, Any]) -> list[tuple[str, str, str, dict[str, list[int]]]]:
    """``(change, rule, why, share)`` of one member: first what it keeps, then what it gets, then what it loses."""
    found: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    for change in _CHANGES:
        for decision in reason["decisions"]:
            topic = decision["topic"]
            changed = set(reason[change].get(topic, ())).intersection(decision["partitions"])
            if changed:
                found.setdefault((change, decision["rule"], decision["why"]), {})[topic] = sorted(changed)
    return [(*key, share) for key, share in found.items()]


#: What is counted under each column of a comparison, and what a person reads.
_COUNTS = {
    "kept": "kept",
    "revoked": "revoked",
    "assigned": "assigned",
    "moved": "moved",
    "most": "most a member",
    "least": "least a member",
}


def comparison_table(answer: Mapping[str, Any]) -> Table:
    """Assignors side by side: a row a member, and what each answer moves below; the fewest moves stand out."""
    columns = answer["compared"]
    table = Table(Column("member", no_wrap=True), *(Column(name, overflow="fold") for name in columns))
    members = dict.fromkeys(member for found in columns.values() for member in found.get("assignment", ()))
    for member in members:
        table.add_row(
            SafeText(member),
            *(
                SafeText(share_text(found.get("assignment", {}).get(member, {})))
                for found in columns.values()
            ),
        )
    table.add_section()
    for name, label in _COUNTS.items():
        counts = [found.get(name) for found in columns.values()]
        fewest = min((count for count in counts if count is not None), default=None)
        best = [name == "moved" and count == fewest and len(set(counts)) > 1 for count in counts]
        cells = ["" if count is None else str(count) for count in counts]
        table.add_row(
            SafeText(label, style="dim"),
            *(
                SafeText(cell, style="bold green" if good else "")
                for cell, good in zip(cells, best, strict=True)
            ),
        )
    if any("error" in found for found in columns.values()):
        table.add_row(
            SafeText("error", style="dim"),
            *(SafeText(found.get("error", {}).get("message", ""), style="red") for found in columns.values()),
        )
    return table


def placement_table(answer: Mapping[str, Sequence[int]]) -> Table:
    """A placement: a row a partition."""
    table = Table(Column("partition", justify="right"), Column("leader", justify="right"), "replicas")
    for partition, brokers in answer.items():
        table.add_row(partition, str(brokers[0]), ", ".join(map(str, brokers)))
    return table


def check_table(answer: Mapping[str, Any]) -> Table:
    """What was checked, the violations, and for a placement what to move."""
    table = Table(Column("result", no_wrap=True), "what")
    table.add_row(SafeText("ok", style="green") if answer["ok"] else SafeText("violations", style="red"), "")
    for violation in answer["violations"]:
        rule, _, message = violation.partition(": ")
        table.add_row(SafeText(rule), SafeText(message))
    table.add_row(SafeText("checked", style="dim"), SafeText(", ".join(answer["rules"])))
    for name in ("leaders", "replicas"):
        if name in answer:
            counts = ", ".join(f"{broker}: {count}" for broker, count in answer[name].items())
            table.add_row(SafeText(f"{name} by broker", style="dim"), SafeText(counts))
    for name, verb in (("moves", "move"), ("leaderChanges", "lead")):
        for step in answer.get(name, ()):
            table.add_row(SafeText(verb), SafeText(f"{step['partition']}: {step['from']} → {step['to']}"))
    return table


def share_text(share: Mapping[str, Sequence[int]]) -> str:
    """``t0:0-3,7 t1:0``."""
    return " ".join(
        f"{name}:{partition_runs(partitions)}" for name, partitions in sorted(share.items()) if partitions
    )


def partition_runs(partitions: Sequence[int]) -> str:
    """Partitions with runs joined: ``0-3,7``. A connector's own instance stands alone: ``-1,0-3``."""
    ordered = sorted(partitions)
    apart = [(a, b) for a, b in pairwise(ordered) if b != a + 1 or a < 0]
    starts = ordered[:1] + [b for _, b in apart]
    ends = [a for a, _ in apart] + ordered[-1:]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _error_text(error: Mapping[str, str]) -> SafeText:
    return SafeText(f"{error['type']}: {error['message']}", style="red")
