"""Damaged files of a checkpoint, by what Spark itself says of them: one line that names the file and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.histories import as_topic, membership_log
from tests.support.kafka import Kafka
from tests.support.stream_job import Job

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garble(file: Path) -> None:
    file.write_bytes(bytes(byte ^ 0x5A for byte in file.read_bytes()))


@pytest.fixture(scope="module")
def done(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job that has processed some events, and has more to read."""
    job = Job(broker, tmp_path_factory.mktemp("damage"))
    log = as_topic(membership_log(60, 9, seed=3), 4)
    job.feed([rows[:8] for rows in log])
    job.drain("--buckets", "4")
    job.feed([rows[8:] for rows in log])
    return job


def of(job: Job, folder: Path) -> Path:
    """A copy of the job's checkpoint, which the job uses from now on."""
    job.checkpoint = Path(shutil.copytree(job.folder / "checkpoint", folder / "checkpoint"))
    return job.checkpoint


def told(status: int, errors: str, checkpoint: Path, file: Path) -> None:
    assert (status, errors.count("\n")) == (3, 1), errors
    assert errors.startswith(f"error: --checkpoint {checkpoint}: {file} is damaged. Restore the folder"), (
        errors
    )


@pytest.mark.parametrize("damage", [cut, garble])
def test_a_delta_of_the_state(done: Job, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    checkpoint = of(done, tmp_path)
    delta = checkpoint / "state/0/1/1.delta"
    damage(delta)
    ended = done.start("--available-now", "--buckets", "4")
    told(ended.returncode, ended.stderr, checkpoint, delta)
    command = [sys.executable, "-m", "streaming", "stream", "inspect-state", "--checkpoint", str(checkpoint)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    told(shown.returncode, shown.stderr, checkpoint, delta)


def test_nothing_is_left_where_the_command_was_started(done: Job, tmp_path: Path) -> None:
    """The checkpoint may be named from there."""
    folder = tmp_path / "here"
    folder.mkdir()
    of(done, folder)
    command = [*done.command("--available-now", "--buckets", "4", "--checkpoint", "checkpoint")]
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert [one.name for one in folder.iterdir()] == ["checkpoint"]
