"""What ``what-if`` shows people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Column, Table

from assignors.diff import diff, size
from streaming.answers.tables import shared
from streaming.cli.render import short_member
from streaming.process.terminal import SafeText, console
from streaming.simulation.what_if import ChangedGroup, Outlook

#: So many members of the chosen answer are shown, those whose share changes most first.
_SHOWN = 20


def show_answers(change: ChangedGroup, answers: Sequence[Outlook], chosen: Outlook | None) -> None:
    """A row a way; below it what changes for members under the chosen one, and what is not certain."""
    screen = console(wide=True)
    screen.print(_head(change), soft_wrap=True)
    screen.print(_table(answers, chosen))
    if chosen is not None and chosen.problem is None:
        changes = _changes(change, chosen)
        if changes.row_count:
            screen.print(changes)
    for line in _uncertain(change, answers):
        screen.print(SafeText(line, "dim"), soft_wrap=True)


def _head(change: ChangedGroup) -> SafeText:
    before, after = change.before, change.after
    head = SafeText().append(before.group_id, "bold")
    head.append(f"  {before.protocol}, {before.assignor or 'assignor not known'}")
    partitions = sum(topic.partitions for topic in before.topics.values())
    later = sum(topic.partitions for topic in after.topics.values())
    head.append(f"  {_to(len(before.members), len(after.members))} members")
    return head.append(f", {_to(partitions, later)} partitions")


def _to(now: int, later: int) -> str:
    return str(now) if now == later else f"{now} → {later}"


def _table(answers: Sequence[Outlook], chosen: Outlook | None) -> Table:
    table = Table(
        "",
        Column("protocol", no_wrap=True),
        Column("assignor", no_wrap=True),
        *(Column(name, justify="right", no_wrap=True) for name in ("moved", "new", "a member", "rounds")),
        Column("in its rack", justify="right"),
        Column("", ratio=1),
    )
    for one in answers:
        row = ["→" if one is chosen else "", one.way.protocol, one.way.assignor]
        if one.problem is not None:
            table.add_row(*row, "", "", "", "", "", SafeText(one.problem))
            continue
        each = str(one.most) if one.most == one.least else f"{one.least} to {one.most}"
        rounds = str(one.rounds) if one.exact_rounds else f"{one.rounds} or more"
        local, known = one.local
        said = f"{one.unowned} without an owner" if one.unowned else ""
        now = "now" if one.own else ""
        table.add_row(
            *row,
            str(one.moved),
            str(one.given),
            each,
            rounds,
            f"{local} of {known}" if known else "",
            SafeText(", ".join(filter(None, (now, said)))),
            style="bold" if one is chosen else "",
        )
    return table


def _changes(change: ChangedGroup, chosen: Outlook) -> Table:
    """What each member gives up and gets, those with the most first."""
    names = {**change.before.names, **change.after.names}
    rows = []
    for one in dict.fromkeys([*change.owned, *chosen.assignment]):
        found = diff(change.owned.get(one, {}), chosen.assignment.get(one, {}))
        if found.revoked or found.assigned:
            gone = one not in chosen.assignment
            rows.append((size(found.revoked) + size(found.assigned), names[one], gone, found))
    rows.sort(key=lambda row: (-row[0], row[1]))
    table = Table(
        Column("member", overflow="fold"),
        Column("gives up", ratio=1, overflow="fold"),
        Column("gets", ratio=1, overflow="fold"),
    )
    for _, name, gone, found in rows[:_SHOWN]:
        who = SafeText(short_member(name)).append("  goes" if gone else "", "dim")
        table.add_row(
            who,
            SafeText(shared(found.revoked) if found.revoked else "", "red"),
            SafeText(shared(found.assigned) if found.assigned else "", "green"),
        )
    if len(rows) > _SHOWN:
        table.add_row(SafeText(f"{len(rows) - _SHOWN} more: --json has them", "dim"))
    return table


def _uncertain(change: ChangedGroup, answers: Sequence[Outlook]) -> Iterator[str]:
    """Why the answers may not be what happens, each reason once."""
    yield from (*change.before.unknown, *change.notes)
    reasons: dict[str, list[str]] = {}
    for one in answers:
        for reason in one.inexact:
            reasons.setdefault(reason, []).append(f"{one.way.protocol} {one.way.assignor}")
    for reason, ways in reasons.items():
        yield f"{', '.join(ways)}: {reason}"
    if any(not one.exact_rounds for one in answers):
        yield "rounds under the consumer protocol depend on when heartbeats come: `forecast` plays them"
