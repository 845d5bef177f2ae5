"""``rebalance-monitor forecast``: what a change of a live group will cost under each protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Its id.")]
_Rolling = Annotated[
    bool, typer.Option("--rolling-restart", help="Every member stops and comes back, in the order of names.")
]
Parallel = Annotated[
    int | None,
    typer.Option(
        "--parallel",
        min=1,
        help="Members that restart at once.",
        show_default="a twentieth of the group, at least 1",
    ),
]
Down = Annotated[str, typer.Option("--down", metavar="TIME", help="How long a member is away.")]
Between = Annotated[
    str, typer.Option("--between", metavar="TIME", help="From the return of some to the stop of the next.")
]
_Scale = Annotated[
    int | None,
    typer.Option("--scale", metavar="N", min=1, help="The group gets N members.", show_default=False),
]
_Deploy = Annotated[
    str | None,
    typer.Option(
        "--deploy",
        metavar="FILE",
        help="The events of a scenario, as `simulate` reads it; - for standard input.",
        show_default=False,
    ),
]
_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="EPISODE",
        help="Who came and went in a past episode, by its number, or `last`.",
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
    str, typer.Option("--processing", metavar="TIME", help="How long members process what one poll gave.")
]
OneDocument = Annotated[bool, typer.Option("--json", help="One JSON document for programs.")]


@command(
    "Example: rebalance-monitor forecast checkout --rolling-restart --parallel 2 --down 20s --between 30s",
    subcommand_metavar="",
    interspersed=True,
)
@connected
def forecast(
    settings: Settings,
    group_id: Group,
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
    as_json: OneDocument = False,
) -> None:
    """What a change of a group will cost, from where it stands: eager, cooperative, static members and KIP-848.

    Say one of --rolling-restart, --scale, --deploy and --from. TIME is 500ms, 20s or 5m.
    """
    from streaming.answers import forecast as ask
    from streaming.answers.output import json_lines
    from streaming.answers.progress import Progress
    from streaming.cli.durations import short_ms
    from streaming.cli.forecast_view import show_answer
    from streaming.kafka.live import read_change
    from streaming.simulation import changes
    from streaming.simulation.forecast import forecast_change, forecast_document

    rolling = changes.RollingRestart(
        parallel, short_ms(down, "--down", least=1), short_ms(between, "--between")
    )
    change = changes.single_change(
        rolling if rolling_restart else None,
        None if scale is None else changes.Scale(scale),
        None if deploy is None else changes.Deploy(ask.deploy(deploy)),
        None if from_ is None else changes.PastEpisode(from_),
    )
    times = given_times(heartbeat, processing)
    with Progress("records read") as progress:
        asked = read_change(settings, group_id, change, times, each=progress.step)
    with Progress("events played") as progress:
        answer = forecast_change(asked, rounds=as_json, each=progress.step)
    if as_json:
        json_lines()(forecast_document(group_id, answer))
    else:
        show_answer(group_id, answer)


def given_times(heartbeat: str | None, processing: str) -> dict[str, int]:
    """What ``--heartbeat`` and ``--processing`` say, as a scenario has it.

    Raises:
        UnreadableDuration: one is no time.
    """
    from streaming.cli.durations import short_ms

    times = {"processing_ms": short_ms(processing, "--processing")}
    if heartbeat is not None:
        beat = short_ms(heartbeat, "--heartbeat", least=1)
        times |= {"heartbeat_ms": beat, "consumer_heartbeat_ms": beat}
    return times
