"""Faults of a cluster of three brokers: restarts, reassignments, unclean elections (only in `make test-long`)."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition

from streaming.collect.coordinator.records import OFFSETS_TOPIC
from tests.integration.streaming.brokers.test_three_brokers import add_consumers, start_all_brokers
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.serve.test_serve import ids, made
from tests.support.callbacks import missing_callbacks
from tests.support.command import RunningCommand
from tests.support.kafka import eventually, unique_name
from tests.support.kafka_cluster import KafkaCluster, kafka_cluster
from tests.support.live_stream import LiveStream
from tests.support.members import CONSUMER, COOPERATIVE, Member, share_all_partitions
from tests.support.serving import Publisher, ServeProcess
from tests.support.topics import configure_topic

pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(600)]

_PARTITIONS = 6


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with kafka_cluster() as made:
        yield add_consumers(made)


class Observed:
    """A classic group and a KIP-848 group of real consumers, and the collectors that follow both groups."""

    def __init__(self, cluster: KafkaCluster, folder: Path, *ways: str) -> None:
        self.stack = ExitStack()
        self.cluster = cluster
        self.groups: dict[str, list[Member]] = {unique_name("classic"): [], unique_name("consumer"): []}
        self.views: dict[str, LiveStream] = {}
        self.collectors: dict[str, CollectorProcess] = {}
        for way in ways or ("offsets",):
            pattern = "(classic|consumer)-.*"
            collecting = CollectorProcess(cluster.bootstrap_servers, pattern, "--by", way, log=folder / f"{way}.log")
            self.stack.enter_context(collecting)
            self.views[way] = self.stack.enter_context(LiveStream(collecting.settings))
            self.collectors[way] = collecting

    @property
    def membership(self) -> list[str]:
        return [collector.settings.topics.membership for collector in self.collectors.values()]

    def join(self, *names: str) -> None:
        for group, members in self.groups.items():
            options = COOPERATIVE if group.startswith("classic") else CONSUMER
            for name in names:
                member = Member(self.cluster.bootstrap_servers, group, name, ["orders"], **options)
                members.append(self.stack.enter_context(member))

    def settle(self) -> None:
        """Wait until the consumers own all partitions, and each collector's snapshot agrees with the consumers."""
        for group, members in self.groups.items():
            eventually(partial(share_all_partitions, members, _PARTITIONS))
            for view in self.views.values():
                eventually(partial(self._shows_all_members, view, group), every=0.1)

    def _shows_all_members(self, view: LiveStream, group: str) -> bool:
        return view.shares(group) == {member.name: member.owned for member in self.groups[group]}

    def missing(self, way: str = "offsets") -> list[str]:
        """Return the consumers' callbacks that are missing from the diffs."""
        view = self.views[way]
        return [
            line
            for group, members in self.groups.items()
            for line in missing_callbacks(
                view.rounds(group),
                view.names,
                {
                    member.name: [report["owned"] for report in member.lines if report["event"] == "assigned"]
                    for member in members
                },
            )
        ]


@contextmanager
def observed(cluster: KafkaCluster, folder: Path, *ways: str) -> Iterator[Observed]:
    observed = Observed(cluster, folder, *ways)
    with observed.stack:
        observed.join("a", "b")
        observed.settle()
        start_all_brokers(cluster, *observed.membership)
        yield observed


def test_rolling_restart_of_all_brokers_loses_no_event(cluster: KafkaCluster, tmp_path: Path) -> None:
    with observed(cluster, tmp_path) as groups:
        for number, node in cluster.nodes.items():
            node.stop()
            groups.join(f"c{number}")
            start_all_brokers(cluster, *groups.membership)
        groups.settle()
        assert groups.missing() == []


