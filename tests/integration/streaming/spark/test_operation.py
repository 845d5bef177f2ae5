"""The job in operation: an unavailable broker, a burst of events, lost records, and topics that grow or are deleted.

``make test-long`` runs the full sizes (``STREAM_OUTAGE=120 STREAM_BURST=200000``).
"""

import logging
import os
import threading
import time
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.metadata import request_identities
from tests.support.histories import Log, log_by_partition
from tests.support.kafka import PROPERTIES, EmbeddedKafka, Kafka, eventually
from tests.support.load import rss
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, problems, processes_of, remove_repeats
from tests.support.topics import grow_topic

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark]

OUTAGE_SECONDS = float(os.environ.get("STREAM_OUTAGE", "5"))
BURST_EVENT_COUNT = int(os.environ.get("STREAM_BURST", "3000"))
#: Limit of resident memory of driver, JVM and Python workers together, whatever the backlog is.
MAX_MEMORY_MB = 2500
#: Seconds within which the operator gets a report of a deleted topic.
REPORT_SECONDS = 15.0
LOG = log_by_partition(membership_log(200, 11, seed=3), 4)


class MemorySampler(threading.Thread):
    """Samples the total memory of a job's processes, and keeps its maximum in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.most = 0.0
        self._pid = pid
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(0.5):
            try:
                pids = {pid for part in processes_of(self._pid).values() for pid in part}
                self.most = max(self.most, sum(map(rss, pids)))
            except (OSError, StopIteration):  # a worker ended between two samples
                continue

    def stop(self) -> float:
        self._stopped.set()
        self.join()
        return self.most


@pytest.mark.full  # the acceptance tests stop the broker under a running job too
@pytest.mark.timeout(1800)
def test_after_an_outage_the_burst_stays_within_memory(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path / "kafka", properties=PROPERTIES) as broker:
        job = Job(EmbeddedKafka(broker), tmp_path / "job")
        log = log_by_partition(membership_log(BURST_EVENT_COUNT, max(11, BURST_EVENT_COUNT // 200), seed=9), 4)
        diffs = job.settings.topics.diffs
        first = [rows[:20] for rows in log]
        job.feed(first)
        with job.running() as child:
            memory = MemorySampler(child.pid)
            memory.start()
            eventually(lambda: job.count(diffs) > 0, timeout=180)
            broker.stop()
            time.sleep(OUTAGE_SECONDS)  # the outage itself
            assert child.poll() is None
            broker.start()
            begin = time.monotonic()
            job.feed([rows[20:] for rows in log])
            wanted = expected(job, log)
            number = sum(map(len, wanted[diffs].values()))
            eventually(lambda: job.count(diffs) >= number, timeout=900, every=0.5)
            elapsed_seconds = time.monotonic() - begin
            most = memory.stop()
        logger.info(
            "%d events after %.0f s away: %.0f s, at most %.0f MB",
            BURST_EVENT_COUNT,
            OUTAGE_SECONDS,
            elapsed_seconds,
            most,
        )
        assert remove_repeats(job.rows(diffs)) == wanted[diffs]
        assert most < MAX_MEMORY_MB


@pytest.mark.full  # unit tests cover the counting of pieces, and that long rows leave a few at a time
def test_a_batch_of_snapshots_may_exceed_the_direct_memory(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    job.environment = {**os.environ, "JDK_JAVA_OPTIONS": "-XX:MaxDirectMemorySize=48m"}
    history = Log("large")
    shares = [{"t": list(range(10 * place, 10 * place + 10))} for place in range(100)]
    snapshots = []
    for number in range(1500):
        epoch = 1 + number // 10
        if number % 10 == 0:
            first, second = epoch % 100, (epoch + 1) % 100
            shares[first], shares[second] = shares[second], shares[first]
        members = {f"member-{place:03d}": share for place, share in enumerate(shares)}
        snapshots.append(history.observe(epoch, members, protocol="uniform", epoch=True))
    log = log_by_partition(snapshots, 4)
    assert sum(len(value or b"") for rows in log for _, value, _ in rows) > 48 << 20
    job.feed(log)
    job.drain()
    wanted = expected(job, log)[job.settings.topics.diffs]
    assert remove_repeats(job.rows(job.settings.topics.diffs)) == wanted


def test_checkpoint_url_fits_a_grown_topic_and_no_other_topic(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    url = (tmp_path / "remote").as_uri()
    job.options = ("--checkpoint", url)
    events = list(membership_log(400, 24, seed=13))
    job.feed(log_by_partition(iter(events[:20]), 4))
    job.drain("--buckets", "4")  # the checkpoint has four buckets and covers four partitions
    job.feed(log_by_partition(iter(events[20:300]), 4))
    grow_topic(broker.bootstrap_servers, job.settings.topics.membership, 8)
    job.feed(log_by_partition(iter(events[300:]), 8))
    # Bounded batches read from every readable partition: without an order, they would mix old and new.
    done = job.drain("--max-offsets-per-trigger", "100")
    assert "has 8 partitions, 4 are read" in done.stderr
    wanted = expected(job, log_by_partition(iter(events), 1))[job.settings.topics.diffs]
    assert remove_repeats(job.rows(job.settings.topics.diffs)) == wanted

    second_job = Job(broker, tmp_path / "other")
    second_job.options = job.options
    refused = second_job.start("--available-now")
    (line,) = problems(refused.stderr)
    start = f"error: --checkpoint {url}: was written for topic {job.settings.topics.membership}, not "
    assert (refused.returncode, line[: len(start)]) == (2, start)


@pytest.mark.full  # producers notice new partitions after minutes
def test_growing_topic_under_load_keeps_records_in_order(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    events = list(membership_log(6000, 40, seed=14))
    diffs = job.settings.topics.diffs
    with job.running("--max-offsets-per-trigger", "200"):
        for start in range(0, 3000, 100):
            job.feed(log_by_partition(iter(events[start : start + 100]), 4))
            time.sleep(0.5)  # a load, not a wait
        grow_topic(broker.bootstrap_servers, job.settings.topics.membership, 8)
        for start in range(3000, 6000, 100):
            job.feed(log_by_partition(iter(events[start : start + 100]), 8))
            time.sleep(0.5)
        wanted = expected(job, log_by_partition(iter(events), 1))[job.settings.topics.diffs]
        number = sum(map(len, wanted.values()))
        eventually(lambda: job.count(diffs) >= number, timeout=300, every=0.5)
    assert remove_repeats(job.rows(diffs)) == wanted


@pytest.mark.full  # tests/acceptance/test_faults.py deletes the diff topic under a running job
def test_output_topic_deleted_during_writes_stops_the_job(tmp_path: Path) -> None:
    properties = {**PROPERTIES, "auto.create.topics.enable": "true"}  # the default: a request creates a topic
    with EmbeddedBroker(properties=properties) as broker:
        job = Job(EmbeddedKafka(broker), tmp_path)
        name = job.settings.topics.assignments
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        events = iter(list(membership_log(20_000, 12, seed=5)))
        errors = tmp_path / "errors"
        with errors.open("w") as file, job.running(log=file) as child:
            while job.count(name) == 0:
                job.feed(log_by_partition(islice(events, 20), 4))
            admin.delete_topics([name])[name].result(30)
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


@pytest.fixture
def job_with_losses(broker: Kafka, tmp_path: Path) -> Job:
    """Return a job that has read twenty events per partition and has lost the next five of the first partition."""
    job = Job(broker, tmp_path)
    job.feed([rows[:20] for rows in LOG])
    job.drain()
    job.feed([rows[20:] for rows in LOG])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    offsets = [TopicPartition(job.settings.topics.membership, 0, 25)]
    for deleted in admin.delete_records(offsets).values():
        deleted.result(30)
    return job


@pytest.mark.full  # unit tests cover each message, and tests/faults loses records under a running job
def test_job_stops_on_lost_records_and_resumes_on_request(job_with_losses: Job) -> None:
    job, topics = job_with_losses, job_with_losses.settings.topics
    what = "partition 0 begins at 25, and is read from 20 on"
    refused = job.start("--available-now")
    (line,) = problems(refused.stderr)
    assert refused.returncode == 3
    assert line.startswith(f"error: topic {topics.membership} has lost records"), line
    assert f"{what}. Choose: --on-data-loss continue" in line

    assert f"topic {topics.membership} has lost records: {what}" in job.drain("--on-data-loss", "continue").stderr
    assert job.rows(topics.diffs) == expected(job, [LOG[0][:20] + LOG[0][25:], *LOG[1:]])[topics.diffs]
    job.drain()  # nothing is lost after the gap


@pytest.mark.full
def test_restart_option_reads_from_the_first_retained_record(job_with_losses: Job) -> None:
    job, diffs = job_with_losses, job_with_losses.settings.topics.diffs
    assert "the checkpoint was set aside as" in job.drain("--on-data-loss", "restart").stderr
    again = expected(job, [LOG[0][25:], *LOG[1:]])[diffs]
    written = job.rows(diffs)
    assert {key: written[key][-len(rows) :] for key, rows in again.items()} == again
