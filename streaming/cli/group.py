"""``rebalance-monitor group``: one group, its members and its last episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="Its id.")]


@command("Example: rebalance-monitor group checkout", subcommand_metavar="", interspersed=True)
@connected
def group(settings: Settings, group_id: _Group, *, as_json: AsJson = False) -> None:
    """Who owns what in a group, by the names that people know, its open incidents, and its last ten episodes.

    The exit status is 2 when nothing is known of the group.
    """
    from streaming.answers.output import json_lines
    from streaming.answers.progress import Progress
    from streaming.answers.standing import document, standing
    from streaming.cli.groups_view import show_group
    from streaming.cli.render import skipped
    from streaming.kafka.newest import read_groups

    with Progress("records read") as progress:
        read = read_groups(settings, group=group_id, on_malformed=skipped, each=progress.step)
    found = standing(group_id, *read)
    if as_json:
        json_lines()(document(found))
    else:
        show_group(found)
