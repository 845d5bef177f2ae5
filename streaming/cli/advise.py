"""The command ``advise``: changes of a group or of its clients' configuration, and what each change would save."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from assignors.errors import BadInput
from streaming.advice.clients import ClientConfiguration, parse_configuration
from streaming.advice.history import GroupHistory
from streaming.advice.model import SEVERITIES, Advice
from streaming.advice.replay import Budget
from streaming.advice.rules import advise_all, episodes_to_read, reaches_severity
from streaming.cli.options import AsJson, BootstrapServers, TopicPrefix, flag, now_ms, offline, option
from streaming.cli.output import Progress, answer, file_errors, warn_skipped
from streaming.episodes.story import count
from streaming.kafka.compacted_topics import read_groups
from streaming.kafka.group_reader import read_live_group, read_rounds
from streaming.process.service import configure_logging
from streaming.process.terminal import SafeText
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident
from streaming.settings.config import Settings, load

_CONFIG_HELP = "Configuration of the clients: Java properties, librdkafka, Spring Boot, Kafka Streams or Connect."
#: Simulation work for all groups together (:class:`Budget`), which takes about five seconds.
ALL_GROUPS_WORK_LIMIT: Final = 200_000
_SEVERITY_COLOURS: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


@offline(
    "rebalance-monitor advise checkout",
    "rebalance-monitor advise --all --fail-on warning",
    "rebalance-monitor advise --config consumer.properties",
)
def advise(
    group_id: Annotated[str | None, typer.Argument(metavar="GROUP", help="Group id.", show_default=False)] = None,
    *,
    all_groups: bool = flag("--all", "All groups, the worst first."),
    client_config: Path | None = option("FILE", _CONFIG_HELP, None, "--config"),
    fail_on: str | None = option(
        "SEVERITY", "Exit with 1 on advice of this severity or worse: info, warning, critical.", None
    ),
    bootstrap_servers: BootstrapServers = None,
    settings_file: Path | None = option("FILE", "Settings file (TOML).", None, "--settings"),
    topic_prefix: TopicPrefix = None,
    as_json: AsJson = False,
) -> None:
    """Advise what to change, by a group's own last 30 days: evidence, the change, and what it would have saved.

    Give GROUP, --all, or --config alone: then only the file is checked, without a cluster.
    """
    if fail_on is not None and fail_on not in SEVERITIES:
        raise BadInput(f"--fail-on {fail_on}: write {', '.join(SEVERITIES)}")
    if all_groups == (group_id is not None) and (all_groups or client_config is None):
        raise BadInput("give GROUP or --all, not both; or --config FILE alone")
    file = None
    if client_config is not None:
        with file_errors(f"--config {client_config}"):
            file = parse_configuration(client_config.name, client_config.read_text())
    if all_groups or group_id is not None:
        configure_logging(quiet=True)
        settings = load(settings_file, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
        histories = read_histories(settings, group_id, file)
    else:
        name = "" if file is None else file.values.get("group.id", "")
        histories = [GroupHistory(name, now_ms(), configuration=file)]
    advices = advise_all(histories, Budget(ALL_GROUPS_WORK_LIMIT) if all_groups else None)
    answer(advices, _advice_lines(advices, len(histories)), as_json=as_json)
    if fail_on is not None and reaches_severity(advices, fail_on):
        raise typer.Exit(1)


def read_histories(settings: Settings, group_id: str | None, file: ClientConfiguration | None) -> list[GroupHistory]:
    """Return the histories of all groups, or of one group; the history of one group includes its members' settings."""
    now = now_ms()
    with Progress("records read") as progress:
        records = read_groups(settings, group=group_id, on_malformed=warn_skipped, on_step=progress.step)
        chosen = episodes_to_read((record.episode for record in records.episodes), now)
        diffs = read_rounds(settings, chosen, on_step=progress.step)
        live = None if group_id is None else read_live_group(settings, group_id, on_step=progress.step)
    latest = {assignment.group_id: assignment for assignment in records.assignments}
    episodes: dict[str, list[Episode]] = defaultdict(list)
    incidents: dict[str, list[Incident]] = defaultdict(list)
    rounds: dict[str, dict[int, list[Diff]]] = defaultdict(dict)
    for record in records.episodes:
        episodes[record.episode.group_id].append(record.episode)
    for opened in records.incidents:
        incidents[opened.incident.group_id].append(opened.incident)
    for episode, own in zip(chosen, diffs, strict=True):
        rounds[episode.group_id][episode.episode] = own
    return [
        GroupHistory(name, now, episodes[name], latest.get(name), incidents[name], live, rounds[name], file)
        for name in sorted({*episodes, *latest})
    ]


def _advice_lines(advices: Sequence[Advice], groups: int) -> Iterator[SafeText]:
    if not advices:
        yield SafeText(f"no advice for {count(groups, 'group')}")
    for advice in advices:
        head = SafeText(f"{advice.severity:<9}", _SEVERITY_COLOURS[advice.severity])
        head.append(f"{advice.group_id}  " if advice.group_id else "", "bold")
        yield head.append(f"{advice.rule}: {advice.title}")
        lines = [("why", evidence.text) for evidence in advice.evidence]
        lines.append(("change", advice.change))
        lines += [("", f"{name}={value}") for name, value in advice.settings.items()]
        lines += [("saves", advice.saving.text)] if advice.saving is not None else []
        lines.append(("sure", "; ".join((advice.confidence, *advice.unsure))))
        lines.append(("docs", advice.docs))
        yield from (SafeText(f"  {label:<7}", "dim").append(text) for label, text in lines)
