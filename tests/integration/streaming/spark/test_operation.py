"""The job in operation: with an unavailable broker, under a burst of events, and on a topic that grows.

``make test-long`` runs the full sizes (``STREAM_OUTAGE=120 STREAM_BURST=200000``) and the test of a topic that grows
under load.
"""

import logging
import os
import threading
import time
from pathlib import Path

import pytest

from streaming.kafka.broker import EmbeddedBroker
from tests.support.histories import Log, log_by_partition
from tests.support.kafka import PROPERTIES, EmbeddedKafka, Kafka, eventually
from tests.support.load import rss
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, processes_of, remove_repeats

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark]

OUTAGE_SECONDS = float(os.environ.get("STREAM_OUTAGE", "5"))
BURST_EVENT_COUNT = int(os.environ.get("STREAM_BURST", "3000"))
#: Limit of resident memory of driver, JVM and Python workers together, whatever the backlog is.
MAX_MEMORY_MB = 2500


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


def grow(job: Job, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = job.settings.topics.membership
    admin = AdminClient({"bootstrap.servers": job.settings.kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    eventually(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions)


def test_grown_topic_is_read_in_order_for_each_group(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    events = list(membership_log(400, 24, seed=13))
    job.feed(log_by_partition(iter(events[:20]), 4))
    job.drain()  # the checkpoint covers four partitions
    job.feed(log_by_partition(iter(events[20:300]), 4))
    grow(job, 8)
    job.feed(log_by_partition(iter(events[300:]), 8))
    # Bounded batches read from every readable partition: without an order, they would mix old and new.
    done = job.drain("--max-offsets-per-trigger", "100")
    assert "has 8 partitions, 4 are read" in done.stderr
    wanted = expected(job, log_by_partition(iter(events), 1))[job.settings.topics.diffs]
    assert remove_repeats(job.rows(job.settings.topics.diffs)) == wanted


@pytest.mark.full  # producers notice new partitions after minutes
def test_growing_topic_under_load_keeps_records_in_order(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    events = list(membership_log(6000, 40, seed=14))
    diffs = job.settings.topics.diffs
    with job.running("--max-offsets-per-trigger", "200"):
        for start in range(0, 3000, 100):
            job.feed(log_by_partition(iter(events[start : start + 100]), 4))
            time.sleep(0.5)  # a load, not a wait
        grow(job, 8)
        for start in range(3000, 6000, 100):
            job.feed(log_by_partition(iter(events[start : start + 100]), 8))
            time.sleep(0.5)
        wanted = expected(job, log_by_partition(iter(events), 1))[job.settings.topics.diffs]
        number = sum(map(len, wanted.values()))
        eventually(lambda: job.count(diffs) >= number, timeout=300, every=0.5)
    assert remove_repeats(job.rows(diffs)) == wanted
