"""A monitor on three brokers with replication factor 3, while a broker crashes, hangs or is restarted."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self

import msgspec
import pytest
from confluent_kafka import KafkaError, Message, Producer

from assignors.partitioner import partition_for_key
from streaming.collect.cluster import max_silence_ms
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.kafka.topics import ensure_topics
from streaming.records.events import ClusterObserved, GroupObserved
from streaming.settings.connection import KafkaSettings
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.serve.test_outages import readiness_document
from tests.integration.streaming.serve.test_serve import ids, made
from tests.support.callbacks import missing_callbacks
from tests.support.kafka import eventually, read, unique_name
from tests.support.kafka_cluster import KafkaCluster, kafka_cluster
from tests.support.live_stream import LiveStream
from tests.support.members import CONSUMER, COOPERATIVE, Member, share_all_partitions
from tests.support.monitor import running_monitor
from tests.support.offsets_topic import assignment, group_bytes, group_key, subscription
from tests.support.serving import Publisher, ServeProcess
from tests.support.topics import create_topic

_EVERY_SECONDS = 0.2


class GroupRecords:
    """A context manager that writes generations of one classic group into each partition.

    A coordinator resigns from a partition to which other clients write, so the collector's own group needs a different
    partition.

    Attributes:
        written: group → generation → when its record was acknowledged, in seconds since the epoch.
    """

    def __init__(self, servers: str, prefix: str, partitions: Iterable[int]) -> None:
        self.written: dict[str, dict[int, float]] = defaultdict(dict)
        self.groups = {number: f"{prefix}-{number}" for number in partitions}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "__admin_client",  # only AdminUtils.ADMIN_CLIENT_ID may write to internal topics
                "enable.idempotence": True,
                "socket.timeout.ms": 3000,
                "request.timeout.ms": 3000,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def newest(self) -> dict[str, int]:
        """Return the newest acknowledged generation of each group."""
        return {group: max(self.written[group], default=0) for group in self.groups.values()}

    def _write(self) -> None:
        generation = 0
        while not self._stop.wait(_EVERY_SECONDS):
            generation += 1
            share = {"m": (subscription(["t"]), assignment({"t": [generation % 3]}))}
            for partition, group in self.groups.items():
                self._producer.produce(
                    OFFSETS_TOPIC,
                    key=group_key(group),
                    value=group_bytes(generation, share),
                    partition=partition,
                    on_delivery=self._acknowledged(group, generation),
                )
            self._producer.poll(0)
        self._producer.flush(60)

    def _acknowledged(self, group: str, generation: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.written[group][generation] = time.time()

        return note


pytestmark = pytest.mark.broker

_OFFSETS_PARTITIONS = 4
_TRANSACTIONS = "__transaction_state"
#: Partitions of the consumers' topic.
_PARTITIONS = 6
#: Longest wait for events after a leader election, on a busy machine.
_MAX_RECOVERY_SECONDS = 120.0
_SESSIONS = {"group.consumer.min.session.timeout.ms": "6000", "group.consumer.max.heartbeat.interval.ms": "2000"}

Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with kafka_cluster(properties=_SESSIONS) as made:
        yield add_consumers(made)


@pytest.fixture
def controller_cluster() -> Iterator[KafkaCluster]:
    """Yield a cluster in which each broker is also a controller."""
    with kafka_cluster(controllers=3, properties=_SESSIONS) as made:
        yield add_consumers(made)


def add_consumers(made: KafkaCluster) -> KafkaCluster:
    """Yield a cluster with a topic for consumers and with the internal topics that consumers need."""
    servers = made.bootstrap_servers
    create_topic(servers, "orders", _PARTITIONS, replicas=3)
    with Member(servers, "first", "first", ["orders"], **COOPERATIVE) as member:
        eventually(lambda: member.lines)
    made.wait_for_isr(OFFSETS_TOPIC)
    return made


def start_all_brokers(cluster: KafkaCluster, *topics: str) -> None:
    """Start the brokers that are down; wait until all three brokers are back and in sync."""
    for node in cluster.nodes.values():
        node.start()
    cluster.wait_for_brokers(3)
    for topic in (OFFSETS_TOPIC, *topics):
        cluster.wait_for_isr(topic)


def coordinator_partition(group: str) -> int:
    """Return ``abs(groupId.hashCode) % partitions``, the partition that Kafka's coordinator chooses for a group."""
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return abs(code - 2**32 if code >= 2**31 else code) % _OFFSETS_PARTITIONS


