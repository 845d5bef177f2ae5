import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streaming.kafka.topic_reader import TopicReader
from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka, eventually
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, problems, remove_repeats

pytestmark = [pytest.mark.broker, pytest.mark.spark]

LOG = log_by_partition(membership_log(200, 11, seed=3), 4)


@pytest.fixture
def job(broker: Kafka, tmp_path: Path) -> Job:
    job = Job(broker, tmp_path)
    job.feed([rows[:10] for rows in LOG])
    return job


def up_to(job: Job) -> Iterator[int]:
    """Return the time (ms) up to which the stream has applied all events, from the stream's component heartbeats."""
    with TopicReader(job.settings.kafka, [job.settings.topics.signs], from_beginning=False) as reader:
        while True:
            for message in reader.poll(1.0):
                yield json.loads(message.value() or b"")["upTo"]


@pytest.mark.timeout(600)
def test_open_transaction_is_reported_and_counts_as_behind(job: Job, tmp_path: Path) -> None:
    topics = job.settings.topics
    servers, prefix = job.settings.kafka.bootstrap_servers, topics.prefix
    # By default the broker aborts after a minute, perhaps before a busy machine has read the other records.
    options = {"bootstrap.servers": servers, "transactional.id": prefix, "transaction.timeout.ms": 600_000}
    producer = Producer(options)
    producer.init_transactions()
    log = tmp_path / "stderr"
    with log.open("w") as errors, job.running(log=errors):
        eventually(lambda: job.count(topics.diffs) > 0, timeout=180)
        producer.begin_transaction()
        headers = [("ce_source", b"somebody"), ("ce_type", b"member.left"), ("ce_id", b"1")]
        producer.produce(topics.membership, key=b"g-1", value=b"{}", headers=headers, partition=2)
        producer.flush()
        job.feed([rows[10:] for rows in LOG])
        wanted = expected(job, [rows if number != 2 else rows[:10] for number, rows in enumerate(LOG)])
        eventually(lambda: remove_repeats(job.rows(topics.diffs)) == wanted[topics.diffs], timeout=120)
        offset = len(LOG[2][:10])
        message = f"topic {topics.membership}: a transaction is open since offset {offset} of partition 2; "
        eventually(lambda: message in log.read_text(), timeout=60)
        times = up_to(job)
        first = next(times)
        assert first < time.time() * 1000 - 9_000
        assert next(times) == first  # until the transaction ends, no further event is applied
        producer.abort_transaction()
        eventually(lambda: "the open transaction has ended" in log.read_text(), timeout=60)
        eventually(lambda: next(times) > first, timeout=60)
    assert remove_repeats(job.rows(topics.diffs)) == expected(job, LOG)[topics.diffs]


@pytest.mark.timeout(600)
def test_checkpoint_url_of_another_topic_is_refused(job: Job, broker: Kafka, tmp_path: Path) -> None:
    url = (tmp_path / "remote").as_uri()
    job.options = ("--checkpoint", url)
    diffs = job.settings.topics.diffs
    job.drain("--buckets", "4")
    job.feed([rows[10:] for rows in LOG])
    job.drain()  # the job keeps the number of buckets in its checkpoint
    assert remove_repeats(job.rows(diffs)) == expected(job, LOG)[diffs]
    second_job = Job(broker, tmp_path / "other")
    second_job.options = job.options
    refused = second_job.start("--available-now")
    (line,) = problems(refused.stderr)
    start = f"error: --checkpoint {url}: was written for topic {job.settings.topics.membership}, not "
    assert (refused.returncode, line[: len(start)]) == (2, start)
