import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.monitor import bucket_state
from tests.support.command import run
from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, newest_records_by_key, problems

pytestmark = [pytest.mark.broker, pytest.mark.spark]


LOG = log_by_partition(membership_log(200, 11, seed=3), 4)


@pytest.fixture(scope="module")
def done(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return a job with relative paths that has processed some events and has further events to read."""
    job = Job(broker, tmp_path_factory.mktemp("job"))
    job.feed([rows[:30] for rows in LOG])
    ended = subprocess.run(
        job.command("--available-now", "--buckets", "4", "--checkpoint", "checkpoint"),
        cwd=job.folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    job.feed([rows[30:] for rows in LOG])
    return job


def of(job: Job, folder: Path) -> Path:
    """Copy the job's checkpoint and let the job use the copy from now on."""
    job.checkpoint = Path(shutil.copytree(job.folder / "checkpoint", folder / "checkpoint"))
    return job.checkpoint


def assert_damage_reported(status: int, errors: str, checkpoint: Path) -> None:
    (line,) = problems(errors)
    message = f"error: --checkpoint {checkpoint}: a file of its state is damaged or missing ("
    assert (status, line.startswith(message), "Restore the folder" in line) == (3, True, True), errors


def shown(checkpoint: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run("stream", "inspect-state", "--checkpoint", str(checkpoint), *options, timeout=120)


def test_command_leaves_no_files_in_its_working_directory(done: Job) -> None:
    assert [path.name for path in done.folder.iterdir()] == ["checkpoint"]


def test_groups_are_shown_by_their_latest_assignments(done: Job) -> None:
    result = shown(done.folder / "checkpoint", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    groups = {group["groupId"]: group for group in map(json.loads, result.stdout.splitlines())}
    latest = newest_records_by_key(done.rows(done.settings.topics.assignments))
    latest_assignments = {
        key.decode(): json.loads(rows[0][0])["members"]
        for key, rows in latest.items()
        if key is not None and rows[0][0] is not None
    }
    state = {
        name: {member["memberId"]: member["owned"] for member in group["state"]["members"]}
        for name, group in groups.items()
        if group["state"]["members"]
    }
    assert state == {name: members for name, members in latest_assignments.items() if members} != {}
    assert all(group["bytes"] > 0 for group in groups.values())


def test_the_documented_example_reads_the_state(done: Job, tmp_path: Path) -> None:
    page = Path(__file__).parents[4] / "docs/how-to/read-the-state.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    checkpoint = done.folder / "checkpoint"
    read = subprocess.run(
        [sys.executable, "-c", example.replace('"./state"', f'"{checkpoint}"')],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(page.parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    groups = {(g["bucket"], g["groupId"]) for g in map(json.loads, shown(checkpoint, "--json").stdout.splitlines())}
    assert {(int(line.split()[0]), line.split()[1]) for line in read.stdout.splitlines()} == groups != set()


#: Code that makes every Python process of a command another release with another state version.
OTHER_RELEASE_PATCH = "import streaming.monitor.bucket_state\nstreaming.monitor.bucket_state.VERSION = 999\n"


def test_other_release_rejects_checkpoint_without_changing_it(done: Job, tmp_path: Path) -> None:
    checkpoint = of(done, tmp_path)
    before = contents(checkpoint)
    (tmp_path / "sitecustomize.py").write_text(OTHER_RELEASE_PATCH)
    refused = done.start("--available-now", "--buckets", "4", path=tmp_path)
    (line,) = problems(refused.stderr)
    start = f"error: --checkpoint {checkpoint}: another release wrote it (layout 1, state {bucket_state.VERSION};"
    assert (refused.returncode, line[: len(start)]) == (2, start)
    assert contents(checkpoint) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_damaged_state_delta_is_reported_in_one_line(done: Job, tmp_path: Path) -> None:
    """In ``tests/faults`` the other files of the checkpoint are lost or damaged."""
    checkpoint = of(done, tmp_path)
    delta_file = checkpoint / "state/0/1/1.delta"
    delta_file.write_bytes(delta_file.read_bytes()[: delta_file.stat().st_size // 2])
    ended = done.start("--available-now", "--buckets", "4")
    assert_damage_reported(ended.returncode, ended.stderr, checkpoint)
    state_without_spark = shown(checkpoint)
    assert_damage_reported(state_without_spark.returncode, state_without_spark.stderr, checkpoint)


def test_a_resized_checkpoint_gives_the_same_diffs(done: Job, tmp_path: Path) -> None:
    checkpoint = of(done, tmp_path)
    numbers = ("--buckets", "10", "--shuffle-partitions", "3")
    resize_result = run("stream", "resize", "--checkpoint", str(checkpoint), *numbers, timeout=120)
    assert (resize_result.returncode, resize_result.stderr) == (0, "")
    assert resize_result.stdout.startswith("buckets: 4 → 10\nshuffle partitions: 2 → 3\ngroups: 11; ")
    done.drain()  # the job keeps the numbers in its checkpoint
    assert len(list((checkpoint / "state/0").glob("[0-9]"))) == 3
    wanted, topics = expected(done, LOG), done.settings.topics
    assert done.rows(topics.diffs) == wanted[topics.diffs]
    assert newest_records_by_key(done.rows(topics.assignments)) == wanted[topics.assignments]
