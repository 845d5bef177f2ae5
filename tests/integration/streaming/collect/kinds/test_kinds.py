"""Connect and Kafka Streams as real Java applications: their own reports agree with the diffs."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from msgspec import UNSET

from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.kafka.broker import EmbeddedBroker
from streaming.records.diffs import Diff
from streaming.records.events import GroupObserved, Holding
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.collect.kinds.applications import ConnectWorker, StreamsApplication
from tests.support.histories import assignments, diffs, partitions_after, play
from tests.support.kafka import LONG_BROKER_SESSION, PROPERTIES, eventually, read, unique_name
from tests.support.topics import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.full]

#: Seconds that a busy machine takes to start a JVM.
TIMEOUT_SECONDS = 180.0
#: Longer than a worker takes to start on a busy machine.
REBALANCE_DELAY_MS = 60_000
SHORT_TIMEOUTS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.num.standby.replicas": "1",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=PROPERTIES | LONG_BROKER_SESSION | SHORT_TIMEOUTS) as broker:
        yield broker
        if "WRITE_KINDS" in os.environ:
            write_records(broker, Path(os.environ["WRITE_KINDS"]))


def write_records(broker: EmbeddedBroker, file: Path) -> None:
    rows = read(broker.bootstrap_servers, OFFSETS_TOPIC)
    rows.sort(key=lambda row: (row.partition(), row.offset()))
    lines = [
        {
            "partition": row.partition(),
            "offset": row.offset(),
            "timestamp": row.timestamp()[1],
            "key": row.key().hex(),
            "value": None if row.value() is None else row.value().hex(),
        }
        for row in rows
        if row.key()[:2] not in (b"\0\0", b"\0\1")
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def topic(cluster: EmbeddedBroker) -> str:
    """Return a topic of four partitions, each with records."""
    name = create_topic(cluster.bootstrap_servers, unique_name("kinds"), 4)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(400):
        producer.produce(name, key=str(number), value=b"v", partition=number % 4)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return name


class Group:
    def __init__(self, collecting: CollectorProcess, group_id: str) -> None:
        self.collecting, self.group_id = collecting, group_id

    def diffs(self) -> list[Diff]:
        return diffs(play(self.collecting.events(self.group_id))[1])

    def view(self) -> GroupObserved | None:
        views = self.collecting.views(self.group_id)
        return views[-1] if views else None

    def names(self, name: Callable[[Any], str | None]) -> dict[str, str | None]:
        """Return, for each member id that ever joined, the name that the function ``name`` gives to the member."""
        return {m.member_id: name(m) for view in self.collecting.views(self.group_id) for m in view.members}

    def owned(self, name: Callable[[Any], str | None]) -> dict[str | None, Holding]:
        rounds = self.diffs()
        if not rounds:
            return {}
        names, after = self.names(name), partitions_after(rounds[-1])
        return {names[name]: after[name] for name, member in rounds[-1].members.items() if member.present}

    def standby(self, name: Callable[[Any], str | None]) -> dict[str | None, Holding]:
        """Return each member's standby tasks in the latest assignment."""
        latest = assignments(play(self.collecting.events(self.group_id))[1])[-1].assignment
        assert latest is not None
        assert latest.standby is not UNSET
        names = self.names(name)
        return {names[member_id]: tasks for member_id, tasks in latest.standby.items()}


def worker_id(member: Any) -> str:
    return str(member.endpoint).removeprefix("http://").removesuffix("/")


def client_id(member: Any) -> str | None:
    return member.client_id  # type: ignore[no-any-return] # an ObservedMember


class Cluster:
    """A real Connect cluster with its workers, its connectors, and its assignment once all sources agree on it."""

    def __init__(self, group: Group, servers: str, folder: Path) -> None:
        self.group, self.servers, self.folder = group, servers, folder

    def worker(self, name: str) -> ConnectWorker:
        delay = {"scheduled.rebalance.max.delay.ms": REBALANCE_DELAY_MS}
        return ConnectWorker(name, self.servers, self.group.group_id, self.folder, **delay)

    def create_connectors(self, worker: ConnectWorker, topic: str) -> int:
        """Configure three file connectors; return the number of tasks, including one for each connector."""
        source = self.folder / "source"
        source.write_text("a line\n")
        sink_config = {"connector.class": "FileStreamSink", "topics": topic, "file": str(self.folder / "sink")}
        connectors = {
            "src": {"connector.class": "FileStreamSource", "file": str(source), "topic": topic},
            "snk": sink_config | {"tasks.max": "4"},
            "log": sink_config | {"tasks.max": "2"},
        }
        for name, config in connectors.items():
            path = f"/connectors/{name}/config"
            eventually(lambda: worker.ask(path, "PUT", config), timeout=TIMEOUT_SECONDS, every=0.5)  # noqa: B023 - now
        return len(connectors) + 1 + 4 + 2

    def at_rest(self, *workers: ConnectWorker, tasks: int) -> dict[str | None, Holding]:

        def agreed_tasks() -> dict[str | None, Holding] | None:
            running = workers[0].owned() or {}
            collected_share = {name: share for name, share in self.group.owned(worker_id).items() if share}
            whole = sum(len(numbers) for share in running.values() for numbers in share.values()) == tasks
            return (
                collected_share
                if whole and running.keys() == {worker.worker_id for worker in workers} and running == collected_share
                else None
            )

        eventually(agreed_tasks, timeout=TIMEOUT_SECONDS, every=0.5)
        return self.group.owned(worker_id)


