"""Progress of a group on a real broker: commits and end offsets, from a rebalance until the group has no lag."""

from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.records.events import GroupProgress
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.collect.test_rebalances_in_progress import MemberWithoutPolls, start_idle_poller
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.topics import create_topic

pytestmark = [pytest.mark.broker]


def samples(collecting: CollectorProcess, group: str) -> list[GroupProgress]:
    return [event.data for event in collecting.events(group) if isinstance(event.data, GroupProgress)]


def write(servers: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(records):
        producer.produce(topic, b"v", partition=0)
    assert producer.flush(30) == 0


def consume(member: MemberWithoutPolls, records: int) -> None:
    left = records
    while left:
        message = member.consumer.poll(1)
        left -= message is not None and message.error() is None


def test_a_group_is_sampled_until_it_has_caught_up(broker: Kafka) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    topic = create_topic(servers, unique_name("topic"))
    admin = AdminClient({"bootstrap.servers": servers})
    write(servers, topic, 10)

    def offsets(sample: GroupProgress) -> Any:
        return sample.partitions.get(topic, {}).get("0")

    with CollectorProcess(servers, group) as collecting:
        with start_idle_poller(servers, group, topic, enable_auto_commit=False) as member:
            consume(member, 10)
            eventually(lambda: [offsets(sample) for sample in samples(collecting, group)][-1:] == [(None, 10)])
            member.consumer.commit(asynchronous=False)
            write(servers, topic, 5)
            eventually(lambda: offsets(samples(collecting, group)[-1]) == (10, 15))
            consume(member, 5)
        # The group has no members: its uncommitted records stay until retention deletes them.
        eventually(lambda: not collecting.views(group)[-1].members)
        admin.delete_records([TopicPartition(topic, 0, 12)])
        eventually(lambda: samples(collecting, group)[-1].starts == {topic: {"0": 12}})
        assert offsets(samples(collecting, group)[-1]) == (10, 15)
