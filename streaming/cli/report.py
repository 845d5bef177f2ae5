"""The command ``report``: writes a report on an episode or the whole cluster into one file, as for a post-mortem."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from assignors import __version__
from assignors.errors import BadInput
from streaming.advice.rules import advise_all
from streaming.cli.advise import read_histories
from streaming.cli.diff_lines import kind_of, to_utc
from streaming.cli.episodes import cost_lines, cost_table, episode_lines
from streaming.cli.groups import episode_table, group_table, owner_table
from streaming.cli.incidents import incident_table
from streaming.cli.options import connected, duration_option, flag, now_ms, option
from streaming.cli.output import file_errors, read_records
from streaming.kafka.compacted_topics import GroupRecords, read_groups
from streaming.kafka.group_reader import read_rounds
from streaming.process import escape_unprintable, print_line
from streaming.process.children import open_private
from streaming.recording import overview
from streaming.recording.report import ReportSection, ReportTable, as_markdown, render_html, round_table, timeline
from streaming.records.diffs import UnknownGroup
from streaming.records.episodes import Episode
from streaming.settings.config import Settings

_Group = Annotated[str | None, typer.Argument(metavar="GROUP", help="Group id, or --cluster.", show_default=False)]


@connected(
    "rebalance-monitor report checkout -o report.html",
    "rebalance-monitor report checkout --episode 17 --format md -o report.md",
    "rebalance-monitor report --cluster --since 24h -o report.html",
)
def report(
    settings: Settings,
    group_id: _Group = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
    cluster: bool = flag("--cluster", "All groups: incidents, status and cost."),
    episode: int | None = option("NUMBER", "Episode to report.", None, show_default="the newest"),
    format_: Literal["html", "md"] = flag("--format", "html: one page that loads nothing. md: Markdown.", "html"),
    since: int = duration_option("--since", "Time of the cluster's cost and incidents: 12h, 7d or 4w.", "7d"),
) -> None:
    """Write a report: what happened, timeline, cost, evidence, members, incidents and advice, in one file."""
    if cluster == (group_id is not None):
        raise BadInput("give one of GROUP and --cluster")
    now = now_ms()
    records = read_records(read_groups, settings, group_id)
    if group_id is None:
        title = f"Rebalances of all groups, {to_utc(now)}"
        sections = list(_cluster_sections(records, now, now - since))
    else:
        chosen = _find_episode(group_id, records, episode)
        title = f"{group_id}: {kind_of(chosen)}, {to_utc(chosen.opened_at)}"
        sections = list(_group_sections(settings, chosen, records, now))
    sections.append(ReportSection("About", [f"rebalance-monitor {__version__}, written {to_utc(now)}. Times are UTC."]))
    text = (render_html if format_ == "html" else as_markdown)(escape_unprintable(title), sections)
    with file_errors(f"--output {output}"), open_private(output, "wb") as file:
        file.write(text.encode())
    print_line(f"{output}: {len(text):,} characters")


def _find_episode(group_id: str, records: GroupRecords, number: int | None) -> Episode:
    own = [record.episode for record in overview.sort_episodes(records.episodes)]
    chosen = own if number is None else [episode for episode in own if episode.episode == number]
    if not chosen:
        what = "has no episode" if number is None else f"has no episode {number}"
        raise UnknownGroup(f"group {group_id}: {what}; `rebalance-monitor group {group_id}` lists the last ones")
    return chosen[-1]


def _group_sections(settings: Settings, chosen: Episode, records: GroupRecords, now_ms: int) -> Iterator[ReportSection]:
    group_id = chosen.group_id
    yield ReportSection("What happened", [line.plain for line in episode_lines(chosen, now_ms)])
    (diffs,) = read_rounds(settings, [chosen])
    if diffs:
        end = chosen.updated_at if chosen.closed_at is not None else now_ms
        yield ReportSection("Timeline", svg=timeline(diffs, end))
        yield ReportSection("Rounds", table=round_table(diffs))
    yield ReportSection("Cost", table=_cost_table([chosen], by_episode=True))
    until = chosen.closed_at or now_ms
    incidents = [
        record.incident
        for record in overview.sort_newest_first(records.incidents, closed=True)
        if overview.concerns_group(record.incident, group_id)
        and record.incident.opened_at <= until
        and (record.incident.closed_at or now_ms) >= chosen.opened_at
    ]
    if incidents:
        yield ReportSection("Incidents", table=_as_report_table(incident_table(incidents)))
    if records.assignments:
        owners = overview.owner_lines(overview.group_overview(group_id, *records).latest)
        yield ReportSection("Members now", table=_as_report_table(owner_table(owners)))
        rows = [
            (a.severity, a.title, "; ".join(e.text for e in a.evidence), a.change, a.saving.text if a.saving else "")
            for a in advise_all(read_histories(settings, group_id, None))
        ]
        if rows:
            heads = ("severity", "advice", "evidence", "change", "saves")
            yield ReportSection("Advice", table=ReportTable(heads, rows))
    newest_episodes = (record.episode for record in overview.sort_episodes(records.episodes)[::-1])
    other_episodes = [episode for episode in newest_episodes if episode.episode != chosen.episode][:10]
    if other_episodes:
        yield ReportSection("Other episodes", table=_as_report_table(episode_table(other_episodes)))


def _cluster_sections(records: GroupRecords, now_ms: int, begin: int) -> Iterator[ReportSection]:
    incidents = [
        record.incident
        for record in overview.sort_newest_first(records.incidents, closed=True)
        if (record.incident.closed_at or now_ms) >= begin
    ]
    incidents.sort(key=lambda incident: (incident.scope != "cluster", incident.status != "open"))
    if incidents:
        yield ReportSection("Incidents", table=_as_report_table(incident_table(incidents)))
    groups = group_table(overview.group_overviews(*records, now_ms=now_ms))
    yield ReportSection("Groups", table=_as_report_table(groups))
    recent_episodes = overview.since(records.episodes, begin)
    yield ReportSection(f"Cost since {to_utc(begin)}", table=_cost_table(recent_episodes, by_episode=False))


def _cost_table(episodes: list[Episode], *, by_episode: bool) -> ReportTable:
    return _as_report_table(cost_table(cost_lines(episodes, by_episode=by_episode), by_episode=by_episode))


def _as_report_table(shown: Table) -> ReportTable:
    """Return a table that is shown in terminals as a table of the report."""
    cells = ([str(cell) for cell in column.cells] for column in shown.columns)
    return ReportTable([str(column.header) for column in shown.columns], list(zip(*cells, strict=True)))
