"""``rebalance-monitor incidents``: what somebody should look at, in all groups or in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_Group = Annotated[
    str | None,
    typer.Option("--group", metavar="GROUP", help="Of this group alone.", show_default="all groups"),
]
_All = Annotated[bool, typer.Option("--all", help="Those that are over as well.")]


@command("Example: rebalance-monitor incidents --json | jq -r .story")
@connected
def incidents(
    settings: Settings, *, group_id: _Group = None, all_of_them: _All = False, as_json: AsJson = False
) -> None:
    """What is wrong now: storms, groups that are stuck, partitions without an owner and more; the newest first."""
    from streaming.answers.output import json_lines, one_line
    from streaming.answers.progress import Progress
    from streaming.answers.standing import newest_first
    from streaming.cli.groups_view import incident_table
    from streaming.cli.render import skipped
    from streaming.kafka.newest import read_incidents
    from streaming.process.terminal import console

    with Progress("records read") as progress:
        told = read_incidents(settings, group=group_id, on_malformed=skipped, each=progress.step)
    shown = newest_first(told, closed=all_of_them)
    if as_json:
        write = json_lines()
        for one in shown:
            write(one_line(one.value))
    elif shown:
        console(wide=True).print(incident_table([one.incident for one in shown]))
    else:
        console().print("no incidents" if all_of_them else "no open incidents")
