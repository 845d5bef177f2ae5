"""The job on a standalone Spark cluster writes the same bytes as in local mode, whichever process is killed.

Only ``make test-long`` runs this test, because it starts seven JVMs.
"""

import logging
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.histories import log_by_partition
from tests.support.installed import build, environment, install_wheel
from tests.support.kafka import Kafka, eventually
from tests.support.recorded import membership_log
from tests.support.spark_cluster import Cluster, kill, standalone_cluster
from tests.support.stream_job import Job, behind, expected, newest_records_by_key, remove_repeats, write_with_pauses

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]

EVENT_COUNT = int(os.environ.get("STREAM_EVENTS", "3000"))
GROUPS = max(11, EVENT_COUNT // 200)
KILL_COUNT = 5


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the commands that pip installed."""
    folder = tmp_path_factory.mktemp("installed")
    return install_wheel(build(folder / "dist", "wheel"), folder / "environment")


@pytest.fixture
def cluster(commands: Path, tmp_path: Path) -> Iterator[Cluster]:
    with standalone_cluster(commands / "python", tmp_path / "spark") as cluster:
        yield cluster


def start_cluster_job(broker: Kafka, commands: Path, cluster: Cluster, folder: Path, **variables: str) -> Job:
    job = Job(broker, folder)
    job.program = [str(commands / "rebalance-monitor")]
    job.environment = environment(commands, SPARK_LOCAL_IP="127.0.0.1", **variables)
    job.options = ("--master", cluster.url)
    return job


@pytest.mark.timeout(3600)
def test_cluster_mode_writes_the_same_bytes_as_local_mode(
    broker: Kafka, commands: Path, cluster: Cluster, tmp_path: Path
) -> None:
    log = log_by_partition(membership_log(EVENT_COUNT, GROUPS, seed=31), 4)
    cluster_job = start_cluster_job(broker, commands, cluster, tmp_path / "remote")
    local_job = Job(broker, tmp_path / "local")
    for job in (cluster_job, local_job):
        job.feed(log)
        job.drain("--max-offsets-per-trigger", str(EVENT_COUNT // 7))
    wanted, topics, local_topics = expected(cluster_job, log), cluster_job.settings.topics, local_job.settings.topics
    assert cluster_job.rows(topics.diffs) == local_job.rows(local_topics.diffs) == wanted[topics.diffs]
    latest = newest_records_by_key(cluster_job.rows(topics.assignments))
    assert (
        latest
        == newest_records_by_key(local_job.rows(local_topics.assignments))
        == newest_records_by_key(wanted[topics.assignments])
    )
    # Records contain the topic's name, and the two jobs have different topics.
    assert cluster_job.rows(topics.dead_letters) == wanted[topics.dead_letters]
    assert local_job.rows(local_topics.dead_letters) == expected(local_job, log)[local_topics.dead_letters]
    logger.info("%d diffs", cluster_job.count(topics.diffs))


@pytest.mark.timeout(3600)
def test_executors_with_a_bare_python_run_from_the_archive(
    broker: Kafka, commands: Path, cluster: Cluster, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare_python, archive = tmp_path / "bare/bin/python", tmp_path / "monitor.tar.gz"
    for missing_part, python_path in (
        ("streaming", bare_python),
        ("pandas", bare_python),
        ("rebalance_kernel", commands / "python"),
    ):
        ask = [python_path, "-c", f"import {missing_part}"]
        done = subprocess.run(ask, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 1, missing_part
    job = start_cluster_job(broker, commands, cluster, tmp_path / "job", PYSPARK_PYTHON=str(bare_python))
    written = subprocess.run(
        [*job.program, "stream", "archive", "--output", archive], env=job.environment, cwd=tmp_path, check=False
    )
    assert written.returncode == 0
    log = log_by_partition(membership_log(3000, 50, seed=32), 4)
    job.feed(log)
    job.drain("--archive", str(archive), "--max-offsets-per-trigger", "1000")
    diffs = job.settings.topics.diffs
    assert job.rows(diffs) == expected(job, log)[diffs]


@pytest.mark.timeout(3600)
def test_killed_executors_and_a_moved_driver_lose_no_diff(
    broker: Kafka, commands: Path, cluster: Cluster, tmp_path: Path
) -> None:
    job = start_cluster_job(broker, commands, cluster, tmp_path / "job")
    log = log_by_partition(membership_log(EVENT_COUNT, GROUPS, seed=33), 4)
    diffs = job.settings.topics.diffs
    # The batch limit must not shrink after a slow batch: the batch whose executor is killed is slow.
    bound = ("--max-offsets-per-trigger", str(EVENT_COUNT // 20))
    rng, stopped, written = random.Random(34), threading.Event(), 0

    def await_progress_of_job(driver: subprocess.Popen[str]) -> None:
        """Wait until the Spark job writes output or has processed all records."""
        before = written
        eventually(
            lambda: (
                driver.poll() is not None or job.count(diffs) > before or (not load.is_alive() and behind(job) == 0)
            ),
            timeout=300,
            every=0.2,
        )
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()
        stopped.wait(rng.uniform(0, 2))  # kills at a random moment

    load = threading.Thread(target=write_with_pauses, args=(job, log, stopped))
    load.start()
    try:
        with (tmp_path / "driver.log").open("w") as driver_log, job.running(*bound, log=driver_log) as driver:
            for number in range(KILL_COUNT):
                await_progress_of_job(driver)
                written, killed_executor = job.count(diffs), rng.choice(cluster.executor_pids)
                kill(killed_executor)
                # The worker starts another executor in its place.
                eventually(lambda gone=killed_executor: gone not in cluster.executor_pids, timeout=60)
                eventually(lambda: len(cluster.executor_pids) == len(cluster.workers), timeout=60)
                logger.info("%d: executor killed, %d diffs, %d behind", number + 1, written, behind(job))
            await_progress_of_job(driver)
            written = job.count(diffs)
            cluster.workers.pop().gone()
            logger.info("worker gone, %d diffs, %d behind", written, behind(job))
            await_progress_of_job(driver)
            written = job.count(diffs)
            kill(driver.pid)
            logger.info("driver killed, %d diffs, %d behind", written, behind(job))
    finally:
        stopped.set()
        load.join()
    # The new driver runs on another machine: only the first one's checkpoint is left.
    (tmp_path / "elsewhere").mkdir()
    job.environment = environment(commands, SPARK_LOCAL_IP="127.0.0.1", TMPDIR=str(tmp_path / "elsewhere"))
    job.drain()
    wanted, topics, rows = expected(job, log), job.settings.topics, job.rows(diffs)
    contents = remove_repeats(rows)  # fails if an id has two contents
    repeated_rows = sum(map(len, rows.values())) - sum(map(len, contents.values()))
    logger.info("%d diffs, %d written twice", sum(map(len, contents.values())), repeated_rows)
    assert contents == wanted[diffs]
    assert newest_records_by_key(job.rows(topics.assignments)) == wanted[topics.assignments]
