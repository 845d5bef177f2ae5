"""Pauses of groups while the broker that coordinates them is away, compared with the consumers' own commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import KafkaError
from msgspec import UNSET

from streaming.collect.cluster_view import coordinator_partition
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.kafka.topics import ensure_topics
from streaming.records.episodes import Incident
from streaming.records.events import CLUSTER
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.kafka import eventually
from tests.support.kafka_cluster import KafkaCluster, kafka_cluster
from tests.support.live_stream import LiveStream
from tests.support.members import EAGER, Member

pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(900)]

_OFFSETS_PARTITIONS = 4
_EVERY_SECONDS = 0.5
#: The collector knows the usual interval of a group after half a minute.
_HISTORY_SECONDS = 40
_AWAY_SECONDS = 35
#: Resolution of the consumers' logs on a busy machine.
_TOLERANCE_MS = 300

Record = Callable[[str, object], None]
Commit = Callable[[int], None]


class Attempt(NamedTuple):
    """A commit of a consumer: when it was sent and answered (ms since the epoch), and whether it succeeded."""

    sent: int
    answered: int
    is_stored: bool


class Committer:
    """A consumer in a thread that commits every half second, and its log of commits and assignments."""

    def __init__(self, group: str, run: Callable[[Committer], None]) -> None:
        self.group = group
        self.attempts: list[Attempt] = []
        self.assignments = 0
        self.stop = threading.Event()
        self._thread = threading.Thread(target=run, args=(self,), daemon=True)
        self._thread.start()

    def commit(self, commit: Commit, errors: type[Exception]) -> None:
        """Commit once, and log the attempt."""
        sent = time.time_ns() // 1_000_000
        try:
            commit(len(self.attempts))
            is_stored = True
        except errors:
            is_stored = False
        self.attempts.append(Attempt(sent, time.time_ns() // 1_000_000, is_stored))

    def close(self) -> None:
        self.stop.set()
        self._thread.join(60)

    def pause_ms(self, begin: int) -> int:
        """Return the longest time (ms) without a stored commit, from the first attempt that had to wait or failed."""
        longest, since = 0, None
        for attempt in self.attempts:
            if attempt.answered < begin:
                continue
            since = attempt.sent if since is None else since
            if attempt.is_stored:
                longest, since = max(longest, attempt.answered - since), None
        return longest


def confluent(servers: str, topic: str, **config: Any) -> Callable[[Committer], None]:
    """Return a consumer of confluent-kafka."""

    def run(committer: Committer) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": committer.group, "enable.auto.commit": False, "log_level": 0}
            | {"reconnect.backoff.max.ms": 1000, "topic.metadata.refresh.interval.ms": 1000}
            | config
        )

        def assigned(*_: object) -> None:
            committer.assignments += 1

        def commit(offset: int) -> None:
            consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, offset)], asynchronous=False)

        consumer.subscribe([topic], on_assign=assigned)
        while not committer.stop.is_set():
            consumer.poll(_EVERY_SECONDS)
            if committer.assignments:
                committer.commit(commit, confluent_kafka.KafkaException)
        consumer.close()

    return run


def kafka_python(servers: str, topic: str) -> Callable[[Committer], None]:
    """Return a consumer of kafka-python."""

    def run(committer: Committer) -> None:
        consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=servers, group_id=committer.group, enable_auto_commit=False
        )

        def commit(offset: int) -> None:
            consumer.commit({kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}, timeout_ms=5000)

        held: set[Any] = set()
        while not committer.stop.is_set():
            consumer.poll(timeout_ms=int(_EVERY_SECONDS * 1000))
            if held != (held := consumer.assignment()):
                committer.assignments += 1
            if held:
                committer.commit(commit, KafkaError)
        consumer.close(autocommit=False)

    return run


def led_by(cluster: KafkaCluster, group: str) -> int:
    """Return the broker that coordinates a group."""
    return cluster.leader(OFFSETS_TOPIC, coordinator_partition(group, _OFFSETS_PARTITIONS))


def groups_of(cluster: KafkaCluster, broker: int, prefix: str) -> Iterator[str]:
    """Yield ids of groups that a broker coordinates."""
    return (name for number in count() if led_by(cluster, name := f"{prefix}-{number}") == broker)


@contextmanager
def consuming(cluster: KafkaCluster, topic: str, down: int) -> Iterator[dict[str, Committer]]:
    """Run groups of both client libraries that the broker ``down`` coordinates, and groups of another broker."""
    servers, kinds = cluster.bootstrap_servers, {}
    kinds["librdkafka"] = confluent(servers, topic)
    kinds["consumer"] = confluent(servers, topic, **{"group.protocol": "consumer"})
    kinds["rejoining"] = confluent(servers, topic, **{"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000})
    kinds["python"] = kafka_python(servers, topic)
    sizes = {"librdkafka": 4, "consumer": 2, "rejoining": 2, "python": 4}
    neighbour = next(number for number in (1, 2, 3) if number != down)
    committers: dict[str, Committer] = {}
    with ExitStack() as stack:
        for kind, run in kinds.items():
            names, others = groups_of(cluster, down, f"pauses-{kind}"), groups_of(cluster, neighbour, f"pauses-{kind}")
            for name in [*(next(names) for _ in range(sizes[kind])), next(others)]:
                committers[name] = Committer(name, run)
                stack.callback(committers[name].close)
        eventually(lambda: all(committer.assignments for committer in committers.values()))
        yield committers


def within(true_ms: int, least: int, most: int, tolerance_ms: int) -> bool:
    """Return true if the bounds contain the true pause."""
    return least - tolerance_ms <= true_ms <= most + tolerance_ms


def paused(view: LiveStream, kind: str, subject: str) -> Incident | None:
    """Return the incident of a change of the cluster once it has the groups' pauses."""
    for incident in view.incidents(CLUSTER):
        if incident.kind == kind and subject in incident.story and incident.pauses is not UNSET:
            return incident
    return None


