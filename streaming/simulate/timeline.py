"""Who consumed which partition when, ready to be drawn: cells for a terminal, bars for a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streaming.simulate.ledger import Stretch
from streaming.simulate.run import Forecast

#: From here on a cell counts as covered: what is missing is rounding.
_WHOLE = 0.999


class Cell(NamedTuple):
    """A piece of one partition's time: who had it longest (an index), and whether nobody had it for a while."""

    member: int | None
    gap: bool


class PartitionRow(NamedTuple):
    """One partition."""

    label: str
    cells: tuple[Cell, ...]


class Timeline(NamedTuple):
    """A picture in cells. ``marks`` are the columns in which a round became known."""

    members: tuple[str, ...]
    rows: tuple[PartitionRow, ...]
    marks: tuple[int, ...]
    end: int
    hidden: int


def members(forecasts: Sequence[Forecast]) -> tuple[str, ...]:
    """Every member of these forecasts in order of joining, so that one colour means one member everywhere."""
    found: dict[str, None] = {}
    for forecast in forecasts:
        for record in forecast.ledger.rounds:
            found |= dict.fromkeys(record.after)
    return tuple(found)


def partitions(forecast: Forecast) -> list[tuple[str, int]]:
    """Every partition that the group subscribed to."""
    return [
        (topic, p) for topic, known in sorted(forecast.ledger.gaps.total.items()) for p in range(len(known))
    ]


def by_partition(forecast: Forecast, end: int) -> dict[tuple[str, int], list[Stretch]]:
    """The stretches of each partition, in order of time; those of the group at rest last until ``end``."""
    found: dict[tuple[str, int], list[Stretch]] = {}
    for stretch in forecast.ledger.gaps.stretches or ():
        lasts = stretch.end == forecast.shown_until
        found.setdefault((stretch.topic, stretch.partition), []).append(
            stretch._replace(end=end) if lasts else stretch
        )
    for stretches in found.values():
        stretches.sort(key=lambda stretch: stretch.start)
    return found


def tick_ms(end: int) -> int:
    """About eight ticks up to ``end``, at round numbers of seconds."""
    for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200):
        if end <= seconds * 9000:
            return seconds * 1000
    return (end // 8000 + 1) * 1000


def draw(forecast: Forecast, names: Sequence[str], width: int, most: int, end: int) -> Timeline:
    """The forecast up to ``end`` (ms) in ``width`` columns and at most ``most`` rows."""
    index = {name: number for number, name in enumerate(names)}
    stretches = by_partition(forecast, end)
    shown = partitions(forecast)[:most]
    rows = tuple(
        PartitionRow(f"{topic}-{p}", tuple(_cells(stretches.get((topic, p), []), index, end, width)))
        for topic, p in shown
    )
    marks = tuple(sorted({min(record.at * width // end, width - 1) for record in forecast.ledger.rounds}))
    return Timeline(tuple(names), rows, marks, end, len(partitions(forecast)) - len(shown))


def _cells(stretches: Sequence[Stretch], index: dict[str, int], end: int, width: int) -> list[Cell]:
    covered: list[dict[int, float]] = [{} for _ in range(width)]
    for stretch in stretches:
        begin, until = stretch.start * width / end, stretch.end * width / end
        for column in range(int(begin), min(int(until) + 1, width)):
            part = min(until, column + 1) - max(begin, column)
            if part > 0:
                owner = index.get(stretch.member, 0)
                covered[column][owner] = covered[column].get(owner, 0) + part
    return [
        Cell(max(parts, key=lambda owner: parts[owner]) if parts else None, sum(parts.values()) < _WHOLE)
        for parts in covered
    ]
