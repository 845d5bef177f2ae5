"""The command ``cost``: downtime, delayed messages and lag of the episodes of a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec import Struct
from rich.table import Column, Table

from assignors.errors import BadInput
from streaming.cli.diff_lines import kind_of, utc
from streaming.cli.options import AsJson, command, connected, duration_ms, flag, now_ms, option
from streaming.cli.output import answer, read_records, standard_output
from streaming.episodes.story import duration
from streaming.kafka.compacted_topics import read_episode_records
from streaming.process.terminal import console, fold, right, table
from streaming.records.cost import TotalCost, total_cost
from streaming.records.episodes import Bounds, Episode
from streaming.settings.config import Settings

_Group = Annotated[
    str | None, typer.Argument(metavar="GROUP", help="Only this group, an episode a line.", show_default=False)
]
_Since = Annotated[str, option("--since", "TIME", "Episodes with a round in this time: 12h, 7d or 4w.")]
_AsCsv = Annotated[bool, flag("--csv", "Print CSV.")]

#: Bounds of a cost → their heading.
_BOUNDS: Final[Mapping[str, str]] = {
    "delayed_messages": "delayed messages",
    "worst_delay_ms": "worst delay",
    "peak_lag": "peak lag",
    "catch_up_ms": "catch-up",
}


class CostLine(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A line of ``cost --json``: a group, or one of its episodes."""

    group_id: str
    since: int
    cost: TotalCost
    episode: int | None = None
    kind: str | None = None


@command("rebalance-monitor cost --since 7d", "rebalance-monitor cost checkout --since 30d --csv > checkout.csv")
@connected
def cost(
    settings: Settings,
    group_id: _Group = None,
    *,
    since: _Since = "7d",
    as_json: AsJson = False,
    as_csv: _AsCsv = False,
) -> None:
    """Show what rebalances cost: downtime, delayed messages, lag. A line a group, or an episode of one group.

    Bounds are "at least to at most"; "unknown" is not zero.
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv: give one of them")
    begin = now_ms() - duration_ms(since, "--since")
    records = read_records(read_episode_records, settings, group_id)
    recent = [r.episode for r in records if max(r.episode.opened_at, r.episode.updated_at) >= begin]
    lines = cost_lines(recent, by_episode=group_id is not None)

    def show() -> None:
        if as_csv:
            standard_output().write(_csv(lines).encode())
        else:
            console(wide=True).print(cost_table(lines, by_episode=group_id is not None))

    answer(lines, show, as_json=as_json)


def cost_lines(episodes: list[Episode], *, by_episode: bool) -> list[CostLine]:
    """Return a line an episode, in order; or a line a group, the longest downtime first."""
    groups: dict[object, list[Episode]] = {}
    for episode in sorted(episodes, key=lambda episode: (episode.group_id, episode.opened_at)):
        groups.setdefault((episode.group_id, episode.episode if by_episode else None), []).append(episode)
    lines = [
        CostLine(
            group_id=own[0].group_id,
            since=own[0].opened_at,
            cost=total_cost(own),
            episode=own[0].episode if by_episode else None,
            kind=kind_of(own[0]) if by_episode else None,
        )
        for own in groups.values()
    ]
    if not by_episode:
        lines.sort(key=lambda line: -(line.cost.downtime.lower_ms if line.cost.downtime else 0))
    return lines


#: Headings of :func:`cost_cells`, without the first.
COST_HEADS: Final = ("episodes", "rebalances", "moved", "downtime", *_BOUNDS.values())


def cost_cells(line: CostLine) -> list[str]:
    """Return a line as cells: the group or the episode, then its cost."""
    costs, downtime = line.cost, line.cost.downtime
    name = line.group_id if line.episode is None else f"{line.episode} {line.kind}, {utc(line.since)}"
    stopped = None if downtime is None else (downtime.lower_ms, downtime.upper_ms)
    bounds = [bounds_text(getattr(costs, name), is_time=name.endswith("_ms")) for name in _BOUNDS]
    counts = map(str, (costs.episodes, costs.rebalances, costs.moved))
    return [name, *counts, bounds_text(stopped, is_time=True), *bounds]


def cost_table(lines: list[CostLine], *, by_episode: bool) -> Table:
    """Return a table with a row a line."""
    first = fold("episode" if by_episode else "group")
    return table([first, *map(right, COST_HEADS[:3]), *map(Column, COST_HEADS[3:])], map(cost_cells, lines))


def bounds_text(bounds: Bounds | None, *, is_time: bool) -> str:
    """Return ``3 s to 5 s``, ``≥ 3 s`` or ``unknown``."""
    if bounds is None:
        return "unknown"
    lower, upper = ("" if value is None else duration(value) if is_time else f"{value:,}" for value in bounds)
    if not upper:
        return f"≥ {lower}" if bounds[0] else "unknown"
    return lower if lower == upper else f"{lower} to {upper}"


def _csv(lines: list[CostLine]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("groupId", "episode", "kind", "since", "episodes", "rebalances", "moved", "measured")
    bounds = ("downtime", *_BOUNDS)
    writer.writerow((*names, *(f"{name.removesuffix('_ms')} {end}" for name in bounds for end in ("min", "max"))))
    for line in lines:
        values: dict[str, Any] = msgspec.to_builtins(line) | msgspec.to_builtins(line.cost)
        downtime = line.cost.downtime
        ends: list[Bounds | None] = [None if downtime is None else (downtime.lower_ms, downtime.upper_ms)]
        ends += [getattr(line.cost, name) for name in _BOUNDS]
        writer.writerow([values.get(name, "") for name in names] + [end for pair in ends for end in pair or ("", "")])
    return text.getvalue()
