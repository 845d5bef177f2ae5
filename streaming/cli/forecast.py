"""The commands ``forecast`` (the cost of a change of a group) and ``migrate`` (the steps to another protocol)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from streaming.cli.options import GroupId, JsonDocument, connected, duration_option, flag, option
from streaming.cli.output import Progress, answer, warn_skipped
from streaming.cli.simulate import load_deploy_file
from streaming.episodes.story import listed
from streaming.kafka.compacted_topics import read_episode_records
from streaming.kafka.group_reader import read_change_cost, read_live_group, read_rounds
from streaming.process.terminal import SafeText, fold, nowrap, right, table
from streaming.records.codec import rfc3339
from streaming.settings.config import Settings
from streaming.simulation import changes
from streaming.simulation.forecast import Forecast, forecast_change, forecast_document, format_seconds
from streaming.simulation.migration import parse_targets, plan_migration, recent_steps
from streaming.simulation.past_episode import forecast_past_episode

#: Name of a protocol in the forecast → its name for people.
_PROTOCOL_NAMES = {"eager": "eager", "cooperative": "cooperative"}
_PROTOCOL_NAMES |= {"static": "static members", "consumer": "consumer (KIP-848)"}
_PARALLEL_OPTION = option("N", "Members that restart at once.", None, min=1, show_default="a twentieth, at least 1")
_DOWNTIME_OPTION = duration_option("--down", "Time that a restarting member is down.", "20s")
_BETWEEN_OPTION = duration_option("--between", "Time between a member's return and the next stop.", "30s", minimum=0)
_HEARTBEAT_OPTION = duration_option(
    "--heartbeat", "heartbeat.interval.ms of the members.", None, show_default="3s; KIP-848 5s"
)
_PROCESSING_OPTION = duration_option("--processing", "Time that a member takes to process one poll.", "1s", minimum=0)
_DEPLOY_HELP = "surge, blue-green, recreate, or a scenario file as for simulate; - for standard input."
_FROM_HELP = "Repeat the membership changes of an episode: its number, or last."


@connected("rebalance-monitor forecast checkout --rolling-restart --parallel 2 --down 20s --between 30s")
def forecast(
    settings: Settings,
    group_id: GroupId,
    *,
    rolling_restart: bool = flag("--rolling-restart", "Restart every member, in the order of names."),
    parallel: int | None = _PARALLEL_OPTION,
    down: int = _DOWNTIME_OPTION,
    between: int = _BETWEEN_OPTION,
    scale: int | None = option("N", "Change the group to N members.", None, min=1, show_default=False),
    deploy: str | None = option("ROLLOUT|FILE", _DEPLOY_HELP, None, show_default=False),
    from_: str | None = option("EPISODE", _FROM_HELP, None, "--from", show_default=False),
    heartbeat: int | None = _HEARTBEAT_OPTION,
    processing: int = _PROCESSING_OPTION,
    as_json: JsonDocument = False,
) -> None:
    """Forecast the cost of a change of a live group: eager, cooperative, static members and KIP-848.

    Give one of --rolling-restart, --scale, --deploy and --from. TIME is 500ms, 20s or 5m.
    """
    restart = changes.RollingRestart(parallel, down, between)
    change = changes.single_change(
        restart if rolling_restart else None,
        None if scale is None else changes.ScaleChange(scale),
        None if deploy is None else _parse_deploy(deploy, restart),
        None if from_ is None else changes.PastEpisode(from_),
    )
    times = _simulated_times(heartbeat, processing)
    with Progress("records read") as progress:
        request = read_change_cost(settings, group_id, change, times, on_step=progress.step)
    with Progress("events simulated") as progress:
        result = forecast_change(request, rounds=as_json, on_step=progress.step)
    answer([forecast_document(group_id, result)], forecast_lines(group_id, result), as_json=as_json)


def _parse_deploy(name: str, restart: changes.RollingRestart) -> changes.Rollout | changes.Deploy:
    if name in changes.ROLLOUT_STRATEGIES and not Path(name).exists():
        return changes.Rollout(name, restart)
    return changes.Deploy(load_deploy_file(name))


def _simulated_times(heartbeat: int | None, processing: int) -> dict[str, int]:
    heartbeat_times = {} if heartbeat is None else {"heartbeat_ms": heartbeat, "consumer_heartbeat_ms": heartbeat}
    return {"processing_ms": processing} | heartbeat_times


@connected("rebalance-monitor migrate checkout --to consumer")
def migrate(
    settings: Settings,
    group_id: GroupId,
    *,
    to: list[str] | None = option(
        "NAME", "Target: cooperative, static or consumer. Repeatable.", None, show_default="all three"
    ),
    parallel: int | None = _PARALLEL_OPTION,
    down: int = _DOWNTIME_OPTION,
    between: int = _BETWEEN_OPTION,
    heartbeat: int | None = _HEARTBEAT_OPTION,
    processing: int = _PROCESSING_OPTION,
    as_json: JsonDocument = False,
) -> None:
    """Check whether a group is ready for cooperative rebalancing, static members or KIP-848.

    Prints what blocks each member, the steps of Kafka's documentation with their forecasts, and the steps that were
    taken already. TIME is 500ms, 20s or 5m.
    """
    targets, restart = parse_targets(to or []), changes.RollingRestart(parallel, down, between)
    times = _simulated_times(heartbeat, processing)
    with Progress("records read") as progress:
        group = read_live_group(settings, group_id, on_step=progress.step)
        records = read_episode_records(settings, group=group_id, on_malformed=warn_skipped, on_step=progress.step)
        past_steps = recent_steps([record.episode for record in records])
        diffs = read_rounds(settings, past_steps, on_step=progress.step)
    with Progress("events simulated") as progress:
        forecasts = (forecast_past_episode(*step, group, times) for step in zip(past_steps, diffs, strict=True))
        happened = list(zip(past_steps, forecasts, strict=True))
        plan = plan_migration(group, targets, restart=restart, times=times, past_steps=happened, on_step=progress.step)
    answer([plan], migration_lines(plan, len(group.members)), as_json=as_json)


def forecast_lines(group_id: str, forecast: Forecast) -> Iterator[Table | SafeText]:
    """Yield the cost of a change under each protocol, as a table in which the group's own protocol is bold."""
    plan, partitions = forecast.plan, sum(topic.partitions for topic in forecast.plan.topics.values())
    now = f"{len(plan.members)} members, {partitions} partitions, now {_PROTOCOL_NAMES[forecast.own]}"
    yield SafeText().append(group_id, "bold").append(f"  {now}")
    yield SafeText(forecast.sentence, "bold")
    rows = []
    for cost in forecast.costs:
        result = cost.simulation.result
        counts = (result.rebalances, result.round_count, result.moved)
        times = map(format_seconds, (cost.total_ms, cost.worst_ms))
        worst = "" if cost.worst is None else f"{cost.worst[0]}-{cost.worst[1]}"
        cells = (_PROTOCOL_NAMES[cost.way.name], cost.way.assignor, *counts, *times, worst)
        rows.append([SafeText(str(cell), "bold" if cost.way.name == forecast.own else "") for cell in cells])
    numbers = map(right, ("rebalances", "rounds", "moved", "downtime", "worst"))
    heads = (nowrap("protocol"), nowrap("assignor"), *numbers, fold("of partition"))
    yield table(heads, rows, box=None, pad_edge=False)
    yield from _uncertainty_lines(forecast.unsure)


