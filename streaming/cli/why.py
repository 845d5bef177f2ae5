"""``rebalance-monitor why``: an episode of a group, told with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_Group = Annotated[str, typer.Argument(metavar="GROUP", help="Its id.")]
_At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="The episode that was open then: RFC 3339, or milliseconds since the epoch.",
        show_default="the newest episode",
    ),
]


@command(
    "Example: rebalance-monitor why checkout --at 2026-01-31T09:14:00Z",
    subcommand_metavar="",
    interspersed=True,
)
@connected
def why(settings: Settings, group_id: _Group, *, at: _At = None, as_json: AsJson = False) -> None:
    """Why a group rebalanced: its newest episode, or another, with story, evidence, members and rounds.

    The exit status is 1 when no episode was open at that time, 2 when none of the group is known.
    """
    from streaming.answers.output import json_lines, one_line
    from streaming.answers.progress import Progress
    from streaming.answers.standing import newest, open_at
    from streaming.cli.durations import time_ms
    from streaming.cli.groups_view import show_episode
    from streaming.cli.render import skipped
    from streaming.kafka.newest import read_episodes

    moment = None if at is None else time_ms(at, "--at")
    with Progress("records read") as progress:
        told = read_episodes(settings, group=group_id, on_malformed=skipped, each=progress.step)
    if moment is None:
        found = newest(group_id, told)
    else:
        found = open_at(group_id, told, moment, settings.stream.episode_quiet_ms)
    if as_json:
        json_lines()(one_line(found.value))
    else:
        show_episode(found.episode)
