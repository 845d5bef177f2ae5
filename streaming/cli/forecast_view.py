"""What ``forecast`` and ``migrate`` show people: sentences, tables, and why an answer can't be exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Column, Table

from streaming.process.terminal import SafeText, console
from streaming.simulation.forecast import Cost, Forecast, format_seconds
from streaming.simulation.migration import MigrationPath, MigrationPlan, PastStep
from streaming.wire.codec import rfc3339
from streaming.wire.episodes import Episode

#: A way as a row's name.
_NAMES = {
    "eager": "eager",
    "cooperative": "cooperative",
    "static": "static members",
    "consumer": "consumer (KIP-848)",
}


def show_answer(group_id: str, answer: Forecast) -> None:
    """What a change costs under each protocol."""
    screen = console(wide=True)
    head = SafeText().append(group_id, "bold").append(f"  {len(answer.plan.members)} members, ")
    head.append(f"{sum(topic.partitions for topic in answer.plan.topics.values())} partitions, ")
    screen.print(head.append(f"now {_NAMES[answer.own]}"), soft_wrap=True)
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
        table.add_row(*_row(one), style="bold" if one.way.name == answer.own else "")
    return table


def _row(one: Cost) -> tuple[str | SafeText, ...]:
    result = one.simulation.result
    return (
        _NAMES[one.way.name],
        one.way.assignor,
        str(result.rebalances),
        str(result.round_count),
        str(result.moved),
        format_seconds(one.total_ms),
        format_seconds(one.worst_ms),
        SafeText("" if one.worst is None else f"{one.worst[0]}-{one.worst[1]}"),
    )


#: Members that are named for one reason.
_NAMED = 20


def show_plan(group_id: str, found: MigrationPlan, happened: Sequence[PastStep]) -> None:
    """Where a group stands, and the way to each target."""
    screen = console(wide=True)
    head = SafeText().append(group_id, "bold").append(f"  {len(found.start.members)} members, ")
    by = f", {found.start.assignor}" if found.start.assignor else ""
    screen.print(head.append(f"now {_NAMES[found.start.way]}{by}"), soft_wrap=True)
    for one in found.paths:
        for line in _path(one):
            screen.print(line, soft_wrap=True)
    if happened:
        screen.print(SafeText("happened", "bold"))
        screen.print(_happened_table(happened))
    for line in _unsure(found.start.unsure):
        screen.print(line, soft_wrap=True)


def _path(one: MigrationPath) -> Iterator[SafeText]:
    colour = {"done": "green", "ready": "cyan", "blocked": "bold red"}[one.state]
    yield SafeText().append(f"{_NAMES[one.to]}: ", "bold").append(one.state, colour)
    reasons: dict[tuple[str, int | None], list[str]] = {}
    for each in one.hindrances:
        reasons.setdefault((each.reason, each.step), []).append(each.name)
    for (reason, until), names in reasons.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        ends = "in the way" if until is None else f"until step {until}"
        yield SafeText(f"  {ends}: {', '.join(names[:_NAMED])}{more}: {reason}")
    for number, step in enumerate(one.steps, 1):
        yield SafeText(f"  {number}. {step.says}")
        if step.cost is not None:
            yield SafeText(f"     {_figures(step.cost)}", "cyan")
    yield from _unsure(one.unsure)


def _figures(cost: Cost) -> str:
    result = cost.simulation.result
    return (
        f"{result.rebalances} rebalances, {result.round_count} rounds, {result.moved} partitions moved, "
        f"{format_seconds(cost.total_ms)} of downtime, {format_seconds(cost.worst_ms)} at worst"
    )


def _happened_table(happened: Sequence[PastStep]) -> Table:
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
            _bounds(one),
            "" if cost is None else _figures(cost),
        )
    return table


def _bounds(one: Episode) -> str:
    if one.downtime is None:
        return "not known"
    upper = one.downtime.upper_ms
    most = "no upper bound" if upper is None else format_seconds(upper)
    return f"{format_seconds(one.downtime.lower_ms)} to {most}"
