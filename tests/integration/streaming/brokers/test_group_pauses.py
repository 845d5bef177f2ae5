"""A stopped broker opens one incident of the cluster, whose pauses match the consumers' commits, and no crash."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import confluent_kafka
import kafka
import pytest
from kafka.errors import KafkaError
from msgspec import UNSET

from streaming.collect.cluster_view import coordinator_partition
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.episodes.cluster_cause import explain_episode
from streaming.records.episodes import Episode, Incident
from streaming.records.events import CLUSTER
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.protocols.java_members import JavaMembers
from tests.support.kafka import eventually
from tests.support.kafka_cluster import KafkaCluster, kafka_cluster
from tests.support.live_stream import LiveStream
from tests.support.members import EAGER, Member
from tests.support.topics import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(900)]

_OFFSETS_PARTITIONS = 4
_EVERY_SECONDS = 0.5
#: The collector knows the usual interval of a group after half a minute.
_HISTORY_SECONDS = 40
_OUTAGE_SECONDS = 35
#: Groups that the broker coordinates, see :func:`run_committers`.
_GROUPS = 25
#: A pause up to this length (ms) may be no longer than a group's usual interval on a busy machine.
_MAX_USUAL_INTERVAL_MS = 2000
#: Resolution of the consumers' logs on a busy machine.
_LOG_RESOLUTION_MS = 300

Record = Callable[[str, object], None]
Commit = Callable[[int], None]


class CommitAttempt(NamedTuple):
    """A commit of a consumer: when it was sent and answered (ms since the epoch), and whether it succeeded."""

    sent: int
    answered: int
    is_stored: bool


class Committer(Protocol):
    """A consumer that commits every half second, and its log of commits and assignments."""

    @property
    def attempts(self) -> Sequence[CommitAttempt]: ...

    @property
    def assignments(self) -> int: ...

    def close(self) -> None: ...


class PythonCommitter:
    """A consumer of confluent-kafka or kafka-python, run in a thread."""

    def __init__(self, group: str, run: "Callable[[PythonCommitter], None]") -> None:
        self.group = group
        self.attempts: list[CommitAttempt] = []
        self.assignments = 0
        self.stop = threading.Event()
        self._thread = threading.Thread(target=run, args=(self,), daemon=True)
        self._thread.start()

    def commit(self, commit: Commit, errors: type[Exception]) -> None:
        sent = time.time_ns() // 1_000_000
        try:
            commit(len(self.attempts))
            is_stored = True
        except errors:
            is_stored = False
        self.attempts.append(CommitAttempt(sent, time.time_ns() // 1_000_000, is_stored))

    def close(self) -> None:
        self.stop.set()
        self._thread.join(60)


class JavaCommitter:
    """A Java consumer, which writes its commits into a file."""

    def __init__(self, group: str, java: JavaMembers, file: Path, topic: str, config: dict[str, Any]) -> None:
        self._group, self._java, self._file = group, java, file
        file.touch()
        java.start(group, {"group.id": group, "enable.auto.commit": False} | config, [topic], commits=file)

    @property
    def attempts(self) -> list[CommitAttempt]:
        lines = (line.split() for line in self._file.read_text().splitlines())
        return [CommitAttempt(int(sent), int(answered), stored == "1") for sent, answered, stored in lines]

    @property
    def assignments(self) -> int:
        return sum((callback.name, callback.event) == (self._group, "assigned") for callback in self._java.callbacks)

    def close(self) -> None:
        self._java.begin_close(self._group, "DEFAULT")


def longest_pause_ms(attempts: Sequence[CommitAttempt], begin: int) -> int:
    """Return the longest time (ms) from the first failed or delayed commit to the next commit that succeeded."""
    longest, since = 0, None
    for attempt in attempts:
        if attempt.answered < begin:
            continue
        since = attempt.sent if since is None else since
        if attempt.is_stored:
            longest, since = max(longest, attempt.answered - since), None
    return longest


def start_confluent(servers: str, topic: str, **config: Any) -> Callable[[str], Committer]:
    """Return a function that starts a consumer of confluent-kafka in a group."""

    def run(committer: PythonCommitter) -> None:
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

    return partial(PythonCommitter, run=run)


def kafka_python(servers: str, topic: str) -> Callable[[str], Committer]:
    """Return a function that starts a consumer of kafka-python in a group."""

    def run(committer: PythonCommitter) -> None:
        consumer = kafka.KafkaConsumer(
            topic, bootstrap_servers=servers, group_id=committer.group, enable_auto_commit=False
        )

        def commit(offset: int) -> None:
            consumer.commit({kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}, timeout_ms=5000)

        assigned_places: set[Any] = set()
        while not committer.stop.is_set():
            consumer.poll(timeout_ms=int(_EVERY_SECONDS * 1000))
            if assigned_places != (assigned_places := consumer.assignment()):
                committer.assignments += 1
            if assigned_places:
                committer.commit(commit, KafkaError)
        consumer.close(autocommit=False)

    return partial(PythonCommitter, run=run)


def coordinator_of(cluster: KafkaCluster, group: str) -> int:
    return cluster.leader(OFFSETS_TOPIC, coordinator_partition(group, _OFFSETS_PARTITIONS))


def groups_led_by(cluster: KafkaCluster, broker: int, prefix: str) -> Iterator[str]:
    """Yield ids of groups that a broker coordinates."""
    return (name for number in count() if coordinator_of(cluster, name := f"{prefix}-{number}") == broker)


def collector_and_coordinator(cluster: KafkaCluster, folder: Path) -> tuple[CollectorProcess, int]:
    """Return a collector, and a coordinator that is neither the controller (1) nor coordinates the collector."""
    while True:
        collecting = CollectorProcess(cluster.bootstrap_servers, "pauses-.*", log=folder / "collect.log")
        leaders = {cluster.leader(OFFSETS_TOPIC, number) for number in range(_OFFSETS_PARTITIONS)}
        if candidates := leaders - {1, coordinator_of(cluster, collecting.settings.collector_id)}:
            return collecting, min(candidates)


@contextmanager
def run_committers(cluster: KafkaCluster, topic: str, down: int, folder: Path) -> Iterator[dict[str, Committer]]:
    """Run groups of all client libraries: the broker ``down`` coordinates most of them, another broker the rest."""
    servers = cluster.bootstrap_servers
    next_broker = next(number for number in (1, 2, 3) if number != down)
    committers: dict[str, Committer] = {}
    with ExitStack() as stack:
        members = stack.enter_context(JavaMembers())

        def java(group: str, **config: str) -> Committer:
            named = {name.replace("_", "."): value for name, value in config.items()}
            return JavaCommitter(group, members, folder / group, topic, {"bootstrap.servers": servers} | named)

        starts: dict[str, tuple[int, Callable[[str], Committer]]] = {
            "librdkafka": (5, start_confluent(servers, topic)),
            "consumer": (3, start_confluent(servers, topic, **{"group.protocol": "consumer"})),
            "rejoining": (
                3,
                start_confluent(servers, topic, **{"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}),
            ),
            "python": (6, kafka_python(servers, topic)),
            "java": (5, java),
            "java-consumer": (3, partial(java, group_protocol="consumer")),
        }
        for kind, (size, start) in starts.items():
            names = groups_led_by(cluster, down, f"pauses-{kind}")
            others = groups_led_by(cluster, next_broker, f"pauses-{kind}")
            for name in [*(next(names) for _ in range(size)), next(others)]:
                committers[name] = start(name)
                stack.callback(committers[name].close)
        eventually(lambda: all(committer.assignments for committer in committers.values()))
        yield committers


def contains_pause(measured_pause_ms: int, least: int, most: int, tolerance_ms: int) -> bool:
    return least - tolerance_ms <= measured_pause_ms <= most + tolerance_ms


def incident_with_pauses(view: LiveStream, kind: str, subject: str) -> Incident | None:
    """Return the cluster incident of this kind and subject once it lists the groups' pauses in commits, else None."""
    for incident in view.incidents(CLUSTER):
        if incident.kind == kind and subject in incident.story and incident.pauses is not UNSET:
            return incident
    return None