def test_connect_join_crash_and_return_give_right_rounds(cluster: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    group_id = unique_name("connect")
    with CollectorProcess(cluster.bootstrap_servers, group_id) as collecting:
        group = Group(collecting, group_id)
        connect = Cluster(group, cluster.bootstrap_servers, tmp_path)
        with connect.worker("w1") as first_worker:
            eventually(lambda: first_worker.ask("/"), timeout=TIMEOUT_SECONDS, every=0.5)
            tasks = connect.create_connectors(first_worker, topic)
            connect.at_rest(first_worker, tasks=tasks)
            with connect.worker("w2") as second_worker:
                lost = connect.at_rest(first_worker, second_worker, tasks=tasks)[second_worker.worker_id]
                second_worker.kill()
                eventually(lambda: group.diffs()[-1].unassigned == lost, timeout=TIMEOUT_SECONDS)
                assert group.diffs()[-1].delay_ms == REBALANCE_DELAY_MS
            with connect.worker("w2") as again:
                connect.at_rest(first_worker, again, tasks=tasks)
                again.close()
                # The worker stays away: its tasks move when the delay ends.
                connect.at_rest(first_worker, tasks=tasks)
            rounds = group.diffs()
            first_worker.close()
        eventually(lambda: not group.owned(worker_id), timeout=TIMEOUT_SECONDS)
        assert collecting.stop() == 0

    assert {diff.kind for diff in rounds} == {"connect"}
    assert not [diff.violations for diff in rounds if diff.violations]
    # A worker joins: one generation revokes tasks and one assigns them, with the same cause.
    joined = [diff for diff in rounds if diff.cause.kind == "member.joined"]
    assert any(diff.unassigned and diff.round == 1 for diff in joined)
    assert any(diff.moved and diff.round == 2 for diff in joined)
    # Tasks are unassigned for the delay twice; after the first, the rejoin reports the rest of the delay again.
    waits = [diff.delay_ms for diff in rounds if diff.delay_ms]
    assert waits[0] == REBALANCE_DELAY_MS
    assert waits.count(REBALANCE_DELAY_MS) >= 2
    assert any(0 < ms < REBALANCE_DELAY_MS for ms in waits)
    assert all(diff.unassigned for diff in rounds if diff.delay_ms)


@pytest.mark.parametrize("protocol", ["classic", "streams"], ids=["join-group", "kip-1071"])
def test_streams_rounds_match_their_active_and_standby_tasks(
    cluster: EmbeddedBroker, topic: str, tmp_path: Path, protocol: str
) -> None:
    servers, group_id = cluster.bootstrap_servers, unique_name(f"streams-{protocol}")

    def application(name: str) -> StreamsApplication:
        config: dict[str, Any] = {
            "application.id": group_id,
            "bootstrap.servers": servers,
            "client.id": f"{group_id}-{name}",
            "state.dir": str(tmp_path / name),
            "group.protocol": protocol,
            "num.stream.threads": 1,
            "commit.interval.ms": 200,
            "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        }
        if protocol == "classic":
            config |= {
                "num.standby.replicas": 1,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "probing.rebalance.interval.ms": 60_000,
            }
        return StreamsApplication(topic, config, tmp_path / f"{name}.log")

    report_field = "partitions" if protocol == "classic" else "active"

    with CollectorProcess(servers, group_id) as collecting:
        group = Group(collecting, group_id)

        def at_rest(*applications: StreamsApplication) -> None:
            """Wait until all tasks, including standby tasks, are assigned and all sources report the same tasks."""

            def agreed_tasks() -> bool:
                reports = {name: report for app in applications for name, report in app.report.items()}
                if len(reports) < len(applications) or any(report["state"] != "RUNNING" for report in reports.values()):
                    return False
                whole = sum(len(p) for report in reports.values() for p in report["active"].values()) == 4
                standby = {name: report["standby"] for name, report in reports.items()}
                owned = {name: report[report_field] for name, report in reports.items()}
                are_tasks_spread = (
                    len(applications) == 1 or sum(len(p) for s in standby.values() for p in s.values()) == 4
                )
                return (
                    whole
                    and are_tasks_spread
                    and group.owned(client_id) == owned
                    and group.standby(client_id) == standby
                )

            eventually(agreed_tasks, timeout=TIMEOUT_SECONDS, every=0.5)

        with application("a") as a:
            at_rest(a)
            with application("b") as b:
                at_rest(a, b)
                b.kill()
            at_rest(a)
            with application("b") as again:
                at_rest(a, again)
                again.close()
            at_rest(a)
            rounds = group.diffs()
            a.close()
        eventually(lambda: not group.owned(client_id), timeout=TIMEOUT_SECONDS)
        assert collecting.stop() == 0

    assert {(diff.kind, diff.protocol) for diff in rounds} == {("streams", protocol)}
    assert not [diff.violations for diff in rounds if diff.violations]
    assert {member.process_id for view in collecting.views(group_id) for member in view.members} != {UNSET}
    assert any(diff.cause.kind in ("member.left", "member.fenced", "group.observed") for diff in rounds)
