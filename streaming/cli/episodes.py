"""The commands ``why`` and ``compare``, which explain episodes, and ``cost``, which prints their costs."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import typer
from msgspec import Struct
from rich.table import Column, Table

from assignors.errors import BadInput
from streaming.cli.diff_lines import kind_of, short_member, status_text, status_word, to_utc
from streaming.cli.options import AsJson, GroupId, connected, duration_option, flag, now_ms, time_option
from streaming.cli.output import answer, read_records, standard_output
from streaming.episodes.status import group_status
from streaming.episodes.story import count, display_names_of, duration
from streaming.kafka.compacted_topics import read_episode_records, read_explained_episodes
from streaming.process.terminal import SafeText, fold, nowrap, right, table
from streaming.recording import overview
from streaming.records.codec import raw_records
from streaming.records.cost import FigureChange, TotalCost, figure_changes, total_cost
from streaming.records.episodes import Bounds, Downtime, Episode, EpisodeMembers
from streaming.records.events import Evidence
from streaming.records.names import display_names, names_text, with_display_names
from streaming.settings.config import Settings

#: The most members that ``why`` lists per kind of change.
_MAX_LISTED_PAIRS: Final = 20
_AT_HELP = "Show the episode that was open at this time: RFC 3339, or milliseconds since the epoch."


@connected("rebalance-monitor why checkout", "rebalance-monitor why checkout --at 2026-01-31T09:14:00Z")
def why(
    settings: Settings,
    group_id: GroupId,
    *,
    at: int | None = time_option("--at", _AT_HELP, show_default="the newest episode"),
    as_json: AsJson = False,
) -> None:
    """Explain why a group rebalanced: an episode with its evidence, members, rounds and downtime.

    The exit status is 1 if no episode was open at that time, and 2 if the group has no episode.
    """
    episodes = read_records(read_explained_episodes, settings, group_id)
    record = overview.episode_at(group_id, episodes, at, settings.stream.episode_quiet_ms)
    answer(raw_records([record]), episode_lines(record.episode, now_ms() if at is None else at), as_json=as_json)


def episode_lines(episode: Episode, now_ms: int) -> Iterator[SafeText]:
    """Yield the lines that ``why`` prints about an episode."""
    head = SafeText().append(episode.group_id, "bold")
    yield head.append(f", episode {episode.episode}: {kind_of(episode)}, ").append(status_word(episode.status))
    yield SafeText(f"  {episode.story}")
    names = _member_names(episode.members)
    if episode.rebalancing is not None:
        yield SafeText("  ").append(status_text(group_status(None, episode), names, episode, now_ms))
    yield SafeText("evidence", "bold")
    for reason, source in dict.fromkeys(_reason_and_source(item, names) for item in episode.evidence):
        yield SafeText("  ").append(reason).append(f" ({source})", "dim")
    if not episode.evidence:
        yield SafeText("  none", "dim")
    counts = f"  {episode.members.before} before, {episode.members.after} after"
    yield SafeText().append("members", "bold").append(counts)
    yield from _member_lines(episode.members, names)
    yield SafeText().append("rounds", "bold").append(f"  {_rounds_text(episode)}")
    if episode.downtime is not None:
        yield SafeText().append("downtime", "bold").append(f"  {_downtime_text(episode.downtime)}")


def _member_names(members: EpisodeMembers) -> dict[str, str]:
    """Return display names by member id. A replaced member may have the name of its replacement."""
    later = display_names_of(members)
    return {**display_names({member: names for member, names in members.names.items() if member not in later}), **later}


def _reason_and_source(item: Evidence, names: Mapping[str, str]) -> tuple[str, str]:
    """Return evidence as its reason and source; a reason that names no member begins with the members' names."""
    reason = short_member(with_display_names(item.reason, names))
    subject = short_member(names_text(item.member_ids, names))
    names_members = any(short_member(names[member]) in reason for member in item.member_ids if member in names)
    return (f"{subject}: {reason}" if subject and not names_members else reason), item.source


