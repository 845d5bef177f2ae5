"""Timelines of partition ownership, as terminal cells and as an SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax import saxutils

from streaming.process.plain import printable
from streaming.simulation.results import OwnershipInterval, Simulation, summarize

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


def member_names(simulations: Sequence[Simulation]) -> tuple[str, ...]:
    """Every member of these simulations in order of joining, so that one colour means one member everywhere."""
    found: dict[str, None] = {}
    for simulation in simulations:
        for record in simulation.result.rounds:
            found |= dict.fromkeys(record.after)
    return tuple(found)


def subscribed_partitions(simulation: Simulation) -> list[tuple[str, int]]:
    """Every partition that the group subscribed to."""
    return [
        (topic, p) for topic, known in sorted(simulation.result.gaps.total.items()) for p in range(len(known))
    ]


def by_partition(simulation: Simulation, end: int) -> dict[tuple[str, int], list[OwnershipInterval]]:
    """The stretches of each partition, in order of time; those of the group at rest last until ``end``."""
    found: dict[tuple[str, int], list[OwnershipInterval]] = {}
    for stretch in simulation.result.gaps.stretches or ():
        lasts = stretch.end == simulation.shown_until
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


def draw_timeline(simulation: Simulation, names: Sequence[str], width: int, most: int, end: int) -> Timeline:
    """The forecast up to ``end`` (ms) in ``width`` columns and at most ``most`` rows."""
    index = {name: number for number, name in enumerate(names)}
    stretches = by_partition(simulation, end)
    shown = subscribed_partitions(simulation)[:most]
    rows = tuple(
        PartitionRow(f"{topic}-{p}", tuple(_cells(stretches.get((topic, p), []), index, end, width)))
        for topic, p in shown
    )
    marks = tuple(sorted({min(record.at * width // end, width - 1) for record in simulation.result.rounds}))
    return Timeline(tuple(names), rows, marks, end, len(subscribed_partitions(simulation)) - len(shown))


def _cells(stretches: Sequence[OwnershipInterval], index: dict[str, int], end: int, width: int) -> list[Cell]:
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


#: Distinguishable in print and for most colour-blind readers (Okabe and Ito, then lighter and darker).
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a5195",
    "#3b8ea5", "#a05195", "#665191", "#ff7c43", "#2f4b7c", "#5a9367", "#8c510a", "#999999",
)  # fmt: skip
_LEFT, _WIDTH, _ROW, _HEAD, _FOOT = 130, 860, 14, 46, 34
_MOST_ROWS = 120


def render_svg(simulations: Sequence[Simulation], title: str) -> str:
    """At least one forecast as an SVG document: a panel for each protocol, in it a row for each partition.

    Each member has a colour, and what nobody consumes is grey. A dashed line marks a round becoming known.
    """
    names = member_names(simulations)
    colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)}
    end = max(simulation.shown_until for simulation in simulations)
    parts: list[str] = []
    top = 40
    for simulation in simulations:
        panel, height = _panel(simulation, colours, top, end)
        parts += panel
        top += height
    legend, height = _legend(colours, top)
    parts += legend
    top += height
    width = _LEFT + _WIDTH + 30
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="11" role="img">'
    )
    lines = [
        head,
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{top}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
        *parts,
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def _panel(simulation: Simulation, colours: dict[str, str], top: int, end: int) -> tuple[list[str], int]:
    shown = subscribed_partitions(simulation)[:_MOST_ROWS]
    height = _ROW * len(shown)
    base = top + _HEAD
    scale = _WIDTH / end
    name = escape(f"{simulation.protocol} ({simulation.assignor})")
    parts = [f'<text x="16" y="{top + 20}" font-size="13" font-weight="bold">{name}</text>']
    parts.append(
        _text(
            16, top + 36, _caption(simulation, len(subscribed_partitions(simulation)) - len(shown)), grey=True
        )
    )
    parts.append(f'<rect x="{_LEFT}" y="{base}" width="{_WIDTH}" height="{height}" fill="#eeeeee"/>')
    parts += _bars(simulation, shown, colours, base, end)
    for record in simulation.result.rounds:
        x = round(_LEFT + record.at * scale, 2)
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="{base - 4}" y2="{base + height}" stroke="#333333" stroke-width="0.6"'
            f' stroke-dasharray="2 2"><title>{record.number}: {escape(record.reason.kind)}</title></line>'
        )
    for tick in range(0, end + 1, tick_ms(end)):
        x = round(_LEFT + tick * scale, 2)
        parts.append(_text(x, base + height + 14, f"{tick // 1000} s", "middle", grey=True))
    return parts, _HEAD + height + _FOOT


def _bars(
    simulation: Simulation, shown: Sequence[tuple[str, int]], colours: dict[str, str], base: int, end: int
) -> list[str]:
    scale = _WIDTH / end
    stretches = by_partition(simulation, end)
    parts = []
    for row, (topic, partition) in enumerate(shown):
        y = base + row * _ROW
        parts.append(_text(_LEFT - 8, y + 11, f"{topic}-{partition}", "end"))
        for stretch in stretches.get((topic, partition), []):
            x = round(_LEFT + stretch.start * scale, 2)
            width = max(round((stretch.end - stretch.start) * scale, 2), 0.3)
            colour = colours.get(stretch.member, "#999999")
            parts.append(f'<rect x="{x}" y="{y + 1}" width="{width}" height="{_ROW - 2}" fill="{colour}"/>')
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", *, grey: bool = False) -> str:
    colour = ' fill="#555555"' if grey else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{colour}>{escape(text)}</text>'


def escape(text: str) -> str:
    """Text as XML takes it: a control character in it would make the whole document unreadable."""
    return saxutils.escape(printable(text))


def _caption(simulation: Simulation, hidden: int) -> str:
    one = summarize(simulation)
    more = f" · {hidden} more partitions not drawn" if hidden else ""
    return (
        f"{one.rebalances} rebalances · {one.rounds} rounds · {one.requests} requests · {one.moved} moved · "
        f"{one.unavailable_s:.1f} partition-seconds down · longest gap {one.longest_gap_s:.1f} s{more}"
    )


def _legend(colours: dict[str, str], top: int) -> tuple[list[str], int]:
    across, most = 8, 64
    parts: list[str] = []
    for number, (name, colour) in enumerate(list(colours.items())[:most]):
        x, y = 16 + (number % across) * 124, top + (number // across) * 18
        parts += [
            f'<rect x="{x}" y="{y}" width="11" height="11" fill="{colour}"/>',
            _text(x + 16, y + 10, name[:16]),
        ]
    return parts, 18 * -(-max(min(len(colours), most), 1) // across) + 16
