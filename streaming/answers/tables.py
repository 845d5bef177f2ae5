"""Answers as tables, for people. Plain text in a pipe, colour in a terminal (rich decides)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

#: Columns of a table that is not shown in a terminal: never wrapped to 80.
_WIDE = 200


def table_writer(table: Callable[[Any], Table | Text]) -> Callable[[Any], None]:
    """Prints answers as ``table`` shapes them, errors as text."""
    console = Console() if sys.stdout.isatty() else Console(width=_WIDE)

    def write(answer: Any) -> None:
        console.print(_error(answer["error"]) if "error" in answer else table(answer))

    return write


def assigned(answer: Mapping[str, Any]) -> Table:
    """One assignment; with reasons, a row a decision."""
    if "members" in answer:
        return _explained(answer)
    table = Table(Column("member", no_wrap=True), "assignment", Column("partitions", justify="right"))
    for member, share in answer["assignment"].items():
        table.add_row(Text(member), Text(shared(share)), str(sum(map(len, share.values()))))
    return table


def _explained(answer: Mapping[str, Any]) -> Table:
    table = Table(
        Column("member", no_wrap=True), "owned", "revoked", "assigned", "kept", "rule", "partitions", "why"
    )
    for member, reason in answer["members"].items():
        cells = [
            Text(member),
            *(Text(shared(reason[part])) for part in ("owned", "revoked", "assigned", "kept")),
        ]
        for decision in reason["decisions"] or [None]:
            why = [
                Text(decision["rule"]),
                Text(f"{decision['topic']}:{runs(decision['partitions'])}"),
                Text(decision["why"]),
            ] if decision else []  # fmt: skip
            table.add_row(*cells, *why)
            cells = [Text()] * len(cells)
        table.add_section()
    return table


def compared(answer: Mapping[str, Any]) -> Table:
    """Assignors side by side: a row a member, and what each answer moves below."""
    columns = answer["compared"]
    table = Table(Column("member", no_wrap=True), *columns, show_footer=False)
    members = dict.fromkeys(member for found in columns.values() for member in found.get("assignment", ()))
    for member in members:
        table.add_row(
            Text(member),
            *(Text(shared(found.get("assignment", {}).get(member, {}))) for found in columns.values()),
        )
    table.add_section()
    for name in ("kept", "revoked", "assigned", "moved", "most", "least"):
        table.add_row(Text(name, style="dim"), *(str(found.get(name, "")) for found in columns.values()))
    if any("error" in found for found in columns.values()):
        table.add_row(
            Text("error", style="dim"),
            *(Text(found.get("error", {}).get("message", ""), style="red") for found in columns.values()),
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
    table.add_row(Text("ok", style="green") if answer["ok"] else Text("violations", style="red"), "")
    for violation in answer["violations"]:
        rule, _, message = violation.partition(": ")
        table.add_row(Text(rule), Text(message))
    table.add_row(Text("checked", style="dim"), Text(", ".join(answer["rules"])))
    for name in ("leaders", "replicas"):
        if name in answer:
            counts = ", ".join(f"{broker}: {count}" for broker, count in answer[name].items())
            table.add_row(Text(f"{name} by broker", style="dim"), Text(counts))
    for name, verb in (("moves", "move"), ("leaderChanges", "lead")):
        for step in answer.get(name, ()):
            table.add_row(Text(verb), Text(f"{step['partition']}: {step['from']} → {step['to']}"))
    return table


def shared(share: Mapping[str, Sequence[int]]) -> str:
    """``t0:0-3,7 t1:0``."""
    return " ".join(f"{name}:{runs(partitions)}" for name, partitions in sorted(share.items()) if partitions)


def runs(partitions: Sequence[int]) -> str:
    """Partitions with runs joined: ``0-3,7``."""
    ordered = sorted(partitions)
    starts = ordered[:1] + [b for a, b in pairwise(ordered) if b != a + 1]
    ends = [a for a, b in pairwise(ordered) if b != a + 1] + ordered[-1:]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _error(error: Mapping[str, str]) -> Text:
    return Text(f"{error['type']}: {error['message']}", style="red")
