"""The command ``explain``: explains the rebalances in logs of brokers and clients, without a cluster."""

import gzip
import html
import sys
import tempfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from assignors.errors import BadInput
from streaming.cli.options import AsJson, GroupFlag, now_ms, offline, option, time_option
from streaming.cli.output import Progress, file_errors, json_lines
from streaming.episodes.story import count, duration, listed
from streaming.explain.episodes import LogEpisode, episode_document, round_document
from streaming.explain.events import LogEvent
from streaming.explain.reader import KNOWN_LAYOUTS, LineCounts, LogReader
from streaming.explain.rounds import LogRound
from streaming.explain.story import EventSorter, GroupStory, group_stories
from streaming.process import escape_unprintable, warn
from streaming.process.terminal import SafeText, console
from streaming.recording.report import html_lines, html_page
from streaming.records.codec import rfc3339
from streaming.records.names import shorten_random_id

#: The most rounds and members that are shown per episode.
_MAX_LISTED_PAUSES: Final = 12
#: The most member ids that one line names.
_MAX_NAMED_MEMBERS: Final = 3
_CHUNK_BYTES: Final = 2**20
_GZIP_MAGIC: Final = b"\x1f\x8b"


@offline(
    "kubectl logs kafka-0 | rebalance-monitor explain -",
    "rebalance-monitor explain server.log* app.log.gz --group checkout --html report.html",
)
def explain(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Logs, plain or gzip; - is standard input.")],
    *,
    group: GroupFlag = None,
    since: int | None = time_option("--from", "Only what happened from then on."),
    until: int | None = time_option("--to", "Only what happened until then."),
    html_file: Path | None = option("FILE", "Write the report into one HTML file.", None, "--html"),
    as_json: AsJson = False,
) -> None:
    """Explain the rebalances in logs of brokers, clients and Kafka's tools. No cluster is needed.

    The exit status is 1 when no line was understood, 2 when a file can't be read.
    """
    event_sorter = EventSorter(tempfile.TemporaryFile)
    counts = _read_logs(files, group, event_sorter)
    stories = group_stories(event_sorter.sorted_events(), counts.newest, since, until)
    if as_json:
        write = json_lines()
        for episode in (episode for story in stories for episode in story.episodes):
            for part in episode.rounds:
                write(round_document(part))
            write(episode_document(episode))
    elif html_file is not None:
        report = report_html(stories, counts)
        with file_errors(f"--html {html_file}"):
            html_file.write_text(report, encoding="utf-8")
    else:
        screen = console(soft_wrap=True)
        for line in report_lines(stories, counts):
            screen.print(line)
    if as_json or html_file is not None or not counts.understood_lines:
        show_unknown(counts)
    if not counts.understood_lines:
        raise typer.Exit(1)


def _read_logs(files: list[str], group: str | None, event_sorter: EventSorter) -> LineCounts:
    """Read the log files, add their events to ``event_sorter``, and return the counts of their lines."""
    counts = LineCounts()

    def events(reader: LogReader, chunks: Iterable[bytes]) -> Iterator[LogEvent]:
        for chunk in chunks:
            yield from reader.read(chunk)
            progress.step()
        yield from reader.finish()

    with Progress("MB read") as progress:
        for name in dict.fromkeys(files):
            for event in events(*_open_log(name, counts)):
                if group in (None, event.group_id):
                    event_sorter.add(event)
    return counts


def _open_log(name: str, counts: LineCounts) -> tuple[LogReader, Iterator[bytes]]:
    if name == "-":
        return LogReader("-", now_ms(), counts), _read_chunks(name, sys.stdin.buffer)
    with file_errors(name):
        file = Path(name).open("rb")  # noqa: SIM115 - _read_chunks closes it
        newest_ms = int(Path(name).stat().st_mtime * 1000)
    return LogReader(Path(name).name, newest_ms, counts), _read_chunks(name, file)


def _read_chunks(name: str, file: BinaryIO) -> Iterator[bytes]:
    try:
        with file:
            first = file.peek(2)[:2] if hasattr(file, "peek") else b""
            content = gzip.GzipFile(fileobj=file) if first == _GZIP_MAGIC else file
            utf_16 = (
                getincrementaldecoder("utf-16")(errors="replace") if first in (BOM_UTF16_LE, BOM_UTF16_BE) else None
            )
            while chunk := content.read1(_CHUNK_BYTES) if hasattr(content, "read1") else content.read(_CHUNK_BYTES):
                yield utf_16.decode(chunk).encode() if utf_16 else chunk
    except (OSError, EOFError) as error:
        raise BadInput(f"{name}: {getattr(error, 'strerror', None) or error}") from error