def groups_of_coordinator(cluster: KafkaCluster, membership: str, broker: int, *prefixes: str) -> list[str]:
    """Return a group id per prefix; this broker leads the group's offsets partition and its membership partition."""
    offsets = cluster.metadata(OFFSETS_TOPIC).topics[OFFSETS_TOPIC].partitions
    events = cluster.metadata(membership).topics[membership].partitions

    def has_coordinator(group: str) -> bool:
        leaders = (offsets[coordinator_partition(group)], events[partition_for_key(group.encode(), len(events))])
        return all(leader.leader == broker for leader in leaders)

    return [next(filter(has_coordinator, (f"{prefix}-{number}" for number in count()))) for prefix in prefixes]


def cluster_events(servers: str, membership: str) -> list[ClusterObserved]:
    """Return the events about the cluster itself (``cluster.observed``), oldest first."""
    return [
        msgspec.json.decode(message.value(), type=ClusterObserved)
        for message in read(servers, membership)
        if dict(message.headers()).get("ce_type") == b"cluster.observed"
    ]


def groups_of_away_brokers(servers: str, membership: str) -> dict[str, set[str]]:
    """Return the groups that were coordinated by each broker that crashed or hung, by broker id."""
    return {
        change.subject: set(change.groups)
        for event in cluster_events(servers, membership)
        for change in event.changes
        if change.kind == "broker-restart"
    }


def test_settings_of_every_broker_are_read(cluster: KafkaCluster) -> None:
    assert max_silence_ms(KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)) == 4000


def test_collector_keeps_every_round_when_a_leader_dies(
    cluster: KafkaCluster, tmp_path: Path, record_property: Record
) -> None:
    """Crash, while two groups rebalance, the broker that leads their partitions of offsets and events."""
    servers = cluster.bootstrap_servers
    collecting = CollectorProcess(servers, "dies-.*", log=tmp_path / "collect.log")
    ensure_topics(collecting.settings)
    membership = collecting.settings.topics.membership
    down = cluster.leader_other_than_controller(OFFSETS_TOPIC)
    classic, consumer = groups_of_coordinator(cluster, membership, down, "dies-classic", "dies-consumer")
    with ExitStack() as stack:
        view = stack.enter_context(LiveStream(collecting.settings))
        stack.enter_context(collecting)
        groups: dict[str, list[Member]] = {classic: [], consumer: []}

        def join(group: str, *names: str) -> None:
            options = COOPERATIVE if group == classic else CONSUMER
            made = (Member(servers, group, name, ["orders"], **options) for name in names)
            groups[group] += map(stack.enter_context, made)

        def has_equal_rounds(group: str) -> bool:
            return view.shares(group) == {member.name: member.owned for member in groups[group]}

        for group in groups:
            join(group, "a", "b")
        for group, members in groups.items():
            eventually(lambda m=members: share_all_partitions(m, _PARTITIONS))
            eventually(partial(has_equal_rounds, group), every=0.1)
        start_all_brokers(cluster, membership, _TRANSACTIONS)
        for group in groups:
            join(group, "c")
        eventually(lambda: any(members[-1].lines for members in groups.values()))
        cluster.nodes[down].kill()
        for topic in (OFFSETS_TOPIC, membership, _TRANSACTIONS):
            cluster.wait_for_leaders(topic, excluded_broker=down)
        leaders_found_seconds = time.monotonic()
        for members in groups.values():
            eventually(lambda m=members: share_all_partitions(m, _PARTITIONS))
        settled = time.monotonic()
        for group in groups:
            eventually(partial(has_equal_rounds, group), every=0.1)
        record_property("seconds from new leaders to settled groups", round(settled - leaders_found_seconds, 1))
        record_property("seconds from settled groups to their last event", round(time.monotonic() - settled, 1))
        for group, members in groups.items():
            callbacks = {m.name: [line["owned"] for line in m.lines if line["event"] == "assigned"] for m in members}
            assert missing_callbacks(view.rounds(group), view.names, callbacks) == []
        eventually(lambda: groups_of_away_brokers(servers, membership).get(f"broker {down}") == {classic, consumer})
        start_all_brokers(cluster, membership)
        eventually(lambda: cluster_events(servers, membership)[-1].brokers == [*sorted(cluster.nodes)])


def test_serve_has_every_diff_after_new_leaders(cluster: KafkaCluster, tmp_path: Path, record_property: Record) -> None:
    with ServeProcess(cluster.bootstrap_servers, f"{unique_name('serve')}.", tmp_path) as serve:
        replayed_rounds = made(2, 20)
        serve.start_with_diffs(replayed_rounds[:20])
        diffs = serve.settings.topics.diffs
        start_all_brokers(cluster, diffs)
        publisher = Publisher(serve)
        down = cluster.leader_other_than_controller(diffs)
        cluster.nodes[down].kill()
        cluster.wait_for_leaders(diffs, excluded_broker=down)
        began = time.monotonic()
        publisher.put(replayed_rounds[20:])
        eventually(lambda: sorted(serve.ids()) == ids(replayed_rounds), every=0.1)
        record_property("seconds from new leaders to the diffs in serve", round(time.monotonic() - began, 1))
        serve.await_status("/ready", 200)
        start_all_brokers(cluster, diffs)


