"""The commands ``forecast`` and ``migrate``: the cost of a deploy, and the way to another protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

from rich.table import Column, Table

from streaming.cli.options import AsOneDocument, GroupId, command, connected, duration_ms, flag, option
from streaming.cli.output import Progress, answer, warn_skipped
from streaming.cli.simulate import load_deploy_file
from streaming.kafka.compacted_topics import read_episode_records
from streaming.kafka.group_reader import read_change, read_live, read_rounds
from streaming.process.terminal import SafeText, console
from streaming.records.codec import rfc3339
from streaming.records.episodes import Episode
from streaming.settings.config import Settings
from streaming.simulation import changes
from streaming.simulation.forecast import Cost, Forecast, forecast_change, forecast_document, format_seconds
from streaming.simulation.migration import (
    MigrationPath,
    MigrationPlan,
    PastStep,
    migration_document,
    parse_targets,
    plan_migration,
    recent_steps,
)
from streaming.simulation.past_episode import forecast_past_episode

#: Name of a protocol in the forecast → its name for people.
_WAY_NAMES = {
    "eager": "eager",
    "cooperative": "cooperative",
    "static": "static members",
    "consumer": "consumer (KIP-848)",
}


_Rolling = Annotated[bool, flag("--rolling-restart", "Restart every member, in the order of names.")]
Parallel = Annotated[
    int | None,
    option(
        "--parallel", "N", "Members that restart at once.", min=1, show_default="a twentieth of the group, at least 1"
    ),
]
Down = Annotated[str, option("--down", "TIME", "Time that a restarting member is down.")]
Between = Annotated[str, option("--between", "TIME", "Time between a member's return and the next stop.")]
_Scale = Annotated[int | None, option("--scale", "N", "Change the group to N members.", min=1, show_default=False)]
_Deploy = Annotated[
    str | None,
    option(
        "--deploy",
        "ROLLOUT|FILE",
        "surge, blue-green, recreate, or a scenario file as for simulate; - for standard input.",
        show_default=False,
    ),
]
_From = Annotated[
    str | None,
    option(
        "--from", "EPISODE", "Repeat the membership changes of an episode: its number, or last.", show_default=False
    ),
]
Heartbeat = Annotated[
    str | None, option("--heartbeat", "TIME", "heartbeat.interval.ms of the members.", show_default="3s; KIP-848 5s")
]
Processing = Annotated[str, option("--processing", "TIME", "Time that a member takes to process one poll.")]


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
    restart = _restart(parallel, down, between)
    change = changes.single_change(
        restart if rolling_restart else None,
        None if scale is None else changes.Scale(scale),
        None if deploy is None else _deploy(deploy, restart),
        None if from_ is None else changes.PastEpisode(from_),
    )
    times = _times(heartbeat, processing)
    with Progress("records read") as progress:
        request = read_change(settings, group_id, change, times, each=progress.step)
    with Progress("events simulated") as progress:
        result = forecast_change(request, rounds=as_json, each=progress.step)
    answer([forecast_document(group_id, result)], lambda: show_forecast(group_id, result), as_json=as_json)


def _deploy(name: str, restart: changes.RollingRestart) -> changes.Rollout | changes.Deploy:
    if name in changes.ROLLOUTS and not Path(name).exists():
        return changes.Rollout(name, restart)
    return changes.Deploy(load_deploy_file(name))


def _restart(parallel: int | None, down: str, between: str) -> changes.RollingRestart:
    return changes.RollingRestart(parallel, duration_ms(down, "--down"), duration_ms(between, "--between", minimum=0))


def _times(heartbeat: str | None, processing: str) -> dict[str, int]:
    times = {"processing_ms": duration_ms(processing, "--processing", minimum=0)}
    if heartbeat is not None:
        beat = duration_ms(heartbeat, "--heartbeat")
        times |= {"heartbeat_ms": beat, "consumer_heartbeat_ms": beat}
    return times


_To = Annotated[
    list[str] | None,
    option("--to", "NAME", "Target: cooperative, static or consumer. Repeatable.", show_default="all three"),
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
    targets = parse_targets(to or [])
    restart = _restart(parallel, down, between)
    times = _times(heartbeat, processing)
    with Progress("records read") as progress:
        group = read_live(settings, group_id, each=progress.step)
        records = read_episode_records(settings, group=group_id, on_malformed=warn_skipped, each=progress.step)
        past = recent_steps([record.episode for record in records])
        diffs = read_rounds(settings, past, each=progress.step)
    with Progress("events simulated") as progress:
        plan = plan_migration(group, targets, restart=restart, times=times, each=progress.step)
        past_steps = [
            PastStep(episode, forecast_past_episode(episode, rounds, group, times))
            for episode, rounds in zip(past, diffs, strict=True)
        ]
    document = migration_document(group_id, plan, past_steps)
    answer([document], lambda: show_migration(group_id, plan, past_steps), as_json=as_json)


def show_forecast(group_id: str, forecast: Forecast) -> None:
    """Print the cost of a change under each protocol."""
    screen, plan = console(wide=True), forecast.plan
    partitions = sum(topic.partitions for topic in plan.topics.values())
    now = f"{len(plan.members)} members, {partitions} partitions, now {_WAY_NAMES[forecast.own]}"
    screen.print(SafeText().append(group_id, "bold").append(f"  {now}"), soft_wrap=True)
    screen.print(SafeText(forecast.sentence, "bold"), soft_wrap=True)
    screen.print(forecast_table(forecast))
    for line in _unsure(forecast.unsure):
        screen.print(line, soft_wrap=True)


def _unsure(lines: Sequence[str]) -> Iterator[SafeText]:
    return (SafeText(f"not exact: {line}", "dim") for line in lines)


def forecast_table(forecast: Forecast) -> Table:
    """Return a table with a row a protocol, the group's own in bold."""
    table = Table(
        Column("protocol", no_wrap=True),
        Column("assignor", no_wrap=True),
        *(Column(name, justify="right") for name in ("rebalances", "rounds", "moved", "downtime", "worst")),
        Column("of partition", overflow="fold"),
        box=None,
        pad_edge=False,
    )
    for cost in forecast.costs:
        result = cost.simulation.result
        table.add_row(
            _WAY_NAMES[cost.way.name],
            cost.way.assignor,
            *map(str, (result.rebalances, result.round_count, result.moved)),
            *map(format_seconds, (cost.total_ms, cost.worst_ms)),
            SafeText("" if cost.worst is None else f"{cost.worst[0]}-{cost.worst[1]}"),
            style="bold" if cost.way.name == forecast.own else "",
        )
    return table