def _member_lines(members: EpisodeMembers, names: Mapping[str, str]) -> Iterator[SafeText]:
    for pair in members.replaced[:_MAX_LISTED_PAIRS]:
        left, joined = (names.get(member, short_member(member)) for member in (pair.left, pair.joined))
        text = f"{joined} rejoined" if left == joined else f"{left} → {joined}"
        yield SafeText(f"  {'replaced':<9}", "cyan").append(text).append(f"  by {pair.by}", "dim")
    yield from _not_listed_text(len(members.replaced))
    for word, ids, colour in (
        ("joined", members.joined, "green"),
        ("left", members.left, "yellow"),
        ("crashed", members.lost, "red"),
        ("gone", members.gone, "yellow"),
    ):
        for member_id in ids[:_MAX_LISTED_PAIRS]:
            yield SafeText(f"  {word:<9}", colour).append(names.get(member_id, short_member(member_id)))
        yield from _not_listed_text(len(ids))
    if members.omitted:
        yield SafeText(f"  and {members.omitted} more that the episode does not list", "dim")


def _not_listed_text(number: int) -> Iterator[SafeText]:
    if number > _MAX_LISTED_PAIRS:
        yield SafeText(f"  {'':<9}and {number - _MAX_LISTED_PAIRS} more, see --json", "dim")


def _rounds_text(episode: Episode) -> str:
    text = f"{episode.round_count} in {count(episode.rebalances, 'rebalance')}"
    text += f", {to_utc(episode.opened_at)} to {to_utc(episode.updated_at)}"
    text += f"; {count(episode.moved, 'partition')} moved"
    return text + (f", {episode.moved_again} of them more than once" if episode.moved_again else "")


def _downtime_text(downtime: Downtime) -> str:
    stops = "1 stop" if downtime.stops == (1, 1) else _range_text(downtime.stops, "stops")
    counts = f"{count(downtime.partitions, 'partition')}, {stops}"
    text = f"longest {_range_text(downtime.longest_ms, 'ms')}; in all {_range_text(downtime.total_ms, 'ms')} ({counts})"
    if downtime.unbounded:
        text += f"; no upper limit known for {count(downtime.unbounded, 'partition')}"
    return f"{text}; by {', '.join(downtime.evidence)}" if downtime.evidence else text


def _range_text(bounds: Bounds, unit: str) -> str:
    lower, upper = bounds
    if upper is None:
        return f"≥ {lower} {unit}"
    return f"{lower} {unit}" if lower == upper else f"{lower} to {upper} {unit}"


_EpisodeBefore = Annotated[int, typer.Argument(metavar="BEFORE", help="Number of an episode.", show_default=False)]
_EpisodeAfter = Annotated[int, typer.Argument(metavar="AFTER", help="Number of a later episode.", show_default=False)]


@connected("rebalance-monitor compare checkout 12 15")
def compare(
    settings: Settings, group_id: GroupId, before: _EpisodeBefore, after: _EpisodeAfter, *, as_json: AsJson = False
) -> None:
    """Compare two episodes of a group: rebalances, moves, downtime, delayed messages."""
    records = overview.sort_episodes(read_records(read_explained_episodes, settings, group_id))
    episode_by_number = {record.episode.episode: record.episode for record in records}
    if missing := [number for number in (before, after) if number not in episode_by_number]:
        numbers = f"{min(episode_by_number)} to {max(episode_by_number)}" if episode_by_number else "none"
        raise BadInput(f"group {group_id}: no episode {missing[0]}; known names: {numbers}")
    episodes = (episode_by_number[before], episode_by_number[after])
    changes = figure_changes(*episodes)
    heads = [f"{episode.episode}: {kind_of(episode)}, {to_utc(episode.opened_at)}" for episode in episodes]
    answer(changes, [change_table(group_id, heads, changes)], as_json=as_json)


#: Whether the second figure is better (True, False, unknown: None) → the word for it and its colour.
_CHANGE_LABELS: Final = {True: ("better", "green"), False: ("worse", "red"), None: ("", "")}


def change_table(group_id: str, heads: Sequence[str], changes: Sequence[FigureChange]) -> Table:
    """Return a table with one row per figure; ``heads``: column headings of the two episodes."""
    rows = []
    for change in changes:
        values = (bounds_text(bounds, is_time=change.figure.endswith("Ms")) for bounds in (change.before, change.after))
        rows.append((change.heading, *values, SafeText(*_CHANGE_LABELS[change.better])))
    return table((nowrap(group_id), *map(right, heads), ""), rows)


