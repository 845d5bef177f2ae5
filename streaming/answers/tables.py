"""Answers as tables, for people. Plain text in a pipe, colour in a terminal (rich decides)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich.table import Column, Table

from streaming.process.terminal import SafeText, console


def table_writer(table: Callable[[Any], Table | SafeText]) -> Callable[[Any], None]:
    """Prints answers as ``table`` shapes them, errors as text."""
    screen = console(wide=True)

    def write(answer: Any) -> None:
        screen.print(_error(answer["error"]) if "error" in answer else table(answer))

    return write


def assigned(answer: Mapping[str, Any]) -> Table:
    """One assignment; with reasons, a row a decision."""
    if "members" in answer:
        return _explained(answer)
    table = Table(Column("member", no_wrap=True), "assignment", Column("partitions", justify="right"))
    for member, share in answer["assignment"].items():
        table.add_row(SafeText(member), SafeText(shared(share)), str(sum(map(len, share.values()))))
    return table


#: Of a member's change: what ``explain`` calls it → how it is marked, and its colour.
_CHANGES = {
    "kept": ("= kept", "default"),
    "assigned": ("+ assigned", "green"),
    "revoked": ("− revoked", "red"),
}


def _explained(answer: Mapping[str, Any]) -> Table:
    """A row a change and rule, topics together; a section a member."""
    table = Table(
        Column("member", no_wrap=True), Column("change", no_wrap=True), "partitions", Column("why", ratio=1)
    )
    for member, reason in answer["members"].items():
        cell = SafeText(member)
        for change, rule, why, share in _changes(reason):
            mark, colour = _CHANGES[change]
            reasons = SafeText.assemble((rule, "bold"), f": {why}")
            table.add_row(cell, SafeText(mark, style=colour), SafeText(shared(share)), reasons)
            cell = SafeText()
        if not reason["decisions"]:
            table.add_row(cell, SafeText("nothing", style="dim"))
        table.add_section()
    return table


def _changes(reason: Mapping[str, Any]) -> list[tuple[str, str, str, dict[str, list[int]]]]:
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


def compared(answer: Mapping[str, Any]) -> Table:
    """Assignors side by side: a row a member, and what each answer moves below; the fewest moves stand out."""
    columns = answer["compared"]
    table = Table(Column("member", no_wrap=True), *(Column(name, overflow="fold") for name in columns))
    members = dict.fromkeys(member for found in columns.values() for member in found.get("assignment", ()))
    for member in members:
        table.add_row(
            SafeText(member),
            *(SafeText(shared(found.get("assignment", {}).get(member, {}))) for found in columns.values()),
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


def placed(answer: Mapping[str, Sequence[int]]) -> Table:
    """A placement: a row a partition."""
    table = Table(Column("partition", justify="right"), Column("leader", justify="right"), "replicas")
    for partition, brokers in answer.items():
        table.add_row(partition, str(brokers[0]), ", ".join(map(str, brokers)))
    return table


def checked(answer: Mapping[str, Any]) -> Table:
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


def shared(share: Mapping[str, Sequence[int]]) -> str:
    """``t0:0-3,7 t1:0``."""
    return " ".join(f"{name}:{runs(partitions)}" for name, partitions in sorted(share.items()) if partitions)


def runs(partitions: Sequence[int]) -> str:
    """Partitions with runs joined: ``0-3,7``. A connector's own instance stands alone: ``-1,0-3``."""
    ordered = sorted(partitions)
    apart = [(a, b) for a, b in pairwise(ordered) if b != a + 1 or a < 0]
    starts = ordered[:1] + [b for _, b in apart]
    ends = [a for a, _ in apart] + ordered[-1:]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _error(error: Mapping[str, str]) -> SafeText:
    return SafeText(f"{error['type']}: {error['message']}", style="red")
