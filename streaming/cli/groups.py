"""``groups``, ``group``, ``why`` and ``incidents``: the state and history of consumer groups."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings


@command("Example: rebalance-monitor groups --json | jq -r 'select(.state == \"stuck\").groupId'")
@connected
def groups(settings: Settings, *, as_json: AsJson = False) -> None:
    """All groups: kind, state, members, downtime today (UTC), open incidents, and what happened last."""
    from streaming.cli.group_overview import group_line, group_overviews
    from streaming.cli.groups_view import group_table
    from streaming.cli.output import Progress, json_lines
    from streaming.cli.render import warn_skipped
    from streaming.kafka.compacted_topics import read_groups
    from streaming.process.terminal import console

    with Progress("records read") as progress:
        told = read_groups(settings, on_malformed=warn_skipped, each=progress.step)
    found = group_overviews(*told, now_ms=time.time_ns() // 1_000_000)
    if not as_json:
        console(wide=True).print(group_table(found))
        return
    write = json_lines()
    for one in found:
        write(group_line(one))


GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="Its id.")]


@command("Example: rebalance-monitor group checkout", subcommand_metavar="", interspersed=True)
@connected
def group(settings: Settings, group_id: GroupId, *, as_json: AsJson = False) -> None:
    """Who owns what in a group, by the names that people know, its open incidents, and its last ten episodes.

    The exit status is 2 when nothing is known of the group.
    """
    from streaming.cli.group_overview import group_document, group_overview
    from streaming.cli.groups_view import show_group
    from streaming.cli.output import Progress, json_lines
    from streaming.cli.render import warn_skipped
    from streaming.kafka.compacted_topics import read_groups

    with Progress("records read") as progress:
        read = read_groups(settings, group=group_id, on_malformed=warn_skipped, each=progress.step)
    found = group_overview(group_id, *read)
    if as_json:
        json_lines()(group_document(found))
    else:
        show_group(found)


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
def why(settings: Settings, group_id: GroupId, *, at: _At = None, as_json: AsJson = False) -> None:
    """Why a group rebalanced: its newest episode, or another, with story, evidence, members and rounds.

    The exit status is 1 when no episode was open at that time, 2 when none of the group is known.
    """
    from streaming.cli.group_overview import episode_open_at, newest_episode
    from streaming.cli.groups_view import show_episode
    from streaming.cli.options import time_ms
    from streaming.cli.output import Progress, json_lines, raw_json
    from streaming.cli.render import warn_skipped
    from streaming.kafka.compacted_topics import read_episode_records

    moment = None if at is None else time_ms(at, "--at")
    with Progress("records read") as progress:
        told = read_episode_records(settings, group=group_id, on_malformed=warn_skipped, each=progress.step)
    if moment is None:
        found = newest_episode(group_id, told)
    else:
        found = episode_open_at(group_id, told, moment, settings.stream.episode_quiet_ms)
    if as_json:
        json_lines()(raw_json(found.value))
    else:
        show_episode(found.episode)


_OneGroup = Annotated[
    str | None,
    typer.Option("--group", metavar="GROUP", help="Of this group alone.", show_default="all groups"),
]
_All = Annotated[bool, typer.Option("--all", help="Those that are over as well.")]


@command("Example: rebalance-monitor incidents --json | jq -r .story")
@connected
def incidents(
    settings: Settings, *, group_id: _OneGroup = None, all_of_them: _All = False, as_json: AsJson = False
) -> None:
    """What is wrong now: storms, groups that are stuck, partitions without an owner and more; the newest first."""
    from streaming.cli.group_overview import newest_first
    from streaming.cli.groups_view import incident_table
    from streaming.cli.output import Progress, json_lines, raw_json
    from streaming.cli.render import warn_skipped
    from streaming.kafka.compacted_topics import read_incident_records
    from streaming.process.terminal import console

    with Progress("records read") as progress:
        told = read_incident_records(settings, group=group_id, on_malformed=warn_skipped, each=progress.step)
    shown = newest_first(told, closed=all_of_them)
    if as_json:
        write = json_lines()
        for one in shown:
            write(raw_json(one.value))
    elif shown:
        console(wide=True).print(incident_table([one.incident for one in shown]))
    else:
        console().print("no incidents" if all_of_them else "no open incidents")
