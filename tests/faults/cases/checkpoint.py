"""The files of the checkpoint of `stream`: one of each kind, and all of them, lost and damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.faults.cases.disks import garble
from tests.faults.site import SPARK_SECONDS, Report, Site

#: Kinds of files, of which the newest is meant.
OFFSETS, COMMITS, SOURCE, METADATA = "offsets/[0-9]*", "commits/[0-9]*", "sources/0/0", "metadata"
CARD, STATE = "rebalance-monitor.json", "state/0/0/*.delta"
SCHEMA, OPERATOR = "state/0/0/_metadata/schema", "state/0/_metadata/metadata"


class LoggedReport(NamedTuple):
    """Words of the one line, and the exit status."""

    words: str
    status: int = 3


#: What is reported of a file that is lost. Without its metadata, a checkpoint may be anybody's.
LOST: Mapping[str, LoggedReport] = {
    OFFSETS: LoggedReport("Restore the folder"),
    STATE: LoggedReport("a file of its state is damaged or missing"),
    CARD: LoggedReport("a Spark checkpoint without rebalance-monitor.json", status=2),
}
#: What Spark makes again: the last batch's commit, as the batch is run again; the start of a source that was read
#: since; an id of the query; the descriptions of the state.
NOT_NEEDED = (COMMITS, SOURCE, METADATA, SCHEMA, OPERATOR)
#: What is reported of a file that is damaged: Spark's own words, and what to do.
DAMAGED: Mapping[str, LoggedReport] = {
    **dict.fromkeys((OFFSETS, COMMITS, SOURCE, METADATA, SCHEMA, OPERATOR), LoggedReport("Restore the folder")),
    CARD: LoggedReport(f"{CARD} is damaged"),
    STATE: LoggedReport("a file of its state is damaged or missing"),
}


def _newest(folder: Path, kind: str) -> Path:
    return max(folder.glob(kind), key=lambda file: (len(file.stem), file.stem))


def _shown(kind: str) -> str:
    """A kind of files in the table."""
    return kind.replace("[0-9]*", "N").replace("*", "N")


@contextmanager
def files(
    site: Site, fault: str, spoil: Callable[[Path], object], told: Mapping[str, LoggedReport]
) -> Iterator[list[Report]]:
    """One after the other, while the job does not run; each time the folder is restored from a copy."""
    site.end("stream")
    kept = site.folder / "checkpoint.copy"
    shutil.copytree(site.checkpoint, kept)
    seen: list[Report] = []
    try:
        for kind, said in told.items():
            teller = site.ends("stream", str(site.checkpoint), said.words, within=SPARK_SECONDS, status=said.status)
            spoil(_newest(site.checkpoint, kind))
            site.begin("stream")
            seen.append(site.seen(teller, f"{fault}: `{_shown(kind)}`"))
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
def not_needed(site: Site) -> Iterator[list[Report]]:
    """Files that Spark makes again, all lost at once while the job does not run."""
    site.end("stream")
    for kind in NOT_NEEDED:
        _newest(site.checkpoint, kind).unlink()
    site.begin("stream")
    names = ", ".join(f"`{_shown(kind)}`" for kind in NOT_NEEDED)
    yield [site.nothing("stream", fault=f"lost files: {names}")]


@contextmanager
def lost_at_work(site: Site) -> Iterator[list[Report]]:
    """The whole folder, while the job runs."""
    told = site.ends("stream", str(site.checkpoint), "was removed or replaced while in use", within=SPARK_SECONDS)
    shutil.rmtree(site.checkpoint, ignore_errors=True)  # the job may write meanwhile
    yield [told]
    shutil.rmtree(site.checkpoint, ignore_errors=True)  # as the message says: away, and read all again
    site.begin("stream")


@contextmanager
def lost_at_rest(site: Site) -> Iterator[list[Report]]:
    """The whole folder, while the job does not run."""
    site.end("stream")
    shutil.rmtree(site.checkpoint)
    site.begin("stream")
    yield [site.nothing("stream", "it reads all again, and writes the same ids")]


@contextmanager
def all_damaged(site: Site) -> Iterator[list[Report]]:
    """Every file of it, while the job does not run; it is moved away, as the message says."""
    site.end("stream")
    told = site.ends("stream", str(site.checkpoint), "is damaged", "move it away", within=SPARK_SECONDS)
    for file in site.checkpoint.rglob("*"):
        if file.is_file():
            garble(file)
    site.begin("stream")
    yield [told]
    shutil.rmtree(site.checkpoint)
    site.begin("stream")
