"""Whichever process is killed at whatever time, no diff is missing, and no diff id has two contents.

``make test-long`` runs the full size (``STREAM_KILLS=20 STREAM_EVENTS=100000``) and shows figures.
"""

import logging
import os
import random
import signal
import statistics
import threading
import time
from pathlib import Path

import pytest

from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka, eventually
from tests.support.recorded import membership_log
from tests.support.stream_job import (
    Job,
    behind,
    expected,
    newest_records_by_key,
    processes_of,
    remove_repeats,
    write_with_pauses,
)

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

KILL_COUNT = int(os.environ.get("STREAM_KILLS", "1"))
EVENT_COUNT = int(os.environ.get("STREAM_EVENTS", "1000"))
#: The first kill always runs: the JVM dies in the middle of a batch, and its driver has to report it.
KILLED_PROCESSES = ("jvm", "driver", "worker")
ACCUMULATOR_ERROR = "Exception occurred during processing of request from"


@pytest.mark.timeout(3600)
def test_kills_under_load_lose_and_change_no_diff(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    log = log_by_partition(membership_log(EVENT_COUNT, max(11, EVENT_COUNT // 200), seed=5), 4)
    rng = random.Random(20)
    diffs = job.settings.topics.diffs
    started: list[float] = []
    stopped = threading.Event()
    load = threading.Thread(target=write_with_pauses, args=(job, log, stopped))
    load.start()
    try:
        for number in range(KILL_COUNT):
            killed_process = (
                KILLED_PROCESSES[number] if number < len(KILLED_PROCESSES) else rng.choice(KILLED_PROCESSES)
            )
            with job.running("--max-offsets-per-trigger", str(max(20, EVENT_COUNT // 100))) as child:
                begin, before = time.monotonic(), job.count(diffs)
                eventually(lambda: not load.is_alive() or behind(job) > 50)
                if behind(job) > 50:
                    eventually(lambda before=before: job.count(diffs) > before, timeout=180, every=0.1)
                    started.append(time.monotonic() - begin)
                time.sleep(rng.uniform(0, 3))  # the moment is random
                pids = processes_of(child.pid)[killed_process]
                for pid in pids[:1]:
                    os.kill(pid, signal.SIGKILL)
                if killed_process == "driver":
                    child.wait()
                elif killed_process == "jvm":
                    _, errors = child.communicate(timeout=180)
                    assert child.returncode == 3
                    # PySpark's accumulator server prints the end of its connection itself, in a daemon thread: the end
                    # of the process may cut that off after its first line. No other traceback is allowed.
                    assert errors.count("Traceback") <= errors.count(ACCUMULATOR_ERROR) <= 1, errors
                    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
                    assert line.startswith("error: Spark's JVM is gone, killed or out of memory; its log is "), line
                else:
                    time.sleep(rng.uniform(0, 2))  # the task is retried
                    assert child.poll() is None
                logger.info("%d: %s killed, %d diffs", number + 1, killed_process, job.count(diffs))
    finally:
        stopped.set()
        load.join()
    job.drain()
    wanted, topics = expected(job, log), job.settings.topics
    rows = job.rows(diffs)
    contents = remove_repeats(rows)  # fails if an id has two contents
    logger.info(
        "%d kills: %d diffs, %d written twice, start to first batch %s s",
        KILL_COUNT,
        sum(map(len, contents.values())),
        sum(map(len, rows.values())) - sum(map(len, contents.values())),
        f"median {statistics.median(started):.1f}, worst {max(started):.1f}" if started else "-",
    )
    assert contents == wanted[diffs]
    assert newest_records_by_key(job.rows(topics.assignments)) == wanted[topics.assignments]
    assert newest_records_by_key(job.rows(topics.episodes)) == wanted[topics.episodes]
    assert newest_records_by_key(job.rows(topics.incidents)) == wanted[topics.incidents]
