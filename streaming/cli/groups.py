"""The commands ``groups``, ``group``, ``why`` and ``incidents``: what the monitor's topics hold about groups."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer
from msgspec import UNSET
from rich.table import Column, Table

from streaming.cli.diff_lines import clock, share_text, short_member, warn_skipped
from streaming.cli.group_overview import (
    GroupOverview,
    OwnerLine,
    episode_open_at,
    group_document,
    group_line,
    group_overview,
    group_overviews,
    newest_episode,
    newest_first,
    owner_lines,
)
from streaming.cli.options import AsJson, GroupId, OnlyGroup, command, connected, time_ms
from streaming.cli.output import Progress, json_lines, raw_json
from streaming.episodes.story import count, duration
from streaming.kafka.compacted_topics import (
    GroupRecords,
    read_episode_records,
    read_groups,
    read_incident_records,
)
from streaming.kafka.membership_log import read_history
from streaming.process.terminal import SafeText, console
from streaming.records.codec import rfc3339
from streaming.records.episodes import Bounds, Downtime, Episode, EpisodeMembers, Incident
from streaming.records.events import Evidence
from streaming.records.names import called, who, worded
from streaming.settings.config import Settings

#: State of a group, or status of an episode → its colour.
_COLOURS: Final[Mapping[str | None, str]] = {
    "settled": "green",
    "settling": "cyan",
    "stuck": "bold red",
    "storming": "bold red",
    "empty": "dim",
}
#: Members of one sort that ``why`` lists.
_MAX_LISTED: Final = 20


_AsOf = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="As of this time: RFC 3339, or milliseconds since the epoch. Plays the membership log again.",
        show_default="now",
    ),
]


@command(
    "rebalance-monitor groups",
    "rebalance-monitor groups --json | jq -r 'select(.state == \"stuck\").groupId'",
)
@connected
def groups(settings: Settings, *, at: _AsOf = None, as_json: AsJson = False) -> None:
    """List all groups: kind, state, members, downtime today (UTC), open incidents and the last episode."""
    at_ms = None if at is None else time_ms(at, "--at")
    records = _read(settings, None, at_ms)
    overviews = group_overviews(*records, now_ms=time.time_ns() // 1_000_000 if at_ms is None else at_ms)
    if not as_json:
        console(wide=True).print(group_table(overviews))
        return
    write = json_lines()
    for overview in overviews:
        write(group_line(overview))


@command("rebalance-monitor group checkout", "rebalance-monitor group checkout --at 2026-01-31T09:14:00Z")
@connected
def group(settings: Settings, group_id: GroupId, *, at: _AsOf = None, as_json: AsJson = False) -> None:
    """Show one group: its members and their partitions, its open incidents and its last ten episodes.

    The exit status is 2 if there is no such group.
    """
    records = _read(settings, group_id, None if at is None else time_ms(at, "--at"))
    overview = group_overview(group_id, *records)
    if as_json:
        json_lines()(group_document(overview))
    else:
        show_group(overview)


def _read(settings: Settings, group_id: str | None, at_ms: int | None) -> GroupRecords:
    """Return the records of all groups or of one: the newest, or those as of ``at_ms``."""
    with Progress("records read") as progress:
        if at_ms is None:
            return read_groups(settings, group=group_id, on_malformed=warn_skipped, each=progress.step)
        history = read_history(settings, at_ms, group_id, each=progress.step)
        return GroupRecords(history.assignments, history.episodes, history.incidents)


_At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Show the episode that was open at this time: RFC 3339, or milliseconds since the epoch.",
        show_default="the newest episode",
    ),
]


@command("rebalance-monitor why checkout", "rebalance-monitor why checkout --at 2026-01-31T09:14:00Z")
@connected
def why(settings: Settings, group_id: GroupId, *, at: _At = None, as_json: AsJson = False) -> None:
    """Explain why a group rebalanced: an episode with its evidence, members, rounds and downtime.

    The exit status is 1 if no episode was open at that time, and 2 if the group has no episode.
    """
    timestamp = None if at is None else time_ms(at, "--at")
    with Progress("records read") as progress:
        episodes = read_episode_records(
            settings, group=group_id, on_malformed=warn_skipped, each=progress.step
        )
    if timestamp is None:
        record = newest_episode(group_id, episodes)
    else:
        record = episode_open_at(group_id, episodes, timestamp, settings.stream.episode_quiet_ms)
    if as_json:
        json_lines()(raw_json(record.value))
    else:
        show_episode(record.episode)


_All = Annotated[bool, typer.Option("--all", help="Closed incidents too.")]


@command("rebalance-monitor incidents", "rebalance-monitor incidents --json | jq -r .story")
@connected
def incidents(
    settings: Settings, *, group_id: OnlyGroup = None, all_of_them: _All = False, as_json: AsJson = False
) -> None:
    """List open incidents, the newest first: storms, stuck groups, partitions without a consumer and more."""
    with Progress("records read") as progress:
        records = read_incident_records(
            settings, group=group_id, on_malformed=warn_skipped, each=progress.step
        )
    listed = newest_first(records, closed=all_of_them)
    if as_json:
        write = json_lines()
        for record in listed:
            write(raw_json(record.value))
    elif listed:
        console(wide=True).print(incident_table([record.incident for record in listed]))
    else:
        console().print("no incidents" if all_of_them else "no open incidents")


def _state(state: str | None) -> SafeText:
    return SafeText(state or "", _COLOURS.get(state, ""))


def group_table(overviews: Iterable[GroupOverview]) -> Table:
    """Return a table with a row a group."""
    table = Table(
        Column("group", overflow="fold"),
        Column("kind", no_wrap=True),
        Column("state", no_wrap=True),
        Column("members", justify="right"),
        Column("downtime today"),
        Column("incidents"),
        Column("last episode", ratio=1),
    )
    for overview in overviews:
        kinds = dict.fromkeys(record.incident.kind for record in overview.incidents)
        table.add_row(
            SafeText(overview.latest.group_id, "bold"),
            overview.kind,
            _state(overview.state),
            str(len(overview.latest.members)),
            _total(overview.today),
            SafeText(", ".join(kinds), "bold red"),
            SafeText(overview.newest.story if overview.newest else ""),
        )
    return table


def _total(downtime: Downtime | None) -> str:
    """``0.3 s to 1.2 s``: the downtime of all partitions together."""
    if downtime is None:
        return ""
    if downtime.upper_ms is None:
        return f"≥ {duration(downtime.lower_ms)}"
    return f"{duration(downtime.lower_ms)} to {duration(downtime.upper_ms)}"


def incident_table(listed: Iterable[Incident]) -> Table:
    """Return a table with a row an incident."""
    table = Table(
        Column("group", overflow="fold"),
        Column("incident", no_wrap=True),
        Column("status", no_wrap=True),
        Column("since", no_wrap=True),
        Column("times", justify="right"),
        Column("story", ratio=1),
    )
    for incident in listed:
        table.add_row(
            SafeText(incident.group_id, "bold"),
            incident.kind,
            SafeText(incident.status, "bold red" if incident.status == "open" else "dim"),
            _time(incident.opened_at),
            str(incident.times),
            SafeText(incident.story),
        )
    return table


def show_group(overview: GroupOverview) -> None:
    """Print a group's open incidents, its members with their partitions, and its last episodes."""
    screen, latest, lines = console(wide=True), overview.latest, owner_lines(overview.latest)
    head = SafeText().append(latest.group_id, "bold")
    head.append(f"  {overview.kind}, ").append(_state(overview.state or "no episode yet"))
    head.append(f", {count(len(lines), 'member')}")
    number = f"epoch {latest.group_epoch}" if latest.generation is None else f"generation {latest.generation}"
    assignor = f", {latest.assignor}" if latest.assignor else ""
    head.append(f"  {latest.protocol}{assignor}, {number} since {_time(latest.timestamp)}", "dim")
    screen.print(head, soft_wrap=True)
    for incident, _ in overview.incidents:
        line = SafeText().append(incident.kind, "bold red").append(f" since {_time(incident.opened_at)}")
        screen.print(line.append(f"  {incident.story}"), soft_wrap=True)
    if lines:
        screen.print(_owner_table(lines))
    if overview.episodes:
        table = Table(Column("episode", justify="right"), "kind", "status", Column("story", ratio=1))
        for episode in (record.episode for record in overview.episodes):
            table.add_row(
                str(episode.episode), _kind(episode), _state(episode.status), SafeText(episode.story)
            )
        screen.print(table)


