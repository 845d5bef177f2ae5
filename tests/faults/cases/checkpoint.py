"""Lost and damaged checkpoint files of `stream`: single files of each kind, and all files together."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.faults.cases.disks import flip_bits
from tests.faults.site import SPARK_SECONDS, Report, TestedMonitor

#: Kinds of checkpoint files; a case damages the newest file of a kind.
OFFSETS, COMMITS, SOURCE, METADATA = "offsets/[0-9]*", "commits/[0-9]*", "sources/0/0", "metadata"
METADATA_FILE, STATE = "rebalance-monitor.json", "state/0/0/*.delta"
SCHEMA, OPERATOR_METADATA = "state/0/0/_metadata/schema", "state/0/_metadata/metadata"


class LoggedReport(NamedTuple):
    """The expected report of a checkpoint fault: words of the logged line, and the exit status."""

    words: str
    status: int = 3


#: Reports of lost files. Without its metadata, a checkpoint may belong to any job.
REPORTS_OF_LOST_FILES: Mapping[str, LoggedReport] = {
    OFFSETS: LoggedReport("Restore the folder"),
    STATE: LoggedReport("a file of its state is damaged or missing"),
    METADATA_FILE: LoggedReport("a Spark checkpoint without rebalance-monitor.json", status=2),
}
#: Files that Spark creates again: the last batch's commit (the batch is repeated), the start offsets of a source that
#: has been read since, the query's id, and the state's schema.
RECREATED_BY_SPARK = (COMMITS, SOURCE, METADATA, SCHEMA, OPERATOR_METADATA)
#: Reports of damaged files: Spark's own message, and the remedy.
REPORTS_OF_DAMAGED_FILES: Mapping[str, LoggedReport] = {
    **dict.fromkeys(
        (OFFSETS, COMMITS, SOURCE, METADATA, SCHEMA, OPERATOR_METADATA), LoggedReport("Restore the folder")
    ),
    METADATA_FILE: LoggedReport(f"{METADATA_FILE} is damaged"),
    STATE: LoggedReport("a file of its state is damaged or missing"),
}


def _newest(folder: Path, kind: str) -> Path:
    return max(folder.glob(kind), key=lambda file: (len(file.stem), file.stem))


def _display_name(kind: str) -> str:
    """Return a file pattern as shown in the table of faults: ``N`` in place of ``*``."""
    return kind.replace("[0-9]*", "N").replace("*", "N")


@contextmanager
def files(
    tested_monitor: TestedMonitor, fault: str, damage: Callable[[Path], object], reports: Mapping[str, LoggedReport]
) -> Iterator[list[Report]]:
    """Damage the checkpoint's files one by one while the job is stopped, and restore them from a copy each time."""
    tested_monitor.end("stream")
    kept = tested_monitor.folder / "checkpoint.copy"
    shutil.copytree(tested_monitor.checkpoint, kept)
    timely_reports: list[Report] = []
    try:
        for kind, report in reports.items():
            builder = tested_monitor.ends(
                "stream", str(tested_monitor.checkpoint), report.words, within=SPARK_SECONDS, status=report.status
            )
            damage(_newest(tested_monitor.checkpoint, kind))
            tested_monitor.begin("stream")
            timely_reports.append(tested_monitor.await_report(builder, f"{fault}: `{_display_name(kind)}`"))
            _restore(tested_monitor, kept)
    finally:
        if tested_monitor.stream.process is not None and tested_monitor.stream.process.poll() is None:
            tested_monitor.stream.kill()
        _restore(tested_monitor, kept)
        shutil.rmtree(kept)
    tested_monitor.begin("stream")
    yield timely_reports


def _restore(tested_monitor: TestedMonitor, kept: Path) -> None:
    shutil.rmtree(tested_monitor.checkpoint)
    shutil.copytree(kept, tested_monitor.checkpoint)


@contextmanager
def recreatable_files_lost(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Stop the job, delete those files of the checkpoint that Spark can create again, and start the job."""
    tested_monitor.end("stream")
    for kind in RECREATED_BY_SPARK:
        _newest(tested_monitor.checkpoint, kind).unlink()
    tested_monitor.begin("stream")
    names = ", ".join(f"`{_display_name(kind)}`" for kind in RECREATED_BY_SPARK)
    yield [tested_monitor.nothing("stream", fault=f"lost files: {names}")]


@contextmanager
def delete_folder_while_running(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Delete the whole checkpoint folder while the job runs."""
    report = tested_monitor.ends(
        "stream", str(tested_monitor.checkpoint), "was removed or replaced while in use", within=SPARK_SECONDS
    )
    shutil.rmtree(tested_monitor.checkpoint, ignore_errors=True)  # the job may write meanwhile
    yield [report]
    shutil.rmtree(
        tested_monitor.checkpoint, ignore_errors=True
    )  # as the message advises: remove it, and read everything again
    tested_monitor.begin("stream")


@contextmanager
def delete_folder_while_stopped(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Delete the whole checkpoint folder while the Spark job is stopped."""
    tested_monitor.end("stream")
    shutil.rmtree(tested_monitor.checkpoint)
    tested_monitor.begin("stream")
    yield [tested_monitor.nothing("stream", "it reads all again, and writes the same ids")]


@contextmanager
def damage_all_files(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Damage every file of the checkpoint while the job is stopped; then remove the folder, as the message advises."""
    tested_monitor.end("stream")
    report = tested_monitor.ends(
        "stream", str(tested_monitor.checkpoint), "is damaged", "move it away", within=SPARK_SECONDS
    )
    for file in tested_monitor.checkpoint.rglob("*"):
        if file.is_file():
            flip_bits(file)
    tested_monitor.begin("stream")
    yield [report]
    shutil.rmtree(tested_monitor.checkpoint)
    tested_monitor.begin("stream")