@pytest.mark.full
def test_serve_is_not_ready_while_two_of_three_brokers_are_down(
    controller_cluster: KafkaCluster, tmp_path: Path
) -> None:
    with ServeProcess(controller_cluster.bootstrap_servers, f"{unique_name('serve')}.", tmp_path) as serve:
        replayed_rounds = made(2, 20)
        serve.start_with_diffs(replayed_rounds[:20])
        diffs = serve.settings.topics.diffs
        start_all_brokers(controller_cluster, diffs)
        for number in (1, 2):  # without a quorum, no leader is elected
            controller_cluster.nodes[number].kill()
        eventually(lambda: readiness_document(serve).get("stale"), every=0.1)
        assert readiness_document(serve)["stale"]["kind"] == "kafka-unreachable"
        start_all_brokers(controller_cluster, diffs)
        Publisher(serve).put(replayed_rounds[20:])
        eventually(lambda: sorted(serve.ids()) == ids(replayed_rounds), every=0.1)
        serve.await_status("/ready", 200)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_monitor_serves_every_round_when_a_broker_dies(
    cluster: KafkaCluster, tmp_path: Path, record_property: Record
) -> None:
    """Collector, stream and server report no problem, and the server serves every round exactly once."""
    servers, group = cluster.bootstrap_servers, unique_name("group")
    with running_monitor(cluster, tmp_path, f"{unique_name('three')}.") as monitor:  # type: ignore[arg-type]
        monitor.serve.start()
        with Member(servers, group, "a", ["orders"], **COOPERATIVE):
            first = monitor.complete()
            start_all_brokers(cluster, monitor.membership, monitor.diffs)
            down = cluster.leader_other_than_controller(monitor.membership)
            cluster.nodes[down].kill()
            cluster.wait_for_leaders(monitor.membership, excluded_broker=down)
            with Member(servers, group, "b", ["orders"], **COOPERATIVE) as second:
                eventually(lambda: second.owned)
                began = time.monotonic()
                monitor.complete(min_count=first)
                record_property("seconds from the new member to its diff", round(time.monotonic() - began, 1))
                monitor.await_status(None)
                start_all_brokers(cluster, monitor.membership)


@pytest.mark.full
@pytest.mark.parametrize("fault", ["kill", "pause", "stop"])
def test_events_flow_again_soon_after_new_leaders(
    cluster: KafkaCluster, fault: str, tmp_path: Path, record_property: Record
) -> None:
    servers = cluster.bootstrap_servers
    while True:
        collecting = CollectorProcess(servers, f"{fault}-.*", log=tmp_path / "collect.log")
        own = coordinator_partition(collecting.settings.collector_id)
        down = cluster.leader(OFFSETS_TOPIC, own)
        if down > 1:  # 1 is the controller
            break
    places = [number for number in range(_OFFSETS_PARTITIONS) if number != own]
    topic = collecting.settings.topics.membership
    with GroupRecords(servers, fault, places) as records, LiveStream(collecting.settings) as view, collecting:

        def published(group: str) -> list[int]:
            """Return the generations of the published snapshots that have members."""
            views = (event.data for event in view.events if isinstance(event.data, GroupObserved))
            return [view.generation or 0 for view in views if view.group_id == group and view.members]

        groups = list(records.groups.values())
        eventually(lambda: all(map(published, groups)), every=0.1)
        start_all_brokers(cluster, topic, _TRANSACTIONS)
        node = cluster.nodes[down]
        getattr(node, fault)()
        for topic_name in (OFFSETS_TOPIC, topic, _TRANSACTIONS):
            cluster.wait_for_leaders(topic_name, excluded_broker=down)
        leaders_found_seconds, before = time.monotonic(), records.newest()
        eventually(lambda: all(published(g)[-1] > before[g] for g in groups), timeout=_MAX_RECOVERY_SECONDS, every=0.1)
        record_property(
            f"seconds from new leaders to new events after {fault}", round(time.monotonic() - leaders_found_seconds, 1)
        )
        if fault == "pause":
            node.resume()
        start_all_brokers(cluster, topic)
        newest = records.newest()
        eventually(lambda: all(published(group)[-1] >= newest[group] for group in groups), every=0.1)
        for group in groups:
            generations = published(group)
            assert generations == sorted(set(generations)), "a generation is published twice, or out of order"
            assert {number for number in records.written[group] if number <= newest[group]} <= set(generations)