def report_lines(stories: Iterable[GroupStory], counts: LineCounts) -> Iterator[SafeText]:
    """Yield the lines of the report of ``explain``, group by group."""
    for story in stories:
        rounds = sum(len(episode.rounds) for episode in story.episodes)
        head = SafeText().append(story.group_id, "bold")
        yield head.append(f"  {count(len(story.episodes), 'episode')}, {count(rounds, 'round')}")
        for episode in story.episodes:
            yield from _episode_lines(episode)
        if story.listed:
            yield SafeText(f"  members that kafka-consumer-groups lists: {len(story.listed)}")
            for member_id, who in sorted(story.listed.items())[:_MAX_LISTED_PAUSES]:
                name = who.group_instance_id or who.client_id
                yield SafeText(f"    {name} ({who.client_host})  {shorten_random_id(member_id)}")
        if story.unknown:
            yield SafeText(f"  not in the logs: {'; '.join(story.unknown)}", "dim")
        yield SafeText()
    yield SafeText(f"{counts.read:,} lines read, {counts.understood_lines:,} understood", "dim")
    yield from (SafeText(line, "dim") for line in _not_understood_lines(counts))


def _episode_lines(log_episode: LogEpisode) -> Iterator[SafeText]:
    episode, rounds = log_episode.episode, log_episode.rounds
    doubt_text = "" if episode.sure else " (not sure)"
    head = f"  {episode.episode}. {episode.kind}{doubt_text}, {episode.status}: "
    yield SafeText().append(head, "bold").append(episode.story)
    for part in rounds[:_MAX_LISTED_PAUSES]:
        yield _round_line(part)
        for member, (stopped, resumed) in list(part.pauses.items())[:_MAX_LISTED_PAUSES]:
            pause = duration(max(0, resumed - stopped))
            yield SafeText(f"      {shorten_random_id(member)} was without its partitions for {pause}", "dim")
    if len(rounds) > _MAX_LISTED_PAUSES:
        yield SafeText(f"    and {len(rounds) - _MAX_LISTED_PAUSES} more rounds", "dim")
    members = episode.members
    for word, ids in (
        ("replaced", [f"{pair.left} → {pair.joined}" for pair in members.replaced]),
        ("joined", members.joined),
        ("left", members.left),
        ("removed" if episode.kind == "poll-timeout" else "crashed", members.lost),
        ("departed", members.gone),
    ):
        if ids:
            yield SafeText(f"    {word:<9}{listed(map(shorten_random_id, ids), _MAX_LISTED_PAUSES)}")
    for item in episode.evidence:
        if item.source == "episode":
            yield SafeText(f"    not sure, because {item.reason}", "dim")


def _round_line(log_round: LogRound) -> SafeText:
    cause = log_round.cause
    unit = "generation" if log_round.protocol == "classic" else "epoch"
    number = "next round" if log_round.number is None else f"{unit} {log_round.number}"
    began = rfc3339(log_round.began)[:-1].replace("T", " ") if log_round.began >= 0 else "no time"
    length = "no end in the logs" if log_round.ended is None else duration(max(0, log_round.ended - log_round.began))
    more = " and more" if len(cause.member_ids) > _MAX_NAMED_MEMBERS else ""
    who = ", ".join(map(shorten_random_id, cause.member_ids[:_MAX_NAMED_MEMBERS])) + more
    line = SafeText(f"    {began}  {number}  {length}  {cause.kind}  {who}")
    reason = next((item.reason for item in cause.evidence if item.source not in ("comparison", "episode")), "")
    return line.append(f"  {shorten_random_id(reason)}" if reason else "", "dim")


def _not_understood_lines(counts: LineCounts) -> Iterator[str]:
    if counts.lines_without_group:
        count = counts.lines_without_group
        yield f"{count:,} lines are left out: their log does not name the group (librdkafka: debug=cgrp)"
    if counts.not_understood:
        yield f"{counts.not_understood:,} lines speak of rebalances and were not understood, such as:"
        yield from (f"  {example}" for example in counts.examples)


def show_unknown(counts: LineCounts) -> None:
    """Print the lines that were not understood, and the supported log layouts, on standard error."""
    if not counts.understood_lines:
        warn(f"none of {counts.read:,} lines is one that explain understands")
    for line in _not_understood_lines(counts):
        warn(line)
    if not counts.understood_lines:
        warn(f"known: logs of Kafka 2.0 to 4.3, of its clients and the output of its tools, in {KNOWN_LAYOUTS}")


def report_html(stories: Iterable[GroupStory], counts: LineCounts) -> str:
    """Return the report as one HTML file that needs no other files."""
    parts = []
    for line in report_lines(stories, counts):
        text = escape_unprintable(line.plain)
        is_heading = bool(text) and not text.startswith(" ")
        parts.append(f"<h2>{html.escape(text)}</h2>" if is_heading else html_lines([text]))
    return html_page("Rebalances in logs", "".join(parts))
