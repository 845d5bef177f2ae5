"""Session timeouts: found by the clock, written to the log, applied when read back; a replay needs no timer."""

from __future__ import annotations

from pathlib import Path
from time import time

import pytest

from streaming.events import Event, MemberHeartbeat, MemberJoined, PartitionsChanged, TopicMetadata
from streaming.kafka.producer import EventProducer
from tests.support.kafka import Kafka, eventually
from tests.support.stream_job import Job, once

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_a_member_that_falls_silent_is_fenced_by_an_event_that_a_replay_applies_alike(
    broker: Kafka, tmp_path: Path
) -> None:
    job = Job(broker, tmp_path / "first")
    sent = 0

    def send(producer: EventProducer, data: MemberHeartbeat | MemberJoined | PartitionsChanged) -> None:
        nonlocal sent
        sent += 1
        producer.send(Event("app", str(sent), data))

    def now() -> int:
        return int(time() * 1000)

    topics = job.settings.topics
    with job.running(), EventProducer(job.settings) as producer:
        counts = {"t": TopicMetadata(partitions=2)}
        send(producer, PartitionsChanged(group_id="g", timestamp=now(), topics=counts))
        for member_id in ("alive", "dead"):
            send(
                producer,
                MemberJoined(
                    group_id="g",
                    timestamp=now(),
                    member_id=member_id,
                    topics=["t"],
                    # Longer than the job takes to start: what was sent before its first batch has been waiting.
                    session_timeout_ms=6000,
                ),
            )
            send(producer, MemberHeartbeat(group_id="g", timestamp=now(), member_id=member_id))

        def fenced() -> bool:
            send(producer, MemberHeartbeat(group_id="g", timestamp=now(), member_id="alive"))
            producer.flush()
            return job.count(topics.diffs) > 2

        eventually(fenced, timeout=90, every=1.0)
    live = once(job.rows(topics.diffs))
    value, _ = live[b"g"][-1]
    assert value is not None
    assert b'"kind":"member.fenced","memberIds":["dead"]' in value
    assert b'"alive":{"owned":{"t":[0]},"revoked":{},"assigned":{"t":[1]}' in value

    # The same topic, read by a job that never waits: no timer runs.
    replay = Job(broker, tmp_path / "second")
    replay.copy_membership(job)
    replay.drain()
    assert once(replay.rows(replay.settings.topics.diffs)) == live


def test_a_topic_made_again_under_its_name_stops_the_job_with_the_choice(
    broker: Kafka, tmp_path: Path
) -> None:
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
