import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from assignors.java import string_hash
from streaming.kafka.broker import EmbeddedBroker
from tests.integration.streaming.collect.collector_process import (
    CollectorProcess,
    snapshot_generations,
    topic_with_writer,
)
from tests.support.kafka import LONG_BROKER_SESSION, PROPERTIES, Kafka, eventually, unique_name
from tests.support.members import EAGER, Member, share_all_partitions
from tests.support.offsets_topic import assignment, group_key, subscription
from tests.support.raw_leader import RawLeader
from tests.support.topics import configure_topic
from tests.support.wait import TIMEOUT_SECONDS

pytestmark = pytest.mark.broker

#: Session timeout, longer than any test of this file, because a raw leader sends no heartbeats.
SESSION_MS = 600_000


def test_truncated_value_is_dead_lettered_and_skipped() -> None:
    group = unique_name("group")
    key, value = b"\x00\x02\x00\x03bad", b"\x00\x03\x00\x08consumer\x00\x00"
    with ExitStack() as stack:
        # The test has its own broker, because the coordinator stops using a partition with records of another writer.
        servers = stack.enter_context(EmbeddedBroker(properties=PROPERTIES | LONG_BROKER_SESSION)).bootstrap_servers
        topic = stack.enter_context(topic_with_writer(servers))
        collecting = stack.enter_context(CollectorProcess(servers, f"{group}|bad"))
        own = collecting.settings.topics.prefix + collecting.settings.collect.group_id
        # GroupCoordinatorService.partitionFor: Utils.abs, not a mask.
        used_partitions = {abs(string_hash(name)) % 4 for name in (group, own)}
        unused_partition = next(number for number in range(4) if number not in used_partitions)
        a = stack.enter_context(Member(servers, group, "a", [topic], **EAGER))
        eventually(lambda: share_all_partitions([a], 6) and collecting.members(group))
        # A broker lets a client write to an internal topic only under this client id.
        producer = Producer({"bootstrap.servers": servers, "client.id": "__admin_client"})
        for group_key in (b"\x00\x02\x00\x05other", key):  # no request is made for the other group
            producer.produce("__consumer_offsets", key=group_key, value=value, partition=unused_partition)
        assert producer.flush(TIMEOUT_SECONDS) == 0
        [letter] = eventually(lambda: collecting.read(collecting.settings.topics.dead_letters))
        b = stack.enter_context(Member(servers, group, "b", [topic], **EAGER))
        eventually(lambda: share_all_partitions([a, b], 6))
        eventually(lambda: len(collecting.members(group) or ()) == 2)
        assert collecting.stop() == 0

    headers = dict(letter.headers())
    assert (letter.key(), letter.value()) == (key, value)
    assert headers["dlt_exception"] == b"MalformedRecord"
    assert headers["dlt_message"].startswith(b"GroupMetadataValue.generation: the value ends after 14 bytes")
    assert headers["dlt_topic"] == b"__consumer_offsets"
    assert int(headers["dlt_partition"]) == unused_partition


#: Observed in practice: a leader that sends null instead of partitions.
NULL_PARTITIONS = bytes.fromhex("0000 00000001 0002") + b"t0" + bytes.fromhex("ffffffff ffffffff")


