import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.metadata import request_identities
from tests.support.histories import Topic, log_by_partition
from tests.support.kafka import PROPERTIES, EmbeddedKafka, Kafka, eventually
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, problems, remove_repeats

#: ``tests/acceptance/test_faults.py`` deletes a topic under a running job in `make test`.
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]

#: Seconds within which the operator gets a report of the problem.
REPORT_SECONDS = 15.0


@pytest.fixture(scope="module")
def other_kafka() -> Iterator[Kafka]:
    """Yield a broker with default settings, which creates each topic that a client requests."""
    with EmbeddedBroker(properties={**PROPERTIES, "auto.create.topics.enable": "true"}) as broker:
        yield EmbeddedKafka(broker)


def delete(job: Job, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": job.settings.kafka.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)


def parts(log: Topic, at: int) -> tuple[Topic, Topic]:
    return [rows[:at] for rows in log], [rows[at:] for rows in log]


def test_deleted_diff_topic_stops_the_job(other_kafka: Kafka, tmp_path: Path) -> None:
    job = Job(other_kafka, tmp_path)
    log = log_by_partition(membership_log(200, 12, seed=4), 4)
    before, after = parts(log, 20)
    diffs = job.settings.topics.diffs
    job.feed(before)
    number = sum(map(len, expected(job, before)[diffs].values()))
    errors = tmp_path / "errors"
    with errors.open("w") as file, job.running(log=file) as child:
        eventually(lambda: job.count(diffs) >= number, timeout=300, every=0.5)
        gone = job.rows(diffs)
        delete(job, diffs)
        begin = time.monotonic()
        assert child.wait(60) == 3
        elapsed_seconds = time.monotonic() - begin
    job_log = errors.read_text()
    (line,) = problems(job_log)
    assert line.startswith(f"error: topic {diffs} was deleted while the job ran"), job_log
    assert elapsed_seconds < REPORT_SECONDS
    job.feed(after)
    assert request_identities(job.settings.kafka, [diffs]) == {diffs: None}

    job.drain()  # creates the topic
    assert request_identities(job.settings.kafka, [diffs])[diffs].partitions == 4
    written = job.rows(diffs)
    # The last batch may have been written but not committed: then it is written again, with the same ids.
    both = {key: [*gone.get(key, []), *written.get(key, [])] for key in gone.keys() | written.keys()}
    assert remove_repeats(both) == expected(job, log)[diffs]


def test_output_topic_deleted_during_writes_stops_the_job(other_kafka: Kafka, tmp_path: Path) -> None:
    job = Job(other_kafka, tmp_path)
    name = job.settings.topics.assignments
    events = iter(list(membership_log(20_000, 12, seed=5)))
    errors = tmp_path / "errors"
    with errors.open("w") as file, job.running(log=file) as child:
        while job.count(name) == 0:
            job.feed(log_by_partition(islice(events, 20), 4))
        delete(job, name)
        begin = time.monotonic()
        while child.poll() is None:
            assert time.monotonic() - begin < 60
            job.feed(log_by_partition(islice(events, 20), 4))
        elapsed_seconds = time.monotonic() - begin
    log = errors.read_text()
    assert (child.returncode, len(problems(log))) == (3, 1), log
    assert elapsed_seconds < REPORT_SECONDS
    topic_identity = request_identities(job.settings.kafka, [name])[name]
    reason = "was deleted while" if topic_identity is None else "It has 1 in place of 4 partitions"
    assert reason in log