@pytest.mark.parametrize("replicas", [1, 3])
def test_pauses_of_groups_while_their_coordinator_is_away(
    replicas: int, tmp_path: Path, record_property: Record
) -> None:
    """With one replica the groups have no coordinator until the broker is back, with three they get another one."""
    with kafka_cluster(properties={"offsets.topic.replication.factor": str(replicas)}) as cluster:
        servers, topic = cluster.bootstrap_servers, "orders"
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result()
        with Member(servers, "first", "first", [topic], **EAGER) as member:
            eventually(lambda: member.lines)
        while True:
            collecting = CollectorProcess(servers, "pauses-.*", log=tmp_path / "collect.log")
            own = led_by(cluster, collecting.settings.collector_id)
            leaders = {cluster.leader(OFFSETS_TOPIC, number) for number in range(_OFFSETS_PARTITIONS)}
            if candidates := leaders - {1, own}:  # 1 is the controller
                down = min(candidates)
                break
        ensure_topics(collecting.settings)
        with LiveStream(collecting.settings) as view, collecting, consuming(cluster, topic, down) as committers:
            time.sleep(_HISTORY_SECONDS)
            led = {name for name in committers if led_by(cluster, name) == down}
            held = {name: committer.assignments for name, committer in committers.items()}
            begin = time.time_ns() // 1_000_000
            cluster.nodes[down].kill()
            time.sleep(_AWAY_SECONDS)
            cluster.nodes[down].start()
            cluster.wait_for(3)
            away = (time.time_ns() // 1_000_000 - begin) / 1000
            incident = eventually(lambda: paused(view, "broker-restart", f"Broker {down} away"))
            eventually(lambda: all(c.attempts[-1].is_stored for c in committers.values()))
            assert isinstance(incident, Incident)
            assert incident.pauses is not UNSET
            eventually(lambda: view.incidents(CLUSTER)[-1].closed_at)
            pauses = incident.pauses
            truth = {name: committers[name].pause_ms(begin - 1000) for name in committers}
            moved = {name for name in committers if committers[name].assignments > held[name]}
        coordinated = set(incident.groups)
        for name in sorted(committers):
            record_property(f"{name}: true pause, bounds", (truth[name], pauses.groups.get(name)))
        inside = [name for name in pauses.groups if within(truth[name], *pauses.groups[name], 0)]
        record_property("story", incident.story)
        record_property("seconds away", round(away, 1))
        record_property("groups that assigned partitions again", sorted(moved & coordinated))
        record_property("inside the bounds", f"{len(inside)} of {len(pauses.groups)}, {len(coordinated)} coordinated")
        assert coordinated == pauses.groups.keys() == led
        assert pauses.unknown == pauses.more == 0
        assert {name for name in pauses.groups if not within(truth[name], *pauses.groups[name], _TOLERANCE_MS)} == set()
        assert set(pauses.rebalanced) >= moved & coordinated