def _owner_table(lines: Sequence[OwnerLine]) -> Table:
    table = Table(
        Column("member", overflow="fold"),
        Column("host", overflow="fold"),
        Column("owns", ratio=1, overflow="fold"),
        Column("partitions", justify="right"),
        Column("member id", overflow="fold", style="dim"),
    )
    for line in lines:
        owns = SafeText(share_text(line.owned))
        for role, tasks in (("standby", line.standby), ("warm-up", line.warmup)):
            if tasks is not UNSET and any(tasks.values()):
                owns.append(f"  {role} {share_text(tasks)}", "dim")
        table.add_row(
            SafeText(short_member(line.name)),
            SafeText((line.client_host or "").lstrip("/")),
            owns,
            str(sum(map(len, line.owned.values()))),
            SafeText(short_member(line.member_id) if line.name != line.member_id else ""),
        )
    return table


def story_line(episode: Episode) -> SafeText:
    """Return an episode as a line: ``09:14:07 checkout  settling  Rolling restart of …``."""
    line = SafeText().append(f"{clock(episode.updated_at or episode.opened_at)} ", "dim")
    line.append(episode.group_id, "bold").append("  ").append(_state(episode.status))
    return line.append(f"  {episode.story}")


def show_episode(episode: Episode) -> None:
    """Print an episode: story, evidence, members, rounds, downtime."""
    screen = console(soft_wrap=True)
    for line in _episode_lines(episode):
        screen.print(line)


