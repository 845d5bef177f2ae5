"""``rebalance-monitor migrate``: whether a group is ready for another protocol, and the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.forecast import (
    Between,
    Down,
    Group,
    Heartbeat,
    OneDocument,
    Parallel,
    Processing,
    given_times,
)
from streaming.cli.options import command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_To = Annotated[
    list[str] | None,
    typer.Option(
        "--to", metavar="NAME", help="cooperative, static or consumer. Repeatable.", show_default="all three"
    ),
]


@command(
    "Example: rebalance-monitor migrate checkout --to consumer", subcommand_metavar="", interspersed=True
)
@connected
def migrate(
    settings: Settings,
    group_id: Group,
    *,
    to: _To = None,
    parallel: Parallel = None,
    down: Down = "20s",
    between: Between = "30s",
    heartbeat: Heartbeat = None,
    processing: Processing = "1s",
    as_json: OneDocument = False,
) -> None:
    """Whether a group is ready for cooperative rebalancing, static members and KIP-848.

    What stands in the way, member by member; the steps that Kafka's documentation asks for, each with its
    forecast; and what has happened of it. TIME is 500ms, 20s or 5m.
    """
    from streaming.answers.output import json_lines
    from streaming.answers.progress import Progress
    from streaming.cli.durations import short_ms
    from streaming.cli.forecast_view import show_plan
    from streaming.cli.render import skipped
    from streaming.kafka.live import read_live, read_rounds
    from streaming.kafka.newest import read_episodes
    from streaming.simulation import migration as ask
    from streaming.simulation.changes import RollingRestart
    from streaming.simulation.past_episode import forecast_past_episode

    targets = ask.parse_targets(to or [])
    restart = RollingRestart(parallel, short_ms(down, "--down", least=1), short_ms(between, "--between"))
    times = given_times(heartbeat, processing)
    with Progress("records read") as progress:
        group = read_live(settings, group_id, each=progress.step)
        told = read_episodes(settings, group=group_id, on_malformed=skipped, each=progress.step)
        happened = ask.recent_steps([one.episode for one in told])
        diffs = read_rounds(settings, happened, each=progress.step)
    with Progress("events played") as progress:
        found = ask.plan_migration(group, targets, restart=restart, times=times, each=progress.step)
        went = [
            ask.PastStep(one, forecast_past_episode(one, rounds, group, times))
            for one, rounds in zip(happened, diffs, strict=True)
        ]
    if as_json:
        json_lines()(ask.migration_document(group_id, found, went))
    else:
        show_plan(group_id, found, went)
