"""A forecast for people: the sentence, a row a protocol, and why it can't be exact."""

from __future__ import annotations

from rich.table import Column, Table

from streaming.forecast.answer import Answer
from streaming.forecast.compare import Cost, seconds
from streaming.process.terminal import SafeText, console

#: A way as a row's name.
_NAMES = {
    "eager": "eager",
    "cooperative": "cooperative",
    "static": "static members",
    "consumer": "consumer (KIP-848)",
}


def show_answer(group_id: str, answer: Answer) -> None:
    """What a change costs under each protocol."""
    screen = console(wide=True)
    head = SafeText().append(group_id, "bold").append(f"  {len(answer.plan.members)} members, ")
    head.append(f"{sum(topic.partitions for topic in answer.plan.topics.values())} partitions, ")
    screen.print(head.append(f"now {_NAMES[answer.own]}"), soft_wrap=True)
    screen.print(SafeText(answer.sentence, "bold"), soft_wrap=True)
    screen.print(forecast_table(answer))
    for line in answer.unsure:
        screen.print(SafeText(f"not exact: {line}", "dim"), soft_wrap=True)


def forecast_table(answer: Answer) -> Table:
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
    ledger = one.forecast.ledger
    return (
        _NAMES[one.way.name],
        one.way.assignor,
        str(ledger.rebalances),
        str(ledger.round_count),
        str(ledger.moved),
        seconds(one.total_ms),
        seconds(one.worst_ms),
        SafeText("" if one.worst is None else f"{one.worst[0]}-{one.worst[1]}"),
    )
