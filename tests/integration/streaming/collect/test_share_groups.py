"""A share group on a real broker: two members share one partition, and the coordinator logs their joins."""

from pathlib import Path

import pytest
from confluent_kafka import Producer, ShareConsumer

from streaming.records.diffs import Diff
from streaming.records.events import Holding
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.histories import diffs, partitions_after, play
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.topics import create_topic
from tests.support.wait import TIMEOUT_SECONDS

pytestmark = [pytest.mark.broker]


def rounds(collecting: CollectorProcess, group: str) -> list[Diff]:
    return diffs(play(collecting.events(group))[1])


def owned(collecting: CollectorProcess, group: str) -> dict[str | None, Holding]:
    diffs = rounds(collecting, group)
    names = {member.member_id: member.client_id for view in collecting.views(group) for member in view.members}
    present = diffs[-1].members if diffs else {}
    return {names[name]: partitions_after(diffs[-1])[name] for name, member in present.items() if member.present}


def test_shared_partition_has_two_members_until_they_leave(broker: Kafka, tmp_path: Path) -> None:
    servers, group = broker.bootstrap_servers, unique_name("share")
    topic = create_topic(servers, unique_name("shared"))
    producer = Producer({"bootstrap.servers": servers})
    read = {"a": 0, "b": 0}
    with CollectorProcess(servers, group) as collecting:
        members = {
            name: ShareConsumer({"bootstrap.servers": servers, "group.id": group, "client.id": name}) for name in read
        }

        def work() -> None:
            producer.produce(topic, b"v")
            producer.flush(TIMEOUT_SECONDS)
            for name, member in members.items():
                read[name] += sum(message.error() is None for message in member.poll(0.2))

        def has_assignments(expected: dict[str, Holding]) -> bool:
            work()
            return owned(collecting, group) == expected

        try:
            for member in members.values():
                member.subscribe([topic])
            both = {name: {topic: [0]} for name in read}
            eventually(lambda: has_assignments(both) and all(read.values()))
            members.pop("b").close()
            eventually(lambda: has_assignments({"a": {topic: [0]}}))
        finally:
            for member in members.values():
                member.close()
        eventually(lambda: not owned(collecting, group))
        assert collecting.stop() == 0

    diffs = rounds(collecting, group)
    assert {(diff.kind, diff.protocol, tuple(diff.violations)) for diff in diffs} == {("share", "share", ())}
    assert diffs[-1].unassigned == {}

    log = tmp_path / "server.log"
    log.write_text(broker.log_text())
    with CollectorProcess(servers, group, "--coordinator-log", str(log)) as logged:
        eventually(lambda: len(rounds(logged, group)) == len(diffs))
        assert logged.stop() == 0
    logged_diffs = rounds(logged, group)
    assert [diff.members for diff in logged_diffs] == [diff.members for diff in diffs]
    ends = [diff.cause for diff in logged_diffs if diff.cause.kind == "member.left"]
    assert [[item.source for item in cause.evidence] for cause in ends] == [["coordinator-log"]] * 2