def test_reassigned_topic_partitions_lose_no_event(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Move the offsets topic and the membership topic to other brokers, leaders first, while members join."""
    with observed(cluster, tmp_path) as groups:
        for number, topic in enumerate((OFFSETS_TOPIC, *groups.membership)):
            for brokers in ((2, 3), (3, 1)):
                groups.join(f"c{number}{brokers[0]}")
                move(cluster, topic, *brokers)
        groups.settle()
        assert groups.missing() == []


def test_polling_and_offsets_agree_after_a_broker_died(cluster: KafkaCluster, tmp_path: Path) -> None:
    with observed(cluster, tmp_path, "offsets", "polling") as groups:
        down = cluster.leader_other_than_controller(OFFSETS_TOPIC)
        groups.join("c")
        cluster.nodes[down].kill()
        cluster.wait_for_leaders(OFFSETS_TOPIC, excluded_broker=down)
        groups.settle()
        start_all_brokers(cluster, *groups.membership)
        assert groups.missing() == []


def move(cluster: KafkaCluster, topic: str, *brokers: int) -> None:
    """Move all partitions of a topic to these brokers and wait for the end of the move."""
    partitions = cluster.metadata(topic).topics[topic].partitions
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.alter_partition_reassignments({TopicPartition(topic, number): list(brokers) for number in partitions})
    finally:
        admin.close()
    eventually(partial(_has_replicas_on, cluster, topic, {*brokers}), every=0.2)


def _has_replicas_on(cluster: KafkaCluster, topic: str, brokers: set[int]) -> bool:
    partitions = cluster.metadata(topic).topics[topic].partitions.values()
    return all({*p.replicas} == {*p.isrs} == brokers and p.leader in brokers for p in partitions)


@contextmanager
def unclean_leader_election(cluster: KafkaCluster, topic: str) -> Iterator[None]:
    """Lose the records that the block writes: only broker 2 has these records, and broker 3 becomes leader."""
    options = {"min_insync_replicas": 1, "unclean_leader_election_enable": "true"}
    configure_topic(cluster.bootstrap_servers, topic, **options)
    move(cluster, topic, 2, 3)
    cluster.nodes[3].kill()
    cluster.wait_for_leaders(topic, excluded_broker=3)
    yield
    cluster.nodes[2].kill()
    cluster.nodes[3].start()
    cluster.wait_for_leaders(topic, excluded_broker=2)
    cluster.nodes[2].start()
    cluster.wait_for_brokers(3)
    cluster.wait_for_isr(topic, 2)


def test_groups_recover_from_unclean_offsets_topic_election(cluster: KafkaCluster, tmp_path: Path) -> None:
    """After an unclean election, groups continue from the new leader's state, as snapshots show."""
    with observed(cluster, tmp_path) as groups:
        with unclean_leader_election(cluster, OFFSETS_TOPIC):
            groups.join("c")
            groups.settle()
        groups.join("d")
        groups.settle()


def test_groups_recover_from_unclean_membership_topic_election(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Unclean election loses events; later events show the current state of the groups."""
    with observed(cluster, tmp_path) as groups:
        with unclean_leader_election(cluster, *groups.membership):
            groups.join("c")
            groups.settle()
        groups.join("d")
        groups.settle()


def test_older_history_is_completed_from_the_topic(cluster: KafkaCluster, tmp_path: Path) -> None:
    """A history without its write-ahead log, and an older copy of a history, receive every missing diff again."""
    with ServeProcess(cluster.bootstrap_servers, f"{unique_name('serve')}.", tmp_path) as serve:
        replayed_rounds = made(2, 30)
        serve.start_with_diffs(replayed_rounds[:20])
        history = tmp_path / "history.sqlite"
        assert serve.stop() == 0
        shutil.copy(history, tmp_path / "older")
        serve.start().await_status("/ready", 200)
        Publisher(serve).put(replayed_rounds[20:40])
        eventually(lambda: sorted(serve.ids()) == ids(replayed_rounds[:40]))
        serve.kill()
        for name in ("history.sqlite-wal", "history.sqlite-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        serve.start().await_status("/ready", 200)
        eventually(lambda: sorted(serve.ids()) == ids(replayed_rounds[:40]))
        assert serve.stop() == 0
        shutil.copy(tmp_path / "older", history)
        Publisher(serve).put(replayed_rounds[40:])
        serve.start().await_status("/ready", 200)
        eventually(lambda: sorted(serve.ids()) == ids(replayed_rounds))


def drain_stream(cluster: KafkaCluster, prefix: str, folder: Path) -> tuple[int, str]:
    """Run a stream until it has processed all available records; return its exit status and output."""
    place = ("--checkpoint", str(folder / "checkpoint"), "--available-now", "--buckets", "4")
    common = ("--bootstrap-servers", cluster.bootstrap_servers, "--topic-prefix", prefix)
    log = folder / unique_name("stream")
    with RunningCommand("stream", *common, *place, log=log) as stream:
        status = stream.start().ended(240)
    return status, log.read_text()


@pytest.mark.spark
def test_restored_older_checkpoint_is_reported(cluster: KafkaCluster, tmp_path: Path) -> None:
    with observed(cluster, tmp_path) as groups:
        prefix = groups.collectors["offsets"].settings.topics.prefix
        assert drain_stream(cluster, prefix, tmp_path)[0] == 0
        shutil.copytree(tmp_path / "checkpoint", tmp_path / "older")
        groups.join("c")
        groups.settle()
        common = ("--bootstrap-servers", cluster.bootstrap_servers, "--topic-prefix", prefix)
        place = ("--checkpoint", str(tmp_path / "checkpoint"))
        with RunningCommand("stream", *common, *place, log=tmp_path / "stream.log") as stream:
            stream.start()
            view = groups.views["offsets"]
            topic = groups.collectors["offsets"].settings.topics.diffs
            eventually(lambda: len(groups.collectors["offsets"].read(topic)) >= len(view.diffs), every=0.5)
            assert (stream.stop(), "Exception" in stream.output()) == (0, False)
        shutil.rmtree(tmp_path / "checkpoint")
        shutil.move(tmp_path / "older", tmp_path / "checkpoint")
        status, stream_log = drain_stream(cluster, prefix, tmp_path)
        assert (status, "is older than the last heartbeat of the stream" in stream_log) == (0, True), stream_log
        events = {message.value() for message in groups.collectors["offsets"].read(topic)}
        assert len(events) == len(view.diffs)
