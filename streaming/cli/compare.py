"""The command ``compare``: two episodes of a group side by side, such as a deploy before and after a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from msgspec import Struct
from rich.table import Table

from assignors.errors import BadInput
from streaming.cli.cost import bounds_text
from streaming.cli.diff_lines import kind_of, utc
from streaming.cli.group_overview import in_order
from streaming.cli.options import AsJson, GroupId, command, connected
from streaming.cli.output import answer, read_records
from streaming.kafka.compacted_topics import read_explained_episodes
from streaming.process.terminal import SafeText, console, right, table, whole
from streaming.records.episodes import Bounds, Episode
from streaming.settings.config import Settings

#: Figures of which less is better, with their heading for people; those in ``Ms`` are times.
_FIGURES: Final = {
    "rebalances": "rebalances",
    "rounds": "rounds",
    "moved": "partitions moved",
    "movedAgain": "moved more than once",
    "durationMs": "duration",
    "longestDowntimeMs": "longest downtime",
    "totalDowntimeMs": "downtime in all",
    "delayedMessages": "delayed messages",
    "worstDelayMs": "worst delay",
    "catchUpMs": "catch-up",
}
_Before = Annotated[int, typer.Argument(metavar="BEFORE", help="Number of an episode.", show_default=False)]
_After = Annotated[int, typer.Argument(metavar="AFTER", help="Number of a later one.", show_default=False)]


class UnknownEpisode(BadInput):
    """The group has no episode of this number."""


class FigureChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """One figure of two episodes, each ``[at least, at most]``; null: unknown.

    ``better``: whether the second one is surely lower; false: surely higher; null: equal, or the bounds overlap.
    """

    figure: str
    before: Bounds | None
    after: Bounds | None
    better: bool | None

    def text(self, bounds: Bounds | None) -> str:
        """Return one of the bounds for people."""
        return bounds_text(bounds, is_time=self.figure.endswith("Ms"))


@command("rebalance-monitor compare checkout 12 15")
@connected
def compare(settings: Settings, group_id: GroupId, before: _Before, after: _After, *, as_json: AsJson = False) -> None:
    """Compare two episodes of a group: rebalances, moves, downtime, delayed messages."""
    records = in_order(read_records(read_explained_episodes, settings, group_id))
    by_number = {record.episode.episode: record.episode for record in records if record.episode.group_id == group_id}
    for number in (before, after):
        if number not in by_number:
            known = f"{min(by_number)} to {max(by_number)}" if by_number else "none"
            raise UnknownEpisode(f"group {group_id}: no episode {number}; known are {known}")
    lines = comparisons(by_number[before], by_number[after])
    heads = [f"{one.episode}: {kind_of(one)}, {utc(one.opened_at)}" for one in (by_number[before], by_number[after])]
    answer(lines, lambda: console(wide=True).print(change_table(group_id, heads, lines)), as_json=as_json)


def change_table(group_id: str, heads: Sequence[str], lines: Sequence[FigureChange]) -> Table:
    """Return a table with a row a figure; ``heads``: of the two episodes."""
    rows = ((_FIGURES[line.figure], *map(line.text, (line.before, line.after)), _verdict(line)) for line in lines)
    return table((whole(group_id), *map(right, heads), ""), rows)


def figures(episode: Episode) -> dict[str, Bounds | None]:
    """Return what an episode cost, by the names of :data:`_FIGURES`."""
    downtime, cost = episode.downtime, episode.cost
    end = episode.closed_at or episode.updated_at
    return {
        "rebalances": (episode.rebalances, episode.rebalances),
        "rounds": (episode.round_count, episode.round_count),
        "moved": (episode.moved, episode.moved),
        "movedAgain": (episode.moved_again, episode.moved_again),
        "durationMs": (end - episode.opened_at,) * 2,
        "longestDowntimeMs": downtime.longest_ms if downtime else None,
        "totalDowntimeMs": downtime.total_ms if downtime else None,
        "delayedMessages": cost.delayed_messages if cost else None,
        "worstDelayMs": cost.worst_delay_ms if cost else None,
        "catchUpMs": cost.catch_up_ms if cost else None,
    }


def comparisons(before: Episode, after: Episode) -> list[FigureChange]:
    """Return both episodes' figures, one by one."""
    first, second = figures(before), figures(after)
    return [
        FigureChange(figure=name, before=first[name], after=second[name], better=_better(first[name], second[name]))
        for name in _FIGURES
    ]


def _better(before: Bounds | None, after: Bounds | None) -> bool | None:
    if before is None or after is None:
        return None
    if after[1] is not None and after[1] < before[0]:
        return True
    return False if before[1] is not None and before[1] < after[0] else None


def _verdict(line: FigureChange) -> SafeText:
    words = {True: ("better", "green"), False: ("worse", "red"), None: ("", "")}
    return SafeText(*words[line.better])
