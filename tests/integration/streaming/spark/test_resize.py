"""Resizing a checkpoint in the middle of a log keeps every diff exactly once, even if the resize is killed.

Only ``make test-long`` runs these tests; ``test_checkpoint.py`` has a smaller test.
"""

import json
import logging
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from streaming.spark.checkpoint import LocalCheckpoint, settle
from streaming.spark.resize import layout
from tests.support.command import command, run
from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, newest_records_by_key

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]

EVENT_COUNT = int(os.environ.get("STREAM_EVENTS", "3000"))
KILL_COUNT = 10


def resize(job: Job, buckets: int, partitions: int) -> list[str]:
    numbers = ("--buckets", str(buckets), "--shuffle-partitions", str(partitions))
    return ["stream", "resize", "--checkpoint", str(job.checkpoint), *numbers]


def numbers(job: Job) -> tuple[int, int | None]:
    settle(job.checkpoint)
    metadata = LocalCheckpoint(str(job.checkpoint)).read()
    assert metadata is not None
    return metadata.buckets, layout(job.checkpoint, metadata).shuffle_partitions


@pytest.mark.timeout(3600)
def test_resizing_in_the_middle_of_a_log_changes_no_byte(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    log = log_by_partition(membership_log(EVENT_COUNT, max(11, EVENT_COUNT // 200), seed=17), 4)
    third = max(map(len, log)) // 3
    steps = ((16, 2, None), (256, 16, 700), (8, 3, None))
    for number, (buckets, partitions, bound) in enumerate(steps):
        job.feed([rows[third * number : None if number == 2 else third * (number + 1)] for rows in log])
        if number:
            done = run(*resize(job, buckets, partitions), "--json", timeout=300)
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            assert report["after"] == {"buckets": buckets, "shufflePartitions": partitions}
            logger.info("%s", done.stdout)
        job.drain(*(() if bound is None else ("--max-offsets-per-trigger", str(bound * EVENT_COUNT // 3000))))
        assert numbers(job) == (buckets, partitions)
    wanted, topics = expected(job, log), job.settings.topics
    assert job.rows(topics.diffs) == wanted[topics.diffs]
    assert newest_records_by_key(job.rows(topics.assignments)) == wanted[topics.assignments]
    assert job.rows(topics.dead_letters) == wanted[topics.dead_letters]


@pytest.mark.timeout(3600)
def test_a_killed_resize_leaves_the_old_or_the_new_checkpoint(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    log = log_by_partition(membership_log(3000, 33, seed=18), 4)
    job.feed([rows[: len(rows) // 2] for rows in log])
    job.drain()
    rng = random.Random(21)
    begin = time.monotonic()
    assert run(*resize(job, 32, 3), timeout=300).returncode == 0
    duration = time.monotonic() - begin
    old_numbers = numbers(job)
    assert old_numbers == (32, 3)
    finished_resizes = 0
    for number in range(KILL_COUNT):
        wanted = (rng.choice((4, 16, 64)), rng.choice((1, 2, 3)))
        child = subprocess.Popen(command(*resize(job, *wanted)), start_new_session=True)
        try:
            # The duration varies on a busy machine: some resizes are killed near the end, and some complete.
            assert child.wait(duration * rng.uniform(0.2, 1.4)) == 0
            finished_resizes += 1
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        after = numbers(job)
        logger.info("%d: %s to %s, now %s", number + 1, old_numbers, wanted, after)
        assert after in (old_numbers, wanted)
        old_numbers = after
    logger.info("%d of %d came to their end", finished_resizes, KILL_COUNT)
    job.feed([rows[len(rows) // 2 :] for rows in log])
    job.drain()
    diffs = job.settings.topics.diffs
    assert job.rows(diffs) == expected(job, log)[diffs]