def _uncertainty_lines(lines: Sequence[str]) -> Iterator[SafeText]:
    return (SafeText(f"not exact: {line}", "dim") for line in lines)


#: The most members that are named per reason.
_MAX_NAMED_MEMBERS = 20


def migration_lines(plan: Mapping[str, Any], members: int) -> Iterator[Table | SafeText]:
    """Yield the lines of a migration plan: the group's protocol, the path to each target, and what is done already."""
    by = f", {plan['assignor']}" if plan["assignor"] else ""
    now = f"{members} members, now {_PROTOCOL_NAMES[plan['now']]}{by}"
    yield SafeText().append(plan["groupId"], "bold").append(f"  {now}")
    for target, path in plan["targets"].items():
        yield from _target_lines(target, path)
    if plan["happened"]:
        rows = (
            (
                step["episode"],
                step["kind"],
                step["status"],
                rfc3339(step["openedAt"]),
                step["rebalances"],
                step["rounds"],
                step["moved"],
                _downtime_text(step["downtime"]),
                None if step["forecast"] is None else _cost_text(step["forecast"]),
            )
            for step in plan["happened"]
        )
        heads = ("episode", "kind", "status", "since", "rebalances", "rounds", "moved", "downtime", "as forecast now")
        yield SafeText("happened", "bold")
        yield table(heads, rows, box=None, pad_edge=False)
    yield from _uncertainty_lines(plan["unsure"])


def _target_lines(target: str, path: Mapping[str, Any]) -> Iterator[SafeText]:
    colour = {"done": "green", "ready": "cyan", "blocked": "bold red"}[path["state"]]
    yield SafeText().append(f"{_PROTOCOL_NAMES[target]}: ", "bold").append(path["state"], colour)
    reasons: dict[tuple[str, int | None], list[str]] = {}
    for obstacle in path["inTheWay"]:
        reasons.setdefault((obstacle["reason"], obstacle["step"]), []).append(obstacle["name"])
    for (reason, until), names in reasons.items():
        ends = "in the way" if until is None else f"until step {until}"
        yield SafeText(f"  {ends}: {listed(names, _MAX_NAMED_MEMBERS)}: {reason}")
    for number, step in enumerate(path["steps"], 1):
        yield SafeText(f"  {number}. {step['says']}")
        if step["forecast"] is not None:
            yield SafeText(f"     {_cost_text(step['forecast'])}", "cyan")
    yield from _uncertainty_lines(path["unsure"])


def _cost_text(cost: Mapping[str, Any]) -> str:
    worst = cost["downtime"]["worst"]
    return (
        f"{cost['rebalances']} rebalances, {cost['roundCount']} rounds, {cost['moved']} partitions moved, "
        f"{format_seconds(cost['downtime']['totalMs'])} of downtime, "
        f"{format_seconds(worst['ms'] if worst else 0)} at worst"
    )


def _downtime_text(downtime: Mapping[str, int | None] | None) -> str:
    if downtime is None:
        return "not known"
    lower, upper = downtime["lowerMs"] or 0, downtime["upperMs"]
    return f"{format_seconds(lower)} to {'no upper limit known' if upper is None else format_seconds(upper)}"