#: Members that are named for one reason.
_MAX_NAMED = 20


def show_migration(group_id: str, plan: MigrationPlan, past_steps: Sequence[PastStep]) -> None:
    """Print the group's protocol, the way to each target, and the steps that were taken."""
    screen, start = console(wide=True), plan.start
    by = f", {start.assignor}" if start.assignor else ""
    now = f"{len(start.members)} members, now {_WAY_NAMES[start.way]}{by}"
    screen.print(SafeText().append(group_id, "bold").append(f"  {now}"), soft_wrap=True)
    for line in chain.from_iterable(map(_migration_lines, plan.paths)):
        screen.print(line, soft_wrap=True)
    if past_steps:
        screen.print(SafeText("happened", "bold"))
        screen.print(_past_step_table(past_steps))
    for line in _unsure(plan.start.unsure):
        screen.print(line, soft_wrap=True)


def _migration_lines(path: MigrationPath) -> Iterator[SafeText]:
    colour = {"done": "green", "ready": "cyan", "blocked": "bold red"}[path.state]
    yield SafeText().append(f"{_WAY_NAMES[path.to]}: ", "bold").append(path.state, colour)
    reasons: dict[tuple[str, int | None], list[str]] = {}
    for hindrance in path.hindrances:
        reasons.setdefault((hindrance.reason, hindrance.step), []).append(hindrance.name)
    for (reason, until), names in reasons.items():
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        ends = "in the way" if until is None else f"until step {until}"
        yield SafeText(f"  {ends}: {', '.join(names[:_MAX_NAMED])}{more}: {reason}")
    for number, step in enumerate(path.steps, 1):
        yield SafeText(f"  {number}. {step.description}")
        if step.cost is not None:
            yield SafeText(f"     {_cost_text(step.cost)}", "cyan")
    yield from _unsure(path.unsure)


def _cost_text(cost: Cost) -> str:
    result = cost.simulation.result
    return (
        f"{result.rebalances} rebalances, {result.round_count} rounds, {result.moved} partitions moved, "
        f"{format_seconds(cost.total_ms)} of downtime, {format_seconds(cost.worst_ms)} at worst"
    )


def _past_step_table(past_steps: Sequence[PastStep]) -> Table:
    table = Table(
        Column("episode", justify="right"),
        "kind",
        "status",
        "since",
        *(Column(name, justify="right") for name in ("rebalances", "rounds", "moved")),
        "downtime",
        "as forecast now",
        box=None,
        pad_edge=False,
    )
    for episode, cost in past_steps:
        table.add_row(
            str(episode.episode),
            episode.kind,
            episode.status,
            rfc3339(episode.opened_at),
            *map(str, (episode.rebalances, episode.round_count, episode.moved)),
            _downtime_text(episode),
            "" if cost is None else _cost_text(cost),
        )
    return table


def _downtime_text(episode: Episode) -> str:
    if episode.downtime is None:
        return "not known"
    upper = episode.downtime.upper_ms
    most = "no upper limit known" if upper is None else format_seconds(upper)
    return f"{format_seconds(episode.downtime.lower_ms)} to {most}"
