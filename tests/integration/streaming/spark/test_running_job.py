"""One running job: session timeouts by the clock, an open transaction, a replay without timers, and Ctrl-C."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import time
from typing import NamedTuple

import pytest
from confluent_kafka import Message, Producer

from streaming.kafka.producer import EventProducer
from streaming.kafka.topic_reader import TopicReader
from streaming.records.events import Event, MemberHeartbeat, MemberJoined, PartitionsChanged, TopicMetadata
from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka, eventually
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, remove_repeats

#: Longer than a batch on a busy machine.
SESSION_TIMEOUT_MS = 6000
LOG = log_by_partition(membership_log(200, 11, seed=3), 4)
pytestmark = [pytest.mark.broker, pytest.mark.spark]


class RunningJob(NamedTuple):
    """A job whose checkpoint was new at the start, its process, and the file with its standard error."""

    job: Job
    process: subprocess.Popen[str]
    log: Path


@pytest.fixture(scope="module")
def running(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningJob]:
    """Run one job for all tests, each of which writes events of its own groups; the last test ends the job."""
    folder = tmp_path_factory.mktemp("job")
    job, log = Job(broker, folder), folder / "stderr"
    with log.open("w") as errors, job.running(log=errors) as process:
        yield RunningJob(job, process, log)


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


def test_a_killed_member_is_fenced_and_a_replay_agrees(running: RunningJob) -> None:
    job, topics = running.job, running.job.settings.topics

    def written() -> int:
        return len(remove_repeats(job.rows(topics.diffs)).get(b"g", []))  # a retried batch is written twice

    with EventProducer(job.settings) as producer:
        topic_metadata = {"t": TopicMetadata(partitions=2)}
        producer.send(Event("app", "0", PartitionsChanged(group_id="g", timestamp=1, topics=topic_metadata)))
    with run_reporting_member(job, "alive"):
        eventually(lambda: written() == 1, timeout=180, every=0.5)
        with run_reporting_member(job, "dead") as kill:
            eventually(lambda: written() == 2, timeout=60, every=0.5)
            kill()
            eventually(lambda: written() == 3, timeout=120, every=0.5)
    eventually(lambda: written() == 4, timeout=120, every=0.5)
    live = remove_repeats(job.rows(topics.diffs))[b"g"]
    value, last_value = (row[0] or b"" for row in live[2:])
    assert b'"kind":"member.fenced","memberIds":["dead"]' in value
    assert b'"alive":{"owned":{"t":[0]},"revoked":{},"assigned":{"t":[1]}' in value
    assert b'"kind":"member.fenced","memberIds":["alive"]' in last_value

    # The same topic is replayed without a clock: the pure functions have no timer.
    log = [(b"g", value, list(headers)) for value, headers in job.rows(topics.membership)[b"g"]]
    assert expected(job, [log])[topics.diffs] == {b"g": live}


def times_up_to(job: Job) -> Iterator[int]:
    """Return the time (ms) up to which the stream has applied all events, from the stream's component heartbeats."""
    with TopicReader(job.settings.kafka, [job.settings.topics.signs], from_beginning=False) as reader:
        while True:
            for message in reader.poll(1.0):
                yield json.loads(message.value() or b"")["upTo"]


def test_open_transaction_is_reported_and_counts_as_behind(running: RunningJob) -> None:
    job, topics = running.job, running.job.settings.topics
    first_groups = {key for rows in LOG for key, _, _ in rows[:10]}

    def diffs_of(keys: set[bytes | None]) -> dict[bytes | None, list]:
        return {key: rows for key, rows in remove_repeats(job.rows(topics.diffs)).items() if key in keys}

    job.feed([rows[:10] for rows in LOG])
    eventually(lambda: diffs_of(first_groups), timeout=180, every=0.5)
    # By default the broker aborts after a minute, perhaps before a busy machine has read the other records.
    options = {"transactional.id": topics.prefix, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": job.settings.kafka.bootstrap_servers} | options)
    producer.init_transactions()
    producer.begin_transaction()
    offsets: list[int | None] = []

    def delivered(_: object, message: Message) -> None:
        offsets.append(message.offset())

    headers = [("ce_source", b"somebody"), ("ce_type", b"member.left"), ("ce_id", b"1")]
    producer.produce(topics.membership, key=b"g-1", value=b"{}", headers=headers, partition=2, on_delivery=delivered)
    producer.flush()
    job.feed([rows[10:] for rows in LOG])
    groups = {key for rows in LOG for key, _, _ in rows}
    wanted = expected(job, [rows if number != 2 else rows[:10] for number, rows in enumerate(LOG)])[topics.diffs]
    eventually(lambda: diffs_of(groups) == wanted, timeout=120, every=0.5)
    message = f"topic {topics.membership}: a transaction is open since offset {offsets[0]} of partition 2; "
    eventually(lambda: message in running.log.read_text(), timeout=60)
    times = times_up_to(job)
    first = next(times)
    assert first < time() * 1000 - 9_000
    assert next(times) == first  # until the transaction ends, no further event is applied
    producer.abort_transaction()
    eventually(lambda: "the open transaction has ended" in running.log.read_text(), timeout=60)
    eventually(lambda: next(times) > first, timeout=60)
    assert diffs_of(groups) == expected(job, LOG)[topics.diffs]


def test_ctrl_c_ends_the_job_without_error_output(running: RunningJob) -> None:
    eventually(lambda: running.job.count(running.job.settings.topics.signs) > 0, timeout=300, every=0.5)
    os.killpg(running.process.pid, signal.SIGINT)  # as Ctrl-C in a terminal does: the whole foreground group
    assert running.process.wait(60) == 0
    errors = running.log.read_text()
    assert [text for text in ("\tat ", "Exception", "Traceback") if text in errors] == [], errors
