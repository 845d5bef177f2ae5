"""Three brokers with replication factor 3: what a monitor does when one of them dies, hangs or is restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.collect.cluster import surely_alive_ms
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.settings.connection import KafkaSettings
from tests.integration.streaming.collect.collecting import Collecting
from tests.support.group_records import GroupRecords
from tests.support.kafka import eventually, unique
from tests.support.kafka_cluster import KafkaCluster, kafka_cluster
from tests.support.members import COOPERATIVE, Member
from tests.support.monitor import running_monitor

pytestmark = pytest.mark.broker

_OFFSETS_PARTITIONS = 4
#: Longest wait for events after a new leader, on a busy machine.
_FLOWING_SECONDS = 120.0
_SESSIONS = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.max.heartbeat.interval.ms": "2000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with kafka_cluster(properties=_SESSIONS) as made:
        servers = made.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})  # held: answers come only while it lives
        admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result()
        with Member(servers, "first", "first", ["orders"], **COOPERATIVE) as member:
            eventually(lambda: member.told)
        made.wait_for_isr(OFFSETS_TOPIC)
        yield made


def healed(cluster: KafkaCluster, *topics: str) -> None:
    """Wait until three brokers are there and have every record."""
    cluster.wait_for(3)
    for topic in (OFFSETS_TOPIC, *topics):
        cluster.wait_for_isr(topic)


def test_settings_of_every_broker_are_read(cluster: KafkaCluster) -> None:
    assert surely_alive_ms(KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)) == 4000


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.full) for fault in ("kill", "pause", "stop")]
)
def test_events_flow_again_soon_after_new_leaders(cluster: KafkaCluster, fault: str, tmp_path: Path) -> None:
    servers, log = cluster.bootstrap_servers, tmp_path / "collect.log"
    collecting = Collecting(servers, f"{fault}-.*", log=log)
    places = [
        n for n in range(_OFFSETS_PARTITIONS) if n != _group_partition(collecting.settings.collector_id)
    ]
    topic = collecting.settings.topics.membership
    with GroupRecords(servers, fault, places) as records, collecting:
        groups = list(records.groups.values())
        eventually(lambda: all(collecting.views(group) for group in groups), every=0.5)
        healed(cluster, topic, "__transaction_state")
        down = cluster.leader(OFFSETS_TOPIC, _group_partition(collecting.settings.collector_id))
        node = cluster.nodes[down]
        getattr(node, fault)()
        for one in (OFFSETS_TOPIC, topic, "__transaction_state"):
            cluster.wait_for_leaders(one, other_than=down)
        before = records.newest()
        eventually(
            lambda: all(
                max(view.generation or 0 for view in collecting.views(group)) > before[group]
                for group in groups
            ),
            timeout=_FLOWING_SECONDS,
            every=0.2,
        )
        node.resume() if fault == "pause" else node.start()
        healed(cluster, topic)
    for group in groups:
        seen = [view.generation or 0 for view in collecting.views(group)]
        assert seen == sorted(set(seen)), "a generation is published twice, or out of order"
        assert set(records.written[group]) - {max(records.written[group])} <= set(seen)


def _group_partition(group: str) -> int:
    """``abs(groupId.hashCode) % partitions``, as the coordinator's partition is chosen."""
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return abs(code - 2**32 if code >= 2**31 else code) % _OFFSETS_PARTITIONS


@pytest.mark.spark
@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_monitor_goes_on_when_a_broker_dies(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Collector, stream and serve: every round is served once, and all of them say that they are well."""
    servers, group = cluster.bootstrap_servers, unique("group")
    with running_monitor(cluster, tmp_path, f"{unique('three')}.") as monitor:  # type: ignore[arg-type]
        monitor.serve.start()
        with Member(servers, group, "a", ["orders"], **COOPERATIVE):
            first = monitor.complete()
            healed(cluster, monitor.membership)
            down = cluster.leader(monitor.membership)
            cluster.nodes[down].kill()
            cluster.wait_for_leaders(monitor.membership, other_than=down)
            with Member(servers, group, "b", ["orders"], **COOPERATIVE) as second:
                eventually(lambda: second.owned)
                monitor.complete(more_than=first)
                monitor.says(None)
                cluster.nodes[down].start()
                healed(cluster, monitor.membership)
