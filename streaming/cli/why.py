"""The command ``why``: an episode with its evidence, members, rounds and downtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from streaming.cli.diff_lines import clock, kind_of, removal_times, short_member, status_text, status_word, utc
from streaming.cli.group_overview import episode_open_at, newest_episode
from streaming.cli.options import AsJson, GroupId, command, connected, now_ms, time_option
from streaming.cli.output import answer, raw_records, read_records
from streaming.episodes.status import group_status
from streaming.episodes.story import count
from streaming.kafka.compacted_topics import read_explained_episodes
from streaming.process.terminal import SafeText, console
from streaming.records.episodes import Bounds, Downtime, Episode, EpisodeMembers
from streaming.records.events import Evidence
from streaming.records.names import called, who, worded
from streaming.settings.config import Settings

#: Members of one sort that ``why`` lists.
_MAX_LISTED: Final = 20

_AT = "Show the episode that was open at this time: RFC 3339, or milliseconds since the epoch."
_At = Annotated[int | None, time_option("--at", _AT, show_default="the newest episode")]


@command("rebalance-monitor why checkout", "rebalance-monitor why checkout --at 2026-01-31T09:14:00Z")
@connected
def why(settings: Settings, group_id: GroupId, *, at: _At = None, as_json: AsJson = False) -> None:
    """Explain why a group rebalanced: an episode with its evidence, members, rounds and downtime.

    The exit status is 1 if no episode was open at that time, and 2 if the group has no episode.
    """
    episodes = read_records(read_explained_episodes, settings, group_id)
    if at is None:
        record = newest_episode(group_id, episodes)
    else:
        record = episode_open_at(group_id, episodes, at, settings.stream.episode_quiet_ms)
    now = now_ms() if at is None else at
    answer(raw_records([record]), lambda: show_episode(record.episode, now), as_json=as_json)


def story_line(episode: Episode) -> SafeText:
    """Return an episode as a line: ``09:14:07 checkout  settling  Rolling restart of …``."""
    line = SafeText().append(f"{clock(episode.updated_at or episode.opened_at)} ", "dim")
    line.append(episode.group_id, "bold").append("  ").append(status_word(episode.status))
    return line.append(f"  {episode.story}")


def show_episode(episode: Episode, now_ms: int) -> None:
    """Print an episode: story, evidence, members, rounds, downtime."""
    screen = console(soft_wrap=True)
    for line in episode_lines(episode, now_ms):
        screen.print(line)


def episode_lines(episode: Episode, now_ms: int) -> Iterator[SafeText]:
    """Yield the lines that ``why`` prints of an episode."""
    head = SafeText().append(episode.group_id, "bold")
    yield head.append(f", episode {episode.episode}: {kind_of(episode)}, ").append(status_word(episode.status))
    yield SafeText(f"  {episode.story}")
    names = _names(episode.members)
    if episode.rebalancing is not None:
        status = status_text(group_status(None, episode), names, removal_times(episode), now_ms)
        yield SafeText("  ").append(status)
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
        **called({member: names for member, names in members.names.items() if member in former}),
        **called({member: names for member, names in members.names.items() if member not in former}),
    }


def _reason(item: Evidence, names: Mapping[str, str]) -> tuple[str, str]:
    """Return the reason, with the member it is about unless it names that itself; and its source."""
    reason = short_member(worded(item.reason, names))
    subject = short_member(who(item.member_ids, names))
    is_named = any(short_member(names[member]) in reason for member in item.member_ids if member in names)
    return (f"{subject}: {reason}" if subject and not is_named else reason), item.source


def _member_lines(members: EpisodeMembers, names: Mapping[str, str]) -> Iterator[SafeText]:
    for pair in members.replaced[:_MAX_LISTED]:
        left, joined = (names.get(member, short_member(member)) for member in (pair.left, pair.joined))
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
    text += f", {utc(episode.opened_at)} to {utc(episode.updated_at)}"
    text += f"; {count(episode.moved, 'partition')} moved"
    return text + (f", {episode.moved_again} of them more than once" if episode.moved_again else "")


def _downtime(downtime: Downtime) -> str:
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
