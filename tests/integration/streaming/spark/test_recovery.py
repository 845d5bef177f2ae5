"""Whichever process is killed at whatever time, no diff is missing, and no diff id has two contents.

``make test-long`` runs the full size (``STREAM_KILLS=20 STREAM_EVENTS=100000``) and shows figures.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import statistics
import threading
import time
from pathlib import Path

import pytest

from tests.support.histories import as_topic
from tests.support.kafka import Kafka, eventually
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, behind, compacted, expected, processes_of, without_repeats, write_in_pieces

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

KILLS = int(os.environ.get("STREAM_KILLS", "1"))
EVENTS = int(os.environ.get("STREAM_EVENTS", "1000"))
#: The first kill always runs: the JVM dies in the middle of a batch, and its driver has to report it.
VICTIMS = ("jvm", "driver", "worker")
ACCUMULATORS = "Exception occurred during processing of request from"


@pytest.mark.timeout(3600)
def test_kills_under_load_lose_and_change_no_diff(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    log = as_topic(membership_log(EVENTS, max(11, EVENTS // 200), seed=5), 4)
    rng = random.Random(20)
    diffs = job.settings.topics.diffs
    started: list[float] = []
    stopped = threading.Event()
    load = threading.Thread(target=write_in_pieces, args=(job, log, stopped))
    load.start()
    try:
        for number in range(KILLS):
            victim = VICTIMS[number] if number < len(VICTIMS) else rng.choice(VICTIMS)
            with job.running("--max-offsets-per-trigger", str(max(20, EVENTS // 100))) as child:
                begin, before = time.monotonic(), job.count(diffs)
                eventually(lambda: not load.is_alive() or behind(job) > 50)
                if behind(job) > 50:
                    eventually(lambda before=before: job.count(diffs) > before, timeout=180, every=0.1)
                    started.append(time.monotonic() - begin)
                time.sleep(rng.uniform(0, 3))  # the moment is random
                pids = processes_of(child.pid)[victim]
                for pid in pids[:1]:
                    os.kill(pid, signal.SIGKILL)
                if victim == "driver":
                    child.wait()
                elif victim == "jvm":
                    _, errors = child.communicate(timeout=180)
                    assert child.returncode == 3
                    # PySpark's accumulator server prints the end of its connection itself, in a daemon thread: the end
                    # of the process may cut that off after its first line. No other traceback is allowed.
                    assert errors.count("Traceback") <= errors.count(ACCUMULATORS) <= 1, errors
                    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
                    assert line.startswith("error: Spark's JVM is gone, killed or out of memory; its log is "), line
                else:
                    time.sleep(rng.uniform(0, 2))  # the task is retried
                    assert child.poll() is None
                logger.info("%d: %s killed, %d diffs", number + 1, victim, job.count(diffs))
    finally:
        stopped.set()
        load.join()
    job.drain()
    wanted, topics = expected(job, log), job.settings.topics
    rows = job.rows(diffs)
    contents = without_repeats(rows)  # fails if an id has two contents
    logger.info(
        "%d kills: %d diffs, %d written twice, start to first batch %s s",
        KILLS,
        sum(map(len, contents.values())),
        sum(map(len, rows.values())) - sum(map(len, contents.values())),
        f"median {statistics.median(started):.1f}, worst {max(started):.1f}" if started else "-",
    )
    assert contents == wanted[diffs]
    assert compacted(job.rows(topics.assignments)) == wanted[topics.assignments]
    assert compacted(job.rows(topics.episodes)) == wanted[topics.episodes]
    assert compacted(job.rows(topics.incidents)) == wanted[topics.incidents]
