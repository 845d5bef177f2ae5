"""The command ``top``: the groups that need attention first, refreshed in place."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import count, islice
from typing import Annotated, Final, get_args

from rich.live import Live

from streaming.cli.group_overview import GroupOverview, group_line, group_overviews
from streaming.cli.groups import group_table
from streaming.cli.options import AsJson, command, connected, now_ms, option
from streaming.cli.output import json_lines, warn_skipped
from streaming.episodes.status import StatusName
from streaming.kafka.compacted_topics import read_groups
from streaming.process.terminal import console
from streaming.settings.config import Settings

#: The worst status first.
_RANKS: Final = {status: rank for rank, status in enumerate(get_args(StatusName))}


@command("rebalance-monitor top", "rebalance-monitor top --count 1 --json | jq -r .groupId")
@connected
def top(
    settings: Settings,
    *,
    interval: Annotated[float, option("--interval", "S", "Seconds between two readings.", min=1)] = 5.0,
    readings: Annotated[
        int | None, option("--count", "N", "End after N readings.", min=1, show_default="Ctrl-C ends")
    ] = None,
    limit: Annotated[int, option("--limit", "N", "Most groups shown.", min=1)] = 30,
    as_json: AsJson = False,
) -> None:
    """Show the groups in the worst status first, refreshed in place. Into a pipe: one reading after the other."""
    screen, write = console(wide=True), json_lines()
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        for number in islice(count(), readings):
            if number:
                time.sleep(interval)
            overviews = worst_first(_read(settings))[:limit]
            if as_json:
                for overview in overviews:
                    write(group_line(overview))
            elif screen.is_terminal:
                live.update(group_table(overviews), refresh=True)
            else:
                screen.print(group_table(overviews))


def worst_first(overviews: Iterable[GroupOverview]) -> list[GroupOverview]:
    """Return the overviews by status, those with open incidents first, then the newest change first."""

    def rank(overview: GroupOverview) -> tuple[int, int, int, str]:
        status = overview.status
        return _RANKS[status.status], -len(overview.incidents), -status.since, overview.latest.group_id

    return sorted(overviews, key=rank)


def _read(settings: Settings) -> list[GroupOverview]:
    records = read_groups(settings, on_malformed=warn_skipped)
    return group_overviews(*records, now_ms=now_ms())
