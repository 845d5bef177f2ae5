"""What ``explain`` shows people: lines for the terminal, and one HTML file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from streaming.episodes.story import duration
from streaming.explain.unwrap import KNOWN_LAYOUTS
from streaming.process.plain import printable, warn
from streaming.process.terminal import SafeText
from streaming.recording.report import html_lines, html_page
from streaming.records.codec import rfc3339
from streaming.records.names import shortened

if TYPE_CHECKING:
    from streaming.explain.episodes import LogEpisode
    from streaming.explain.reader import Counts
    from streaming.explain.rounds import LogRound
    from streaming.explain.story import GroupStory

#: Evidence and members that are shown of one episode or round.
_SHOWN: Final = 12
#: Member ids that a line names.
_NAMED: Final = 3


def report_lines(stories: Iterable[GroupStory], counts: Counts) -> Iterator[SafeText]:
    """Yield the report, group by group."""
    for story in stories:
        rounds = sum(len(one.rounds) for one in story.episodes)
        head = SafeText().append(story.group_id, "bold")
        yield head.append(f"  {_count(len(story.episodes), 'episode')}, {_count(rounds, 'round')}")
        for one in story.episodes:
            yield from _episode(one)
        if story.listed:
            yield SafeText(f"  members that kafka-consumer-groups lists: {len(story.listed)}")
            for member_id, who in sorted(story.listed.items())[:_SHOWN]:
                yield SafeText(
                    f"    {who.group_instance_id or who.client_id} ({who.client_host})  {shortened(member_id)}"
                )
        if story.unknown:
            yield SafeText(f"  not in the logs: {'; '.join(story.unknown)}", "dim")
        yield SafeText()
    yield SafeText(_read(counts), "dim")
    if counts.strange:
        for line in _strange(counts):
            yield SafeText(line, "dim")


def _episode(one: LogEpisode) -> Iterator[SafeText]:
    episode = one.episode
    sure = "" if episode.sure else " (not sure)"
    yield (
        SafeText()
        .append(f"  {episode.episode}. {episode.kind}{sure}, {episode.status}: ", "bold")
        .append(episode.story)
    )
    for part in one.rounds[:_SHOWN]:
        yield _round(part)
        for member, (stopped, resumed) in list(part.pauses.items())[:_SHOWN]:
            yield SafeText(
                f"      {shortened(member)} was without its partitions for {duration(max(0, resumed - stopped))}",
                "dim",
            )
    if len(one.rounds) > _SHOWN:
        yield SafeText(f"    and {len(one.rounds) - _SHOWN} more rounds", "dim")
    members = episode.members
    for word, ids in (
        ("replaced", [f"{shortened(pair.left)} → {shortened(pair.joined)}" for pair in members.replaced]),
        ("joined", [*map(shortened, members.joined)]),
        ("left", [*map(shortened, members.left)]),
        ("removed" if episode.kind == "poll-timeout" else "crashed", [*map(shortened, members.lost)]),
        ("departed", [*map(shortened, members.gone)]),
    ):
        if ids:
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            yield SafeText(f"    {word:<9}{', '.join(ids[:_SHOWN])}{more}")
    for item in [item for item in episode.evidence if item.source == "episode"]:
        yield SafeText(f"    not sure, because {item.reason}", "dim")


def _round(one: LogRound) -> SafeText:
    cause = one.cause
    number = (
        "next round"
        if one.number is None
        else f"{'generation' if one.protocol == 'classic' else 'epoch'} {one.number}"
    )
    began = rfc3339(one.began)[:-1].replace("T", " ") if one.began >= 0 else "no time"
    took = "no end in the logs" if one.ended is None else duration(max(0, one.ended - one.began))
    who = ", ".join(map(shortened, cause.member_ids[:_NAMED])) + (
        " and more" if len(cause.member_ids) > _NAMED else ""
    )
    line = SafeText(f"    {began}  {number}  {took}  {cause.kind}  {who}")
    reason = next(
        (item.reason for item in cause.evidence if item.source not in ("comparison", "episode")), ""
    )
    return line.append(f"  {shortened(reason)}" if reason else "", "dim")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _read(counts: Counts) -> str:
    return f"{counts.read:,} lines read, {counts.understood:,} understood"


def _strange(counts: Counts) -> Iterator[str]:
    yield f"{counts.strange:,} lines speak of rebalances and were not understood, such as:"
    for example in counts.examples:
        yield f"  {example}"


def show_unknown(counts: Counts) -> None:
    """Write to standard error which lines were not understood, and which layouts are known."""
    if counts.understood and not counts.strange:
        return
    if not counts.understood:
        warn(f"none of {counts.read:,} lines is one that explain understands")
    if counts.strange:
        for line in _strange(counts):
            warn(line)
    if not counts.understood:
        warn(
            f"known: logs of Kafka 2.0 to 4.3, of its clients and the output of its tools, in {KNOWN_LAYOUTS}"
        )


def report_html(stories: Iterable[GroupStory], counts: Counts) -> str:
    """Return the report as one HTML file that loads nothing."""
    parts = []
    for line in report_lines(stories, counts):
        text = printable(line.plain)
        is_head = bool(text) and not text.startswith(" ")
        parts.append(f"<h2>{html.escape(text)}</h2>" if is_head else html_lines([text]))
    return html_page("Rebalances in logs", "".join(parts))
