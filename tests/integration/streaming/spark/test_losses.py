"""Lost records are reported before Spark starts, with the command-line options by which the job can continue."""

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, problems

#: Unit tests cover each message, and ``tests/faults`` loses records under a running job.
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]

LOG = log_by_partition(membership_log(200, 11, seed=3), 4)


@pytest.fixture
def job(broker: Kafka, tmp_path: Path) -> Job:
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


def test_job_stops_on_lost_records_and_resumes_on_request(job: Job) -> None:
    membership, diffs = job.settings.topics.membership, job.settings.topics.diffs
    what = "partition 0 begins at 25, and is read from 20 on"
    refused = job.start("--available-now")
    (line,) = problems(refused.stderr)
    assert refused.returncode == 3
    assert line.startswith(f"error: topic {membership} has lost records"), line
    assert f"{what}. Choose: --on-data-loss continue" in line

    assert f"topic {membership} has lost records: {what}" in job.drain("--on-data-loss", "continue").stderr
    assert job.rows(diffs) == expected(job, [LOG[0][:20] + LOG[0][25:], *LOG[1:]])[diffs]
    job.drain()  # nothing is lost after the gap


def test_restart_option_reads_from_the_first_retained_record(job: Job) -> None:
    diffs = job.settings.topics.diffs
    assert "the checkpoint was set aside as" in job.drain("--on-data-loss", "restart").stderr
    again = expected(job, [LOG[0][25:], *LOG[1:]])[diffs]
    written = job.rows(diffs)
    assert {key: written[key][-len(rows) :] for key, rows in again.items()} == again
