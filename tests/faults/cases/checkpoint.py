"""Lost and damaged checkpoint files of `stream`: single files of each kind, and all files together."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.faults.cases.disks import flip_bits
from tests.faults.site import SPARK_SECONDS, Report, Site

#: Kinds of checkpoint files; a case damages the newest file of a kind.
OFFSETS, COMMITS, SOURCE, METADATA = "offsets/[0-9]*", "commits/[0-9]*", "sources/0/0", "metadata"
CARD, STATE = "rebalance-monitor.json", "state/0/0/*.delta"
SCHEMA, OPERATOR = "state/0/0/_metadata/schema", "state/0/_metadata/metadata"


class LoggedReport(NamedTuple):
    """The expected report of a checkpoint fault: words of the logged line, and the exit status."""

    words: str
    status: int = 3


#: Reports of lost files. Without its metadata, a checkpoint may belong to any job.
LOST: Mapping[str, LoggedReport] = {
    OFFSETS: LoggedReport("Restore the folder"),
    STATE: LoggedReport("a file of its state is damaged or missing"),
    CARD: LoggedReport("a Spark checkpoint without rebalance-monitor.json", status=2),
}
#: Files that Spark creates again: the last batch's commit (the batch is repeated), the start offsets of a source that
#: has been read since, the query's id, and the state's schema.
RECREATED_BY_SPARK = (COMMITS, SOURCE, METADATA, SCHEMA, OPERATOR)
#: Reports of damaged files: Spark's own message, and the remedy.
DAMAGED: Mapping[str, LoggedReport] = {
    **dict.fromkeys((OFFSETS, COMMITS, SOURCE, METADATA, SCHEMA, OPERATOR), LoggedReport("Restore the folder")),
    CARD: LoggedReport(f"{CARD} is damaged"),
    STATE: LoggedReport("a file of its state is damaged or missing"),
}


def _newest(folder: Path, kind: str) -> Path:
    return max(folder.glob(kind), key=lambda file: (len(file.stem), file.stem))


def _display_name(kind: str) -> str:
    """Return how the table of faults names files that match this pattern."""
    return kind.replace("[0-9]*", "N").replace("*", "N")


@contextmanager
def files(
    site: Site, fault: str, damage: Callable[[Path], object], reports: Mapping[str, LoggedReport]
) -> Iterator[list[Report]]:
    """Damage the checkpoint's files one by one while the job is stopped, and restore them from a copy each time."""
    site.end("stream")
    kept = site.folder / "checkpoint.copy"
    shutil.copytree(site.checkpoint, kept)
    seen: list[Report] = []
    try:
        for kind, report in reports.items():
            builder = site.ends(
                "stream", str(site.checkpoint), report.words, within=SPARK_SECONDS, status=report.status
            )
            damage(_newest(site.checkpoint, kind))
            site.begin("stream")
            seen.append(site.seen(builder, f"{fault}: `{_display_name(kind)}`"))
            _restore(site, kept)
    finally:
        if site.stream.process is not None and site.stream.process.poll() is None:
            site.stream.kill()
        _restore(site, kept)
        shutil.rmtree(kept)
    site.begin("stream")
    yield seen


def _restore(site: Site, kept: Path) -> None:
    shutil.rmtree(site.checkpoint)
    shutil.copytree(kept, site.checkpoint)


@contextmanager
def recreatable_files_lost(site: Site) -> Iterator[list[Report]]:
    """Delete all files that Spark creates again, together, while the job is stopped."""
    site.end("stream")
    for kind in RECREATED_BY_SPARK:
        _newest(site.checkpoint, kind).unlink()
    site.begin("stream")
    names = ", ".join(f"`{_display_name(kind)}`" for kind in RECREATED_BY_SPARK)
    yield [site.nothing("stream", fault=f"lost files: {names}")]


@contextmanager
def folder_lost_while_running(site: Site) -> Iterator[list[Report]]:
    """Delete the whole checkpoint folder while the job runs."""
    report = site.ends("stream", str(site.checkpoint), "was removed or replaced while in use", within=SPARK_SECONDS)
    shutil.rmtree(site.checkpoint, ignore_errors=True)  # the job may write meanwhile
    yield [report]
    shutil.rmtree(site.checkpoint, ignore_errors=True)  # as the message advises: remove it, and read everything again
    site.begin("stream")


@contextmanager
def folder_lost_while_stopped(site: Site) -> Iterator[list[Report]]:
    """Delete the whole checkpoint folder while the job is stopped."""
    site.end("stream")
    shutil.rmtree(site.checkpoint)
    site.begin("stream")
    yield [site.nothing("stream", "it reads all again, and writes the same ids")]


@contextmanager
def all_damaged(site: Site) -> Iterator[list[Report]]:
    """Damage every file of the checkpoint while the job is stopped; then remove the folder, as the message advises."""
    site.end("stream")
    report = site.ends("stream", str(site.checkpoint), "is damaged", "move it away", within=SPARK_SECONDS)
    for file in site.checkpoint.rglob("*"):
        if file.is_file():
            flip_bits(file)
    site.begin("stream")
    yield [report]
    shutil.rmtree(site.checkpoint)
    site.begin("stream")
