"""Topics that are deleted under a running job: told at once, never made by a client's question, nothing lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.identity import identify
from streaming.kafka.topics import ensure_topics
from tests.support.histories import Topic, as_topic, membership_log
from tests.support.kafka import PROPERTIES, Embedded, Kafka, eventually
from tests.support.stream_job import Job, expected, once

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Within so long whoever runs the job reads what is wrong.
TOLD_SECONDS = 15.0


@pytest.fixture(scope="module")
def foreign() -> Iterator[Kafka]:
    """A broker as most are set up: it makes each topic that a client asks for."""
    with EmbeddedBroker(properties={**PROPERTIES, "auto.create.topics.enable": "true"}) as broker:
        yield Embedded(broker)


def delete(job: Job, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": job.settings.kafka.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)


def parts(log: Topic, at: int) -> tuple[Topic, Topic]:
    return [rows[:at] for rows in log], [rows[at:] for rows in log]


def test_the_diff_topic_is_deleted_between_batches(foreign: Kafka, tmp_path: Path) -> None:
    job = Job(foreign, tmp_path)
    log = as_topic(membership_log(200, 12, seed=4), 4)
    before, after = parts(log, 20)
    diffs = job.settings.topics.diffs
    job.feed(before)
    errors = tmp_path / "errors"
    with errors.open("w") as file, job.running(log=file) as child:
        number = sum(map(len, expected(job, before)[diffs].values()))
        eventually(lambda: job.count(diffs) >= number, timeout=120)
        gone = job.rows(diffs)
        delete(job, diffs)
        begin = time.monotonic()
        job.feed(after)
        assert child.wait(60) == 3
        taken = time.monotonic() - begin
    told = errors.read_text()
    assert told.startswith(f"error: topic {diffs} was deleted"), told
    assert told.count("\n") == 1
    assert taken < TOLD_SECONDS
    assert identify(job.settings.kafka, [diffs]) == {diffs: None}

    ensure_topics(job.settings)
    job.drain()
    wanted = expected(job, log)[diffs]
    written = once(job.rows(diffs))
    assert {key: [*gone.get(key, []), *rows] for key, rows in written.items()} == {
        key: rows for key, rows in wanted.items() if key in written
    }
    assert set(gone) | set(written) == set(wanted)