#: Field of a cost with bounds → its column heading.
_COST_HEADINGS: Final[Mapping[str, str]] = {
    "delayed_messages": "delayed messages",
    "worst_delay_ms": "worst delay",
    "peak_lag": "peak lag",
    "catch_up_ms": "catch-up",
}


class CostLine(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A line of ``cost --json``: a group, or one of its episodes."""

    group_id: str
    since: int
    cost: TotalCost
    episode: int | None = None
    kind: str | None = None


@connected("rebalance-monitor cost --since 7d", "rebalance-monitor cost checkout --since 30d --csv > checkout.csv")
def cost(
    settings: Settings,
    group_id: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="Only this group, one line per episode.", show_default=False)
    ] = None,
    *,
    since: int = duration_option("--since", "Episodes with a round in this time: 12h, 7d or 4w.", "7d"),
    as_json: AsJson = False,
    as_csv: bool = flag("--csv", "Print CSV."),
) -> None:
    """Show what rebalances cost: downtime, delayed messages, lag. One line per group, or per episode of one group.

    Bounds are "at least to at most"; "unknown" is not zero.
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv: give one of them")
    records = read_records(read_episode_records, settings, group_id)
    lines = cost_lines(overview.since(records, now_ms() - since), by_episode=group_id is not None)
    if as_csv:
        standard_output().write(_csv_text(lines).encode())
    else:
        answer(lines, [cost_table(lines, by_episode=group_id is not None)], as_json=as_json)


def cost_lines(episodes: list[Episode], *, by_episode: bool) -> list[CostLine]:
    """Return one line per episode, in order, or one line per group, the longest downtime first."""
    groups: dict[object, list[Episode]] = {}
    for episode in sorted(episodes, key=lambda episode: (episode.group_id, episode.opened_at)):
        groups.setdefault((episode.group_id, episode.episode if by_episode else None), []).append(episode)
    lines = []
    for own in groups.values():
        named = (own[0].episode, kind_of(own[0])) if by_episode else ()
        lines.append(CostLine(own[0].group_id, own[0].opened_at, total_cost(own), *named))
    if not by_episode:
        lines.sort(key=lambda line: -(line.cost.downtime.lower_ms if line.cost.downtime else 0))
    return lines


def _cost_bounds(cost: TotalCost) -> dict[str, Bounds | None]:
    """Return the lower and upper bounds of each cost figure, the downtime first."""
    downtime = cost.downtime.total_ms if cost.downtime else None
    return {"downtime_ms": downtime} | {name: getattr(cost, name) for name in _COST_HEADINGS}


def cost_table(lines: list[CostLine], *, by_episode: bool) -> Table:
    """Return a terminal table of costs, with one row per line."""
    rows = []
    for line in lines:
        name = line.group_id if line.episode is None else f"{line.episode} {line.kind}, {to_utc(line.since)}"
        texts = (bounds_text(bounds, is_time=name.endswith("_ms")) for name, bounds in _cost_bounds(line.cost).items())
        rows.append((name, line.cost.episodes, line.cost.rebalances, line.cost.moved, *texts))
    counts = map(right, ("episodes", "rebalances", "moved"))
    first = fold("episode" if by_episode else "group")
    return table([first, *counts, *map(Column, ("downtime", *_COST_HEADINGS.values()))], rows)


def bounds_text(bounds: Bounds | None, *, is_time: bool) -> str:
    """Return bounds as ``3 s to 5 s``, ``≥ 3 s`` or ``unknown``."""
    if bounds is None:
        return "unknown"
    lower, upper = ("" if value is None else duration(value) if is_time else f"{value:,}" for value in bounds)
    if not upper:
        return f"≥ {lower}" if bounds[0] else "unknown"
    return lower if lower == upper else f"{lower} to {upper}"


def _csv_text(lines: list[CostLine]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("groupId", "episode", "kind", "since", "episodes", "rebalances", "moved", "measured")
    figures = ("downtime", *(name.removesuffix("_ms") for name in _COST_HEADINGS))
    writer.writerow((*names, *(f"{figure} {end}" for figure in figures for end in ("min", "max"))))
    for line in lines:
        values: dict[str, Any] = msgspec.to_builtins(line) | msgspec.to_builtins(line.cost)
        ends = [end for bounds in _cost_bounds(line.cost).values() for end in bounds or ("", "")]
        writer.writerow([values.get(name, "") for name in names] + ends)
    return text.getvalue()
