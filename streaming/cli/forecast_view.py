"""Forecasts, migration plans and what-if answers as sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Column, Table

from assignors.diff import diff, size
from streaming.cli.diff_lines import share_text, short_member
from streaming.process.terminal import SafeText, console
from streaming.records.codec import rfc3339
from streaming.records.episodes import Episode
from streaming.simulation.forecast import Cost, Forecast, format_seconds
from streaming.simulation.migration import MigrationPath, MigrationPlan, PastStep
from streaming.simulation.what_if import ChangedGroup, Outlook

#: A way as a row's name.
_WAY_NAMES = {
    "eager": "eager",
    "cooperative": "cooperative",
    "static": "static members",
    "consumer": "consumer (KIP-848)",
}


def show_forecast(group_id: str, answer: Forecast) -> None:
    """What a change costs under each protocol."""
    screen = console(wide=True)
    head = SafeText().append(group_id, "bold").append(f"  {len(answer.plan.members)} members, ")
    head.append(f"{sum(topic.partitions for topic in answer.plan.topics.values())} partitions, ")
    screen.print(head.append(f"now {_WAY_NAMES[answer.own]}"), soft_wrap=True)
    screen.print(SafeText(answer.sentence, "bold"), soft_wrap=True)
    screen.print(forecast_table(answer))
    for line in _unsure(answer.unsure):
        screen.print(line, soft_wrap=True)


def _unsure(lines: Sequence[str]) -> Iterator[SafeText]:
    return (SafeText(f"not exact: {line}", "dim") for line in lines)


def forecast_table(answer: Forecast) -> Table:
    """A row a protocol, the group's own marked."""
    table = Table(
        Column("protocol", no_wrap=True),
        Column("assignor", no_wrap=True),
        *(Column(name, justify="right") for name in ("rebalances", "rounds", "moved", "downtime", "worst")),
        Column("of partition", overflow="fold"),
        box=None,
        pad_edge=False,
    )
    for one in answer.costs:
        table.add_row(*_cost_row(one), style="bold" if one.way.name == answer.own else "")
    return table


def _cost_row(one: Cost) -> tuple[str | SafeText, ...]:
    result = one.simulation.result
    return (
        _WAY_NAMES[one.way.name],
        one.way.assignor,
        str(result.rebalances),
        str(result.round_count),
        str(result.moved),
        format_seconds(one.total_ms),
        format_seconds(one.worst_ms),
        SafeText("" if one.worst is None else f"{one.worst[0]}-{one.worst[1]}"),
    )


#: Members that are named for one reason.
_MAX_NAMED = 20


def show_migration(group_id: str, found: MigrationPlan, happened: Sequence[PastStep]) -> None:
    """Where a group stands, and the way to each target."""
    screen = console(wide=True)
    head = SafeText().append(group_id, "bold").append(f"  {len(found.start.members)} members, ")
    by = f", {found.start.assignor}" if found.start.assignor else ""
    screen.print(head.append(f"now {_WAY_NAMES[found.start.way]}{by}"), soft_wrap=True)
    for one in found.paths:
        for line in _migration_lines(one):
            screen.print(line, soft_wrap=True)
    if happened:
        screen.print(SafeText("happened", "bold"))
        screen.print(_past_step_table(happened))
    for line in _unsure(found.start.unsure):
        screen.print(line, soft_wrap=True)


def _migration_lines(one: MigrationPath) -> Iterator[SafeText]:
    colour = {"done": "green", "ready": "cyan", "blocked": "bold red"}[one.state]
    yield SafeText().append(f"{_WAY_NAMES[one.to]}: ", "bold").append(one.state, colour)
    reasons: dict[tuple[str, int | None], list[str]] = {}
    for each in one.hindrances:
        reasons.setdefault((each.reason, each.step), []).append(each.name)
    for (reason, until), names in reasons.items():
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        ends = "in the way" if until is None else f"until step {until}"
        yield SafeText(f"  {ends}: {', '.join(names[:_MAX_NAMED])}{more}: {reason}")
    for number, step in enumerate(one.steps, 1):
        yield SafeText(f"  {number}. {step.says}")
        if step.cost is not None:
            yield SafeText(f"     {_cost_text(step.cost)}", "cyan")
    yield from _unsure(one.unsure)


def _cost_text(cost: Cost) -> str:
    result = cost.simulation.result
    return (
        f"{result.rebalances} rebalances, {result.round_count} rounds, {result.moved} partitions moved, "
        f"{format_seconds(cost.total_ms)} of downtime, {format_seconds(cost.worst_ms)} at worst"
    )


def _past_step_table(happened: Sequence[PastStep]) -> Table:
    table = Table(
        Column("episode", justify="right"),
        "kind",
        "status",
        "since",
        *(Column(name, justify="right") for name in ("rebalances", "rounds", "moved")),
        "downtime",
        "as forecast now",
        box=None,
        pad_edge=False,
    )
    for one, cost in happened:
        table.add_row(
            str(one.episode),
            one.kind,
            one.status,
            rfc3339(one.opened_at),
            str(one.rebalances),
            str(one.round_count),
            str(one.moved),
            _downtime_text(one),
            "" if cost is None else _cost_text(cost),
        )
    return table


def _downtime_text(one: Episode) -> str:
    if one.downtime is None:
        return "not known"
    upper = one.downtime.upper_ms
    most = "no upper limit known" if upper is None else format_seconds(upper)
    return f"{format_seconds(one.downtime.lower_ms)} to {most}"


#: So many members of the chosen answer are shown, those whose share changes most first.
_MAX_MEMBERS = 20


def show_what_if(change: ChangedGroup, answers: Sequence[Outlook], chosen: Outlook | None) -> None:
    """A row a way; below it what changes for members under the chosen one, and what is not certain."""
    screen = console(wide=True)
    screen.print(_what_if_headline(change), soft_wrap=True)
    screen.print(_outlook_table(answers, chosen))
    if chosen is not None and chosen.problem is None:
        changes = _member_change_table(change, chosen)
        if changes.row_count:
            screen.print(changes)
    for line in _uncertainties(change, answers):
        screen.print(SafeText(line, "dim"), soft_wrap=True)


def _what_if_headline(change: ChangedGroup) -> SafeText:
    before, after = change.before, change.after
    head = SafeText().append(before.group_id, "bold")
    head.append(f"  {before.protocol}, {before.assignor or 'assignor not known'}")
    partitions = sum(topic.partitions for topic in before.topics.values())
    later = sum(topic.partitions for topic in after.topics.values())
    head.append(f"  {_change_text(len(before.members), len(after.members))} members")
    return head.append(f", {_change_text(partitions, later)} partitions")


def _change_text(now: int, later: int) -> str:
    return str(now) if now == later else f"{now} → {later}"


def _outlook_table(answers: Sequence[Outlook], chosen: Outlook | None) -> Table:
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
        said = f"{one.unowned} without a consumer" if one.unowned else ""
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


def _member_change_table(change: ChangedGroup, chosen: Outlook) -> Table:
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
    for _, name, gone, found in rows[:_MAX_MEMBERS]:
        who = SafeText(short_member(name)).append("  goes" if gone else "", "dim")
        table.add_row(
            who,
            SafeText(share_text(found.revoked) if found.revoked else "", "red"),
            SafeText(share_text(found.assigned) if found.assigned else "", "green"),
        )
    if len(rows) > _MAX_MEMBERS:
        table.add_row(SafeText(f"{len(rows) - _MAX_MEMBERS} more, see --json", "dim"))
    return table


def _uncertainties(change: ChangedGroup, answers: Sequence[Outlook]) -> Iterator[str]:
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
