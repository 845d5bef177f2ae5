"""Answers of the offline commands as tables: assignments, comparisons, placements, checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from streaming.cli.diff_lines import share_text
from streaming.process.terminal import SafeText, console


def table_writer(table: Callable[[Any], Table]) -> Callable[[Any], None]:
    """Return a function that prints an answer as this table, or its error as text."""
    screen = console(wide=True)

    def write(answer: Any) -> None:
        if "error" in answer:
            screen.print(SafeText(f"{answer['error']['type']}: {answer['error']['message']}", style="red"))
        else:
            screen.print(table(answer))

    return write


def assignment_table(answer: Mapping[str, Any]) -> Table:
    """Return a table with a row a member or, with reasons, a row a decision."""
    if "members" in answer:
        return _explanation_table(answer)
    table = Table(Column("member", no_wrap=True), "assignment", Column("partitions", justify="right"))
    for member, share in answer["assignment"].items():
        table.add_row(SafeText(member), SafeText(share_text(share)), str(sum(map(len, share.values()))))
    return table


#: Change → its mark and colour.
_CHANGES = {"kept": ("= kept", "default"), "assigned": ("+ assigned", "green"), "revoked": ("− revoked", "red")}


def _explanation_table(answer: Mapping[str, Any]) -> Table:
    table = Table(Column("member", no_wrap=True), Column("change", no_wrap=True), "partitions", Column("why", ratio=1))
    for member, reason in answer["members"].items():
        name = SafeText(member)
        for (change, rule, why), share in _member_changes(reason).items():
            mark, colour = _CHANGES[change]
            reasons = SafeText.assemble((rule, "bold"), f": {why}")
            table.add_row(name, SafeText(mark, style=colour), SafeText(share_text(share)), reasons)
            name = SafeText()
        if not reason["decisions"]:
            table.add_row(name, SafeText("no partitions", style="dim"))
        table.add_section()
    return table


def _member_changes(reason: Mapping[str, Any]) -> dict[tuple[str, str, str], dict[str, list[int]]]:
    """Return partitions by ``(change, rule, why)`` of one member: kept, then assigned, then revoked ones."""
    shares: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    for change in _CHANGES:
        for decision in reason["decisions"]:
            topic = decision["topic"]
            changed = set(reason[change].get(topic, ())).intersection(decision["partitions"])
            if changed:
                shares.setdefault((change, decision["rule"], decision["why"]), {})[topic] = sorted(changed)
    return shares


#: Count of a comparison → its label.
_COUNTS = {
    "kept": "kept",
    "revoked": "revoked",
    "assigned": "assigned",
    "moved": "moved",
    "most": "most per member",
    "least": "least per member",
}


def comparison_table(answer: Mapping[str, Any]) -> Table:
    """Return assignors side by side: a row a member, then the counts; the fewest moves are bold."""
    columns = answer["compared"]
    table = Table(Column("member", no_wrap=True), *(Column(name, overflow="fold") for name in columns))
    members = dict.fromkeys(member for column in columns.values() for member in column.get("assignment", ()))
    for member in members:
        shares = [column.get("assignment", {}).get(member, {}) for column in columns.values()]
        table.add_row(SafeText(member), *(SafeText(share_text(share)) for share in shares))
    table.add_section()
    for name, label in _COUNTS.items():
        counts = [column.get(name) for column in columns.values()]
        fewest = min((number for number in counts if number is not None), default=None)
        stands_out = name == "moved" and len(set(counts)) > 1
        table.add_row(
            SafeText(label, style="dim"),
            *(
                SafeText(
                    "" if number is None else str(number), style="bold green" if stands_out and number == fewest else ""
                )
                for number in counts
            ),
        )
    if any("error" in column for column in columns.values()):
        messages = [column.get("error", {}).get("message", "") for column in columns.values()]
        table.add_row(SafeText("error", style="dim"), *(SafeText(text, style="red") for text in messages))
    return table


def placement_table(answer: Mapping[str, Sequence[int]]) -> Table:
    """Return a table with a row a partition."""
    table = Table(Column("partition", justify="right"), Column("leader", justify="right"), "replicas")
    for partition, brokers in answer.items():
        table.add_row(partition, str(brokers[0]), ", ".join(map(str, brokers)))
    return table


def check_table(answer: Mapping[str, Any]) -> Table:
    """Return the result of a check, its violations, and for a placement what to move."""
    table = Table(Column("result", no_wrap=True), "details")
    table.add_row(SafeText("ok", style="green") if answer["ok"] else SafeText("violations", style="red"), "")
    for violation in answer["violations"]:
        rule, _, message = violation.partition(": ")
        table.add_row(SafeText(rule), SafeText(message))
    table.add_row(SafeText("checked", style="dim"), SafeText(", ".join(answer["rules"])))
    for name in ("leaders", "replicas"):
        if name in answer:
            counts = ", ".join(f"{broker}: {number}" for broker, number in answer[name].items())
            table.add_row(SafeText(f"{name} by broker", style="dim"), SafeText(counts))
    for name, verb in (("moves", "move"), ("leaderChanges", "lead")):
        for step in answer.get(name, ()):
            table.add_row(SafeText(verb), SafeText(f"{step['partition']}: {step['from']} → {step['to']}"))
    return table