def test_bad_leader_assignment_dead_letters_only_its_record(broker: Kafka, topic: str) -> None:
    servers, bad_group, good_group = broker.bootstrap_servers, unique_name("bad"), unique_name("good")
    with (
        RawLeader(servers, bad_group, SESSION_MS) as leader,
        CollectorProcess(servers, f"{bad_group}|{good_group}") as collecting,
        CollectorProcess(servers, ".*", "--exclude-group", f"{bad_group}|(?!{good_group}).*") as excluding_collector,
    ):
        dead_letter_topic = collecting.settings.topics.dead_letters
        with Member(servers, good_group, "a", [topic], **EAGER) as a:
            assert leader.generation(subscription([topic]), NULL_PARTITIONS) == 1
            [letter] = eventually(lambda: collecting.read(dead_letter_topic))
            eventually(lambda: share_all_partitions([a], 6) and collecting.members(good_group))
            assert leader.generation(subscription([topic]), assignment({topic: [0, 1]})) == 2
            eventually(lambda: snapshot_generations(collecting.views(bad_group)) == [2])
            for collector in (collecting, excluding_collector):
                eventually(lambda: collector.members(good_group) == {"a": a.owned})  # noqa: B023 - called at once
                assert collector.stop() == 0
                collector.start()
            assert leader.generation(subscription([topic]), b"\xff\xff") == 3
            assert leader.generation(subscription([topic]), assignment({topic: [2]})) == 4
            eventually(lambda: snapshot_generations(collecting.views(bad_group)) == [2, 4])
            leader.end()
        for collector in (collecting, excluding_collector):
            eventually(lambda: collector.members(good_group) == {})  # noqa: B023 - called at once
            assert collector.stop() == 0

    reasons = [dict(message.headers())["dlt_message"] for message in collecting.read(dead_letter_topic)]
    assert [reason.partition(b": ")[2] for reason in reasons] == [
        b"assignedPartitions.partitions: null",
        b"version: -1 is below 0",
    ]
    assert letter.key() == group_key(bad_group)
    assert NULL_PARTITIONS in letter.value()
    assert excluding_collector.read(excluding_collector.settings.topics.dead_letters) == []
    assert {event.data.group_id for event in excluding_collector.events()} == {good_group}


#: A topic name that is not UTF-8, an invalid partition, a truncated assignment.
INVALID_ASSIGNMENTS = (
    bytes.fromhex("0000 00000001 0002 fffe 00000001 00000000"),
    assignment({"t": [-5]}),
    b"\x00\x00\x00",
)


def test_polling_skips_only_the_group_with_a_bad_assignment(broker: Kafka, topic: str, tmp_path: Path) -> None:
    servers, bad_group, good_group = broker.bootstrap_servers, unique_name("bad"), unique_name("good")
    collecting = CollectorProcess(servers, f"{bad_group}|{good_group}", "--by", "polling", log=tmp_path / "log")
    collecting.environment = {"REBALANCE_MONITOR_COLLECT__POLL_QUICK_MS": "100"}
    warning = f"group {bad_group}: its coordinator does not answer"
    with RawLeader(servers, bad_group, SESSION_MS) as leader, collecting:
        for number, invalid_assignment in enumerate(INVALID_ASSIGNMENTS, start=1):
            leader.generation(subscription([topic]), invalid_assignment)
            eventually(lambda: collecting.output().count(warning) == number)  # noqa: B023 - called at once
            if number == 1:
                with Member(servers, good_group, "a", [topic], **EAGER) as a:
                    eventually(lambda: a.owned and collecting.members(good_group) == {"a": a.owned})
            leader.generation(subscription([topic]), assignment({topic: [number]}))
            eventually(lambda: collecting.members(bad_group) == {"raw-leader": {topic: [number]}})  # noqa: B023 - same
        leader.end()
        assert collecting.stop() == 0


def test_snapshot_longer_than_topic_limit_is_dead_lettered(broker: Kafka) -> None:
    servers, group = broker.bootstrap_servers, unique_name("group")
    with RawLeader(servers, group, SESSION_MS) as leader, CollectorProcess(servers, group) as collecting:
        membership = collecting.settings.topics.membership
        assert leader.generation(b"", assignment({"t": [0]})) == 1
        eventually(lambda: snapshot_generations(collecting.views(group)) == [1])
        # Reduced while the collector runs: it reads the limit again when the topic rejects a record.
        configure_topic(servers, membership, max_message_bytes=20_000)
        # Random bytes, as lz4 compresses regular ones.
        random_numbers = random.Random(7).sample(range(2**31), 20_000)
        assert leader.generation(b"", assignment({"t": random_numbers})) == 2
        [letter] = eventually(lambda: collecting.read(collecting.settings.topics.dead_letters))
        assert leader.generation(b"", assignment({"t": [1]})) == 3
        eventually(lambda: snapshot_generations(collecting.views(group)) == [1, 3])
        assert collecting.stop() == 0

    headers = dict(letter.headers())
    assert headers["dlt_exception"] == b"RecordTooLarge"
    assert headers["dlt_message"].endswith(f"max.message.bytes of {membership} is 20000".encode())
    assert letter.key() == group_key(group)