def explained(view: LiveStream, group: str) -> list[Episode]:
    """Return a group's episodes with the cluster incidents that explain them, as ``serve`` shows them."""
    incidents = [incident for incident in view.incidents(CLUSTER) if group in incident.groups]
    return [explain_episode(episode, incidents) for episode in view.episodes(group)]


@pytest.mark.parametrize(("fault", "replicas"), [("kill", 1), ("kill", 3), ("stop", 3)])
def test_a_broker_away_is_one_incident_with_pauses(
    fault: str, replicas: int, tmp_path: Path, record_property: Record
) -> None:
    """With one replica the groups have no coordinator while the broker is down; with three, another takes over."""
    with kafka_cluster(properties={"offsets.topic.replication.factor": str(replicas)}) as cluster:
        servers = cluster.bootstrap_servers
        topic = create_topic(servers, "orders", replicas=3)
        with Member(servers, "first", "first", [topic], **EAGER) as member:
            eventually(lambda: member.lines)
        collecting, down = collector_and_coordinator(cluster, tmp_path)
        with (
            LiveStream(collecting.settings) as view,
            collecting,
            run_committers(cluster, topic, down, tmp_path) as committers,
        ):
            time.sleep(_HISTORY_SECONDS)
            groups_of_stopped_broker = {name for name in committers if coordinator_of(cluster, name) == down}
            assignments_before = {name: committer.assignments for name, committer in committers.items()}
            before = {name: len(view.episodes(name)) for name in committers}
            begin = time.time_ns() // 1_000_000
            getattr(cluster.nodes[down], fault)()
            time.sleep(_OUTAGE_SECONDS)
            cluster.nodes[down].start()
            cluster.wait_for_brokers(3)
            away = (time.time_ns() // 1_000_000 - begin) / 1000
            incident = eventually(lambda: incident_with_pauses(view, "broker-restart", f"Broker {down} away"))
            eventually(lambda: all(c.attempts[-1].is_stored for c in committers.values()))
            assert isinstance(incident, Incident)
            assert incident.pauses is not UNSET
            eventually(lambda: all(incident.closed_at for incident in view.incidents(CLUSTER)))
            pauses = incident.pauses
            true_pauses = {name: longest_pause_ms(group.attempts, begin - 1000) for name, group in committers.items()}
            moved = {name for name in committers if committers[name].assignments > assignments_before[name]}
            incidents = [(incident.kind, incident.story) for incident in view.incidents(CLUSTER)]
            episodes = {name: explained(view, name) for name in committers}
            incidents_by_group = {name: view.incidents(name) for name in committers if view.incidents(name)}
        affected_groups = set(incident.groups)
        for name in sorted(committers):
            kinds = [(episode.kind, episode.sure) for episode in episodes[name][max(0, before[name] - 1) :]]
            record_property(
                f"{name}: true pause, bounds, episodes", (true_pauses[name], pauses.groups.get(name), kinds)
            )
        inside = [name for name in pauses.groups if contains_pause(true_pauses[name], *pauses.groups[name], 0)]
        record_property("story", incident.story)
        record_property("seconds away", round(away, 1))
        record_property("groups that assigned partitions again", sorted(moved & affected_groups))
        record_property(
            "inside the bounds", f"{len(inside)} of {len(pauses.groups)}, {len(affected_groups)} coordinated"
        )
        assert [kind for kind, _ in incidents] == ["broker-restart"], incidents
        assert len(groups_of_stopped_broker) == _GROUPS
        assert affected_groups == groups_of_stopped_broker
        # A broker that stops in order moves its coordinators first: some pauses are no longer than usual intervals.
        assert fault == "stop" or pauses.groups.keys() == groups_of_stopped_broker
        assert all(true_pauses[g] < _MAX_USUAL_INTERVAL_MS for g in groups_of_stopped_broker - pauses.groups.keys())
        assert pauses.unknown == pauses.more == 0
        assert {
            name
            for name in pauses.groups
            if not contains_pause(true_pauses[name], *pauses.groups[name], _LOG_RESOLUTION_MS)
        } == set()
        assert set(pauses.rebalanced) >= moved & affected_groups
        assert {
            name: [episode.story for episode in group_episodes]
            for name, group_episodes in episodes.items()
            if has_crash(group_episodes)
        } == {}
        assert incidents_by_group == {}


def has_crash(episodes: Sequence[Episode]) -> bool:
    """Return true if the episode's kind is not that of a first start or of a change in the brokers."""
    return not {episode.kind for episode in episodes} <= {"first-start", "coordinator-move", "unknown"}
