"""The commands ``forecast``, ``migrate`` and ``what-if``: the effect of a change on a live group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsOneDocument, GroupId, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings
    from streaming.simulation.what_if import Outlook


_Rolling = Annotated[
    bool, typer.Option("--rolling-restart", help="Restart every member, in the order of names.")
]
Parallel = Annotated[
    int | None,
    typer.Option(
        "--parallel",
        metavar="N",
        min=1,
        help="Members that restart at once.",
        show_default="a twentieth of the group, at least 1",
    ),
]
Down = Annotated[str, typer.Option("--down", metavar="TIME", help="Time that a restarting member is down.")]
Between = Annotated[
    str, typer.Option("--between", metavar="TIME", help="Time between a member's return and the next stop.")
]
_Scale = Annotated[
    int | None,
    typer.Option("--scale", metavar="N", min=1, help="Change the group to N members.", show_default=False),
]
_Deploy = Annotated[
    str | None,
    typer.Option(
        "--deploy",
        metavar="FILE",
        help="Scenario file with the events, as for simulate; - for standard input.",
        show_default=False,
    ),
]
_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="EPISODE",
        help="Repeat the membership changes of an episode: its number, or last.",
        show_default=False,
    ),
]
Heartbeat = Annotated[
    str | None,
    typer.Option(
        "--heartbeat",
        metavar="TIME",
        help="heartbeat.interval.ms of the members.",
        show_default="3s; KIP-848 5s",
    ),
]
Processing = Annotated[
    str, typer.Option("--processing", metavar="TIME", help="Time that a member takes to process one poll.")
]


@command("rebalance-monitor forecast checkout --rolling-restart --parallel 2 --down 20s --between 30s")
@connected
def forecast(
    settings: Settings,
    group_id: GroupId,
    *,
    rolling_restart: _Rolling = False,
    parallel: Parallel = None,
    down: Down = "20s",
    between: Between = "30s",
    scale: _Scale = None,
    deploy: _Deploy = None,
    from_: _From = None,
    heartbeat: Heartbeat = None,
    processing: Processing = "1s",
    as_json: AsOneDocument = False,
) -> None:
    """Forecast the cost of a change of a live group: eager, cooperative, static members and KIP-848.

    Give one of --rolling-restart, --scale, --deploy and --from. TIME is 500ms, 20s or 5m.
    """
    from streaming.cli.forecast_view import show_forecast
    from streaming.cli.options import short_duration_ms
    from streaming.cli.output import Progress, json_lines
    from streaming.cli.simulate import load_deploy_file
    from streaming.kafka.group_reader import read_change
    from streaming.simulation import changes
    from streaming.simulation.forecast import forecast_change, forecast_document

    rolling = changes.RollingRestart(
        parallel, short_duration_ms(down, "--down", minimum=1), short_duration_ms(between, "--between")
    )
    change = changes.single_change(
        rolling if rolling_restart else None,
        None if scale is None else changes.Scale(scale),
        None if deploy is None else changes.Deploy(load_deploy_file(deploy)),
        None if from_ is None else changes.PastEpisode(from_),
    )
    times = _times(heartbeat, processing)
    with Progress("records read") as progress:
        asked = read_change(settings, group_id, change, times, each=progress.step)
    with Progress("events simulated") as progress:
        answer = forecast_change(asked, rounds=as_json, each=progress.step)
    if as_json:
        json_lines()(forecast_document(group_id, answer))
    else:
        show_forecast(group_id, answer)


def _times(heartbeat: str | None, processing: str) -> dict[str, int]:
    """Return the times of ``--heartbeat`` and ``--processing`` as fields of a scenario."""
    from streaming.cli.options import short_duration_ms

    times = {"processing_ms": short_duration_ms(processing, "--processing")}
    if heartbeat is not None:
        beat = short_duration_ms(heartbeat, "--heartbeat", minimum=1)
        times |= {"heartbeat_ms": beat, "consumer_heartbeat_ms": beat}
    return times


_To = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="NAME",
        help="Target: cooperative, static or consumer. Repeatable.",
        show_default="all three",
    ),
]


@command("rebalance-monitor migrate checkout --to consumer")
@connected
def migrate(
    settings: Settings,
    group_id: GroupId,
    *,
    to: _To = None,
    parallel: Parallel = None,
    down: Down = "20s",
    between: Between = "30s",
    heartbeat: Heartbeat = None,
    processing: Processing = "1s",
    as_json: AsOneDocument = False,
) -> None:
    """Check whether a group is ready for cooperative rebalancing, static members or KIP-848.

    Prints what blocks each member, the steps of Kafka's documentation with their forecasts, and the steps that were
    taken already. TIME is 500ms, 20s or 5m.
    """
    from streaming.cli.diff_lines import warn_skipped
    from streaming.cli.forecast_view import show_migration
    from streaming.cli.options import short_duration_ms
    from streaming.cli.output import Progress, json_lines
    from streaming.kafka.compacted_topics import read_episode_records
    from streaming.kafka.group_reader import read_live, read_rounds
    from streaming.simulation import migration as ask
    from streaming.simulation.changes import RollingRestart
    from streaming.simulation.past_episode import forecast_past_episode

    targets = ask.parse_targets(to or [])
    restart = RollingRestart(
        parallel, short_duration_ms(down, "--down", minimum=1), short_duration_ms(between, "--between")
    )
    times = _times(heartbeat, processing)
    with Progress("records read") as progress:
        group = read_live(settings, group_id, each=progress.step)
        told = read_episode_records(settings, group=group_id, on_malformed=warn_skipped, each=progress.step)
        happened = ask.recent_steps([one.episode for one in told])
        diffs = read_rounds(settings, happened, each=progress.step)
    with Progress("events simulated") as progress:
        found = ask.plan_migration(group, targets, restart=restart, times=times, each=progress.step)
        went = [
            ask.PastStep(one, forecast_past_episode(one, rounds, group, times))
            for one, rounds in zip(happened, diffs, strict=True)
        ]
    if as_json:
        json_lines()(ask.migration_document(group_id, found, went))
    else:
        show_migration(group_id, found, went)


_Add = Annotated[
    list[str] | None,
    typer.Option("--add", metavar="N|NAME", help="Add N members, or one of this name. Repeatable."),
]
_Remove = Annotated[
    list[str] | None, typer.Option("--remove", metavar="NAME", help="Remove a member. Repeatable.")
]
_Partitions = Annotated[
    list[str] | None,
    typer.Option("--partitions", metavar="TOPIC=N", help="Grow a topic to N partitions. Repeatable."),
]
_Subscribe = Annotated[
    list[str] | None,
    typer.Option(
        "--subscribe",
        metavar="TOPIC",
        help="Topic that all members subscribe to, instead of the current ones. Repeatable.",
    ),
]
_Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="Protocol: eager, cooperative or consumer.",
        show_default="the group's",
    ),
]
_Assignor = Annotated[
    str | None,
    typer.Option("--assignor", metavar="NAME", help="Assignor of that protocol.", show_default="the group's"),
]
_Most = Annotated[
    int | None,
    typer.Option(
        "--fail-if-moved-more-than",
        metavar="N",
        min=0,
        help="Exit with 1 if more than N partitions would move.",
    ),
]


@command(
    "rebalance-monitor what-if checkout --add 2 --partitions orders=24",
    "rebalance-monitor what-if checkout --remove pay-3 --fail-if-moved-more-than 20",
)
@connected
def what_if(
    settings: Settings,
    group_id: GroupId,
    *,
    add: _Add = None,
    remove: _Remove = None,
    partitions: _Partitions = None,
    subscribe: _Subscribe = None,
    protocol: _Protocol = None,
    assignor: _Assignor = None,
    most: _Most = None,
    as_json: AsOneDocument = False,
) -> None:
    """Compute which partitions would move if members joined or left, topics grew, or the assignor changed.

    The group is read from the monitor's topics. Without a change: the result of its next rebalance. The exit status
    is 2 if there is no such group.
    """
    from streaming.cli.forecast_view import show_what_if
    from streaming.cli.output import Progress, json_lines
    from streaming.kafka.group_reader import read_live
    from streaming.simulation.what_if import apply_change, outlooks
    from streaming.simulation.what_if_query import parse_query, what_if_document

    with Progress("records read") as progress:
        group = read_live(settings, group_id, also=tuple(subscribe or ()), each=progress.step)
    question = parse_query(
        group,
        add=add or (),
        remove=remove or (),
        partitions=partitions or (),
        subscribe=subscribe or (),
        protocol=protocol,
        assignor=assignor,
    )
    change = apply_change(group, question.changes)
    found = []
    with Progress("assignments computed") as progress:
        for one in outlooks(change):
            found.append(one)
            progress.step()
    chosen = question.chosen(group, found)
    if as_json:
        json_lines()(what_if_document(change, found, chosen))
    else:
        show_what_if(change, found, chosen)
    if most is not None:
        _fail_if_moved_more(most, group.assignor, chosen)


def _fail_if_moved_more(most: int, assignor: str | None, chosen: Outlook | None) -> None:
    """Exit with 1 if the assignor would move more; raise BadInput if that is unknown."""
    from assignors.errors import BadInput

    if chosen is None or chosen.problem is not None:
        why = chosen.problem if chosen else f"{assignor} is not one of Kafka's assignors"
        raise BadInput(
            f"--fail-if-moved-more-than: the number of moves is unknown: {why}; name an --assignor"
        )
    if chosen.moved > most:
        raise typer.Exit(1)
