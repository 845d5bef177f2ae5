"""Forecasts as one SVG picture, fit for a design document: no script, no font, no link to anything."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax import saxutils

from streaming.process.plain import printable
from streaming.simulate.results import summary
from streaming.simulate.run import Forecast
from streaming.simulate.timeline import by_partition, members, partitions, tick_ms

#: Distinguishable in print and for most colour-blind readers (Okabe and Ito, then lighter and darker).
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a5195",
    "#3b8ea5", "#a05195", "#665191", "#ff7c43", "#2f4b7c", "#5a9367", "#8c510a", "#999999",
)  # fmt: skip
_LEFT, _WIDTH, _ROW, _HEAD, _FOOT = 130, 860, 14, 46, 34
_MOST_ROWS = 120


def picture(forecasts: Sequence[Forecast], title: str) -> str:
    """At least one forecast as an SVG document: a panel for each protocol, in it a row for each partition.

    Each member has a colour, and what nobody consumes is grey. A dashed line marks a round becoming known.
    """
    names = members(forecasts)
    colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)}
    end = max(forecast.shown_until for forecast in forecasts)
    parts: list[str] = []
    top = 40
    for forecast in forecasts:
        panel, height = _panel(forecast, colours, top, end)
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


def _panel(forecast: Forecast, colours: dict[str, str], top: int, end: int) -> tuple[list[str], int]:
    shown = partitions(forecast)[:_MOST_ROWS]
    height = _ROW * len(shown)
    base = top + _HEAD
    scale = _WIDTH / end
    name = escape(f"{forecast.protocol} ({forecast.assignor})")
    parts = [f'<text x="16" y="{top + 20}" font-size="13" font-weight="bold">{name}</text>']
    parts.append(_text(16, top + 36, _figures(forecast, len(partitions(forecast)) - len(shown)), grey=True))
    parts.append(f'<rect x="{_LEFT}" y="{base}" width="{_WIDTH}" height="{height}" fill="#eeeeee"/>')
    parts += _bars(forecast, shown, colours, base, end)
    for record in forecast.ledger.rounds:
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
    forecast: Forecast, shown: Sequence[tuple[str, int]], colours: dict[str, str], base: int, end: int
) -> list[str]:
    scale = _WIDTH / end
    stretches = by_partition(forecast, end)
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


def _figures(forecast: Forecast, hidden: int) -> str:
    one = summary(forecast)
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