def _episode_lines(episode: Episode) -> Iterator[SafeText]:
    head = SafeText().append(episode.group_id, "bold")
    yield head.append(f", episode {episode.episode}: {_kind(episode)}, ").append(_state(episode.status))
    yield SafeText(f"  {episode.story}")
    names = _names(episode.members)
    yield SafeText("evidence", "bold")
    for reason, source in dict.fromkeys(_reason(item, names) for item in episode.evidence):
        yield SafeText("  ").append(reason).append(f" ({source})", "dim")
    if not episode.evidence:
        yield SafeText("  none", "dim")
    counts = f"  {episode.members.before} before, {episode.members.after} after"
    yield SafeText().append("members", "bold").append(counts)
    yield from _member_lines(episode.members, names)
    yield SafeText().append("rounds", "bold").append(f"  {_rounds(episode)}")
    if episode.downtime is not None:
        yield SafeText().append("downtime", "bold").append(f"  {_downtime(episode.downtime)}")


def _names(members: EpisodeMembers) -> dict[str, str]:
    """Return names by member id. Replaced members are named apart: their successors may have the same names."""
    former = {pair.left for pair in members.replaced} - {pair.joined for pair in members.replaced}
    return {
        **called({one: names for one, names in members.names.items() if one in former}),
        **called({one: names for one, names in members.names.items() if one not in former}),
    }


def _reason(item: Evidence, names: Mapping[str, str]) -> tuple[str, str]:
    """Return the reason, with the member it is about unless it names that itself; and its source."""
    reason = short_member(worded(item.reason, names))
    subject = short_member(who(item.member_ids, names))
    is_named = any(short_member(names[one]) in reason for one in item.member_ids if one in names)
    return (f"{subject}: {reason}" if subject and not is_named else reason), item.source


def _member_lines(members: EpisodeMembers, names: Mapping[str, str]) -> Iterator[SafeText]:
    for pair in members.replaced[:_MAX_LISTED]:
        left, joined = (names.get(one, short_member(one)) for one in (pair.left, pair.joined))
        text = f"{joined} rejoined" if left == joined else f"{left} → {joined}"
        yield SafeText(f"  {'replaced':<9}", "cyan").append(text).append(f"  by {pair.by}", "dim")
    yield from _more(len(members.replaced))
    for word, ids, colour in (
        ("joined", members.joined, "green"),
        ("left", members.left, "yellow"),
        ("crashed", members.lost, "red"),
        ("gone", members.gone, "yellow"),
    ):
        for member_id in ids[:_MAX_LISTED]:
            yield SafeText(f"  {word:<9}", colour).append(names.get(member_id, short_member(member_id)))
        yield from _more(len(ids))
    if members.omitted:
        yield SafeText(f"  and {members.omitted} more that the episode does not list", "dim")


def _more(number: int) -> Iterator[SafeText]:
    if number > _MAX_LISTED:
        yield SafeText(f"  {'':<9}and {number - _MAX_LISTED} more, see --json", "dim")


def _rounds(episode: Episode) -> str:
    text = f"{episode.round_count} in {count(episode.rebalances, 'rebalance')}"
    text += f", {_time(episode.opened_at)} to {_time(episode.updated_at)}"
    text += f"; {count(episode.moved, 'partition')} moved"
    return text + (f", {episode.moved_again} of them more than once" if episode.moved_again else "")


def _downtime(downtime: Downtime) -> str:
    """Return the longest stop, the sum of all, and the sources of the bounds."""
    counts = f"{count(downtime.partitions, 'partition')}, {_range(downtime.stops, 'stops')}"
    text = f"longest {_range(downtime.longest_ms, 'ms')}; in all {_range(downtime.total_ms, 'ms')} ({counts})"
    if downtime.unbounded:
        text += f"; no upper limit known for {count(downtime.unbounded, 'partition')}"
    return f"{text}; by {', '.join(downtime.evidence)}" if downtime.evidence else text


def _range(bounds: Bounds, unit: str) -> str:
    lower, upper = bounds
    if upper is None:
        return f"≥ {lower} {unit}"
    return f"{lower} {unit}" if lower == upper else f"{lower} to {upper} {unit}"


def _kind(episode: Episode) -> str:
    return episode.kind if episode.sure or episode.kind == "unknown" else f"{episode.kind} (not sure)"


def _time(timestamp: int) -> str:
    """``2026-01-31 09:14:00 UTC``."""
    text = rfc3339(timestamp)
    return f"{text[:10]} {text[11:19]} UTC"
