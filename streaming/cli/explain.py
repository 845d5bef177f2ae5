"""``explain``: the rebalances in logs of brokers and clients, without a cluster."""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from assignors.errors import BadInput
from streaming.cli.options import AsJson, OnlyGroup, command, offline, time_ms

if TYPE_CHECKING:
    from streaming.explain.events import LogEvent
    from streaming.explain.reader import Counts, LogReader
    from streaming.explain.sorting import EventSorter

_CHUNK_BYTES: Final = 2**20
_GZIP: Final = b"\x1f\x8b"


class LogFileUnreadable(BadInput):
    """A log can't be read."""


_Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="Logs, plain or gzip; - is standard input.")
]
_From = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Only what happened from then on.")]
_To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only what happened until then.")]
_Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the report into one HTML file.")
]


@command(
    "kubectl logs kafka-0 | rebalance-monitor explain -",
    "rebalance-monitor explain server.log* app.log.gz --group checkout --html report.html",
)
@offline
def explain(
    files: _Files,
    *,
    group: OnlyGroup = None,
    since: _From = None,
    until: _To = None,
    html: _Html = None,
    as_json: AsJson = False,
) -> None:
    """Explain the rebalances in logs of brokers, clients and Kafka's tools. No cluster is needed.

    The exit status is 1 when no line was understood, 2 when a file can't be read.
    """
    from streaming.cli.explain_view import report_html, report_lines, show_unknown
    from streaming.cli.output import json_lines
    from streaming.explain.episodes import episode_document, round_document
    from streaming.explain.sorting import EventSorter
    from streaming.explain.story import GroupStory, group_stories

    start_ms = None if since is None else time_ms(since, "--from")
    end_ms = None if until is None else time_ms(until, "--to")
    sorter = EventSorter(tempfile.TemporaryFile)
    counts, coordinated = _read_all(files, group, sorter)

    def stories() -> Iterator[GroupStory]:
        return group_stories(sorter.sorted(), coordinated, counts.newest, start_ms, end_ms)

    if as_json:
        write = json_lines()
        for one in stories():
            for episode in one.episodes:
                for part in episode.rounds:
                    write(round_document(part))
                write(episode_document(episode))
    elif html is not None:
        _write(html, report_html(stories(), counts))
    else:
        from streaming.process.terminal import console

        screen = console(soft_wrap=True)
        for line in report_lines(stories(), counts):
            screen.print(line)
    if not counts.understood:
        show_unknown(counts)
        raise typer.Exit(1)
    if as_json or html is not None:
        show_unknown(counts)


def _read_all(files: list[str], group: str | None, sorter: EventSorter) -> tuple[Counts, frozenset[str]]:
    """Read all files; returns the counts, and the groups of which a coordinator's log is there."""
    from streaming.cli.output import Progress
    from streaming.explain.reader import Counts

    total, coordinated = Counts(), set[str]()

    def take(event: LogEvent) -> None:
        if group is None or event.group_id == group:
            if event.coordinator is not None:
                coordinated.add(event.group_id)
            sorter.add(event)

    with Progress("MB read") as progress:
        for name in dict.fromkeys(files):
            reader, chunks = _opened(name)
            for chunk in chunks:
                for event in reader.read(chunk):
                    take(event)
                progress.step()
            for event in reader.finish():
                take(event)
            _add(total, reader)
    return total, frozenset(coordinated)


def _add(total: Counts, reader: LogReader) -> None:
    counts = reader.counts
    total.read += counts.read
    total.understood += counts.understood
    total.undated += counts.undated
    total.strange += counts.strange
    total.examples = sorted([*total.examples, *counts.examples])[:3]
    total.newest = max(total.newest, counts.newest)


def _opened(name: str) -> tuple[LogReader, Iterator[bytes]]:
    from streaming.explain.reader import LogReader

    if name == "-":
        return LogReader("-", time.time_ns() // 1_000_000), _chunks(name, sys.stdin.buffer)
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - _chunks closes it
        newest_ms = int(Path(name).stat().st_mtime * 1000)
    except OSError as error:
        raise LogFileUnreadable(f"{name}: {error.strerror}") from error
    return LogReader(Path(name).name, newest_ms), _chunks(name, file)


def _chunks(name: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file, unpacked, in chunks."""
    try:
        with file:
            first = file.peek(2)[:2] if hasattr(file, "peek") else b""
            content = gzip.GzipFile(fileobj=file) if first == _GZIP else file
            while (
                chunk := content.read1(_CHUNK_BYTES)
                if hasattr(content, "read1")
                else content.read(_CHUNK_BYTES)
            ):
                yield chunk
    except (OSError, EOFError) as error:
        raise LogFileUnreadable(f"{name}: {getattr(error, 'strerror', None) or error}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LogFileUnreadable(f"--html {path}: {error.strerror}") from error
