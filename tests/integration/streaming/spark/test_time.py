"""Session timeouts are detected by the clock and written to the log; a replay of the log therefore needs no timer."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import time

import pytest

from streaming.kafka.producer import EventProducer
from streaming.records.events import Event, MemberHeartbeat, MemberJoined, PartitionsChanged, TopicMetadata
from tests.support.kafka import Kafka, eventually
from tests.support.stream_job import Job, expected, remove_repeats

logger = logging.getLogger(__name__)
#: Longer than a batch on a busy machine.
SESSION_TIMEOUT_MS = 6000
pytestmark = [pytest.mark.broker, pytest.mark.spark]


@contextmanager
def run_reporting_member(job: Job, member_id: str) -> Iterator[Callable[[], None]]:
    """Run a member that reports its heartbeat three times a second until it stops without a LeaveGroup."""
    killed = threading.Event()

    def run() -> None:
        with EventProducer(job.settings) as producer:
            for number in count():
                fields = {"group_id": "g", "timestamp": int(time() * 1000), "member_id": member_id}
                join = {"topics": ["t"], "session_timeout_ms": SESSION_TIMEOUT_MS}
                data = MemberHeartbeat(**fields) if number else MemberJoined(**fields, **join)
                producer.send(Event(f"/app/{member_id}", str(number), data))
                producer.flush()
                if killed.wait(0.3):
                    return

    member = threading.Thread(target=run)
    member.start()

    def kill() -> None:
        killed.set()
        member.join()

    try:
        yield kill
    finally:
        kill()


def test_a_killed_member_is_fenced_and_a_replay_agrees(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    topics = job.settings.topics
    counts = {"t": TopicMetadata(partitions=2)}
    with EventProducer(job.settings) as producer:
        producer.send(Event("app", "0", PartitionsChanged(group_id="g", timestamp=1, topics=counts)))
    log = (tmp_path / "log").open("w")
    with log, job.running("--log-format", "json", log=log), run_reporting_member(job, "alive"):
        eventually(lambda: job.count(topics.diffs) == 1, timeout=180)
        with run_reporting_member(job, "dead") as kill:
            eventually(lambda: job.count(topics.diffs) == 2, timeout=60)
            kill()
            killed = time()
            # The records are compared by id, because a retried batch is written twice.
            eventually(lambda: len(remove_repeats(job.rows(topics.diffs))[b"g"]) > 2, timeout=120, every=0.5)
            elapsed_seconds = time() - killed
    batch_lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if '"batch"' in line]
    slowest = sorted(batch["seconds"] for batch in batch_lines[1:])[-2:]
    logger.info(
        "killed to diff %.1f s: session timeout %.0f s, two slowest batches %.1f s",
        elapsed_seconds,
        SESSION_TIMEOUT_MS / 1000,
        sum(slowest),
    )
    live = remove_repeats(job.rows(topics.diffs))
    value, _ = live[b"g"][-1]
    assert value is not None
    assert b'"kind":"member.fenced","memberIds":["dead"]' in value
    assert b'"alive":{"owned":{"t":[0]},"revoked":{},"assigned":{"t":[1]}' in value

    # The same topic is replayed without a clock: the pure functions have no timer.
    log = [(key, value, list(headers)) for key, rows in job.rows(topics.membership).items() for value, headers in rows]
    assert expected(job, [log])[topics.diffs] == live


@pytest.mark.full  # tests/unit/streaming/spark/test_checkpoint.py tests the choice itself
def test_a_recreated_topic_stops_the_job_with_the_choice(broker: Kafka, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    from streaming.kafka.topics import ensure_topics

    job = Job(broker, tmp_path)
    job.drain()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([job.settings.topics.membership])[job.settings.topics.membership].result(30)
    eventually(lambda: job.settings.topics.membership not in admin.list_topics(timeout=10).topics)
    ensure_topics(job.settings)
    refused = job.start("--available-now")
    assert (refused.returncode, "--on-data-loss restart" in refused.stderr) == (3, True)
    job.drain("--on-data-loss", "restart")
