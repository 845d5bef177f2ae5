"""A job with its state in RocksDB writes the bytes of one with it in memory, and its checkpoint is as usable."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.cli.doctor import CheckResult, _checkpoint
from streaming.spark.checkpoint_files import OffsetsFile, StateStore
from tests.support.command import run
from tests.support.histories import as_topic
from tests.support.kafka import Kafka, eventually
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, compacted, expected, problems

pytestmark = [pytest.mark.broker, pytest.mark.spark]

LOG = as_topic(membership_log(200, 11, seed=3), 4)
BEFORE, AFTER = [rows[:30] for rows in LOG], [rows[30:] for rows in LOG]


def written(job: Job) -> None:
    """What is in its topics is what the pure functions say, as it is of a job whose state is in memory."""
    wanted, topics = expected(job, LOG), job.settings.topics
    assert job.rows(topics.diffs) == wanted[topics.diffs]
    assert compacted(job.rows(topics.assignments)) == wanted[topics.assignments]


def store_of(checkpoint: Path) -> StateStore | None:
    newest = OffsetsFile.newest(checkpoint)
    return None if newest is None else newest.state_store


def known(checkpoint: Path) -> list[str]:
    shown = run("stream", "inspect-state", "--checkpoint", str(checkpoint), "--json", timeout=120)
    assert (shown.returncode, shown.stderr) == (0, "")
    return shown.stdout.splitlines()


def moved(checkpoint: Path, store: str, *options: str) -> None:
    words = ("stream", "resize", "--checkpoint", str(checkpoint), "--state-store", store, *options)
    done = run(*words, "--json", timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["after"]["stateStore"] == store


def test_rocksdb_gives_the_bytes_of_the_memory_store(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    job.feed(BEFORE)
    job.drain("--buckets", "4", "--state-store", "rocksdb")
    assert store_of(job.checkpoint) == "rocksdb"
    assert _checkpoint(job.checkpoint) == CheckResult("checkpoint", True, f"{job.checkpoint}: writable")
    refused = job.start("--available-now", "--state-store", "memory")
    (line,) = problems(refused.stderr)
    assert (refused.returncode, "keeps its state in --state-store rocksdb; leave" in line) == (2, True)
    job.feed(AFTER)
    job.drain()
    assert store_of(job.checkpoint) == "rocksdb"
    written(job)


@pytest.mark.full
def test_the_state_moves_to_rocksdb_and_back_within_a_log(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    job.feed(BEFORE)
    job.drain("--buckets", "4")
    was = known(job.checkpoint)
    moved(job.checkpoint, "rocksdb")
    assert (store_of(job.checkpoint), known(job.checkpoint)) == ("rocksdb", was)
    middle = [rows[: len(rows) // 2] for rows in AFTER]
    job.feed(middle)
    job.drain()
    was = known(job.checkpoint)
    moved(job.checkpoint, "memory", "--shuffle-partitions", "3")
    assert (store_of(job.checkpoint), known(job.checkpoint)) == ("memory", was)
    job.feed([rows[len(rows) // 2 :] for rows in AFTER])
    job.drain()
    written(job)


@pytest.fixture(scope="module")
def snapshot(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A stopped job whose checkpoint has a snapshot of RocksDB's, with tables, and changes after it."""
    job = Job(broker, tmp_path_factory.mktemp("job"))
    job.feed(LOG)

    def there() -> bool:
        names = {file.suffix for file in (job.checkpoint / "state/0").rglob("*") if file.is_file()}
        return {".zip", ".sst", ".changelog"} <= names

    # Spark has a snapshot after ten batches, and writes it the next time that it tidies.
    options = ("--buckets", "4", "--state-store", "rocksdb", "--max-offsets-per-trigger", "7")
    with job.running(*options) as child:
        eventually(there, timeout=120)
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 0
    return job


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garble(file: Path) -> None:
    file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))


@pytest.mark.full
@pytest.mark.parametrize("harm", [cut, garble])
@pytest.mark.parametrize("name", ["*.changelog", "*.zip", "SSTs/*.sst"])
def test_damaged_files_are_reported_in_one_line(
    snapshot: Job, tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    checkpoint = Path(shutil.copytree(snapshot.checkpoint, tmp_path / "checkpoint"))
    files = [file for file in (checkpoint / "state/0").rglob(name) if file.is_file() and file.stat().st_size]
    for file in files:
        harm(file)
    snapshot.checkpoint, before = checkpoint, snapshot.checkpoint
    try:
        ended = snapshot.start("--available-now")
    finally:
        snapshot.checkpoint = before
    shown = run("stream", "inspect-state", "--checkpoint", str(checkpoint), timeout=120)
    for status, errors in ((ended.returncode, ended.stderr), (shown.returncode, shown.stderr)):
        (line,) = problems(errors)
        said = f"error: --checkpoint {checkpoint}: a file of its state is damaged or missing ("
        assert (status, line.startswith(said), "Restore the folder" in line) == (3, True, True), errors
