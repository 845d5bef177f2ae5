"""A KRaft cluster of several embedded brokers, each of which can be killed, stopped, paused and restarted."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streaming.kafka.runtime import Runtime, free_ports, new_uuid, prepare_runtime, server_properties, write_properties
from streaming.process.children import SupervisedProcess
from tests.support.kafka import PROPERTIES
from tests.support.wait import eventually

#: Settings of a production cluster with three brokers, and short timeouts after a crash.
_REPLICATED_PROPERTIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "1",
    "replica.lag.time.max.ms": "5000",
    # With shorter timeouts a busy machine elects controllers all the time.
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "4000",
}
_JVM = ("-Xmx256m", "-Xms64m", "-XX:ActiveProcessorCount=2")


class BrokerNode:
    """One broker of a cluster; the broker keeps its port, identity and data across restarts."""

    def __init__(self, number: int, port: int, folder: Path, command: list[str]) -> None:
        self.number = number
        self.port = port
        self.folder = folder
        self.log_path = folder / "server.log"
        self._command = command
        self._process: SupervisedProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"broker {self.number} does not run"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the broker without waiting until it accepts requests."""
        if not self.running:
            self._process = SupervisedProcess(self._command, self.log_path)

    def kill(self) -> None:
        """Kill the broker with SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def stop(self) -> None:
        """Shut the broker down cleanly: the broker hands over its partition leaderships first."""
        if self._process is not None:
            self._process.stop(20)
            self._process = None

    def pause(self) -> None:
        """Pause the broker with SIGSTOP: the broker keeps its connections and sends no response."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the broker with SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)


class KafkaCluster:
    """Brokers 1 to ``size`` on 127.0.0.1; the first ``controllers`` of them are also controllers.

    With a single controller that keeps running, leaders are elected at once even on a busy machine.
    """

    def __init__(
        self, folder: Path, *, size: int = 3, controllers: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        runtime = prepare_runtime()
        ports = free_ports(2 * size)
        clients, controller_ports = ports[:size], dict(enumerate(ports[size : size + controllers], 1))
        cluster_id = new_uuid()
        common = {
            **PROPERTIES,
            **_REPLICATED_PROPERTIES,
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in controller_ports.items()),
            **(properties or {}),
        }
        self._controllers = controllers
        self.nodes: dict[int, BrokerNode] = {}
        for number, port in enumerate(clients, 1):
            home = folder / f"broker-{number}"
            _format_storage(runtime, home / "storage", cluster_id, number)
            own = {"node.id": str(number)}
            if number not in controller_ports:
                own |= {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
            config = home / "server.properties"
            settings = server_properties(home / "storage", port, controller_ports.get(number, 0), {**common, **own})
            write_properties(config, settings)
            command = runtime.command("kafka.Kafka", str(config), jvm=_JVM)
            self.nodes[number] = BrokerNode(number, port, home, command)
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in clients)

    def start(self) -> None:
        """Start every broker and wait until all are in the cluster's metadata."""
        for node in self.nodes.values():
            node.start()
        self.wait_for_brokers(len(self.nodes))

    def close(self) -> None:
        for node in self.nodes.values():
            if node.running:
                node.kill()

    def wait_for_brokers(self, brokers: int) -> None:
        """Wait until the cluster's metadata lists this many brokers."""
        eventually(lambda: len(self.metadata().brokers) == brokers, every=0.1)

    def metadata(self, topic: str | None = None) -> Any:
        """Return the cluster metadata that a new client receives."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        responses: list[Any] = []

        def has_response() -> bool:
            with suppress(KafkaException):
                responses.append(admin.list_topics(topic, timeout=3))
            return bool(responses)

        eventually(has_response, every=0.05)
        return responses[0]

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker id of a partition's leader; -1 without a leader."""
        partitions = self.metadata(topic).topics[topic].partitions
        return int(partitions[partition].leader) if partition in partitions else -1

    def leader_other_than_controller(self, topic: str) -> int:
        """Return the id of a broker that leads a partition of the topic and is not a controller."""
        partitions = self.metadata(topic).topics[topic].partitions.values()
        return int(next(partition.leader for partition in partitions if partition.leader > self._controllers))

    def wait_for_leaders(self, topic: str, excluded_broker: int = 0) -> None:
        """Wait until every partition of a topic has a leader other than this broker."""

        def all_partitions_have_leaders() -> bool:
            leaders[:] = [partition.leader for partition in self.metadata(topic).topics[topic].partitions.values()]
            return bool(leaders) and all(leader > 0 and leader != excluded_broker for leader in leaders)

        leaders: list[int] = []
        try:
            eventually(all_partitions_have_leaders, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"leaders of {topic}: {leaders}, not {excluded_broker}") from error

    def wait_for_isr(self, topic: str, size: int = 3) -> None:
        """Wait until every partition of a topic has this many in-sync replicas."""

        def has_in_sync_replicas() -> bool:
            partitions = self.metadata(topic).topics[topic].partitions.values()
            return bool(partitions) and all(len(partition.isrs) == size for partition in partitions)

        eventually(has_in_sync_replicas, every=0.1)


def _format_storage(runtime: Runtime, storage: Path, cluster_id: str, number: int) -> None:
    storage.mkdir(parents=True)
    for file in runtime.storage.iterdir():
        (storage / file.name).write_bytes(file.read_bytes())
    identity = {"version": "1", "cluster.id": cluster_id, "node.id": str(number), "directory.id": new_uuid()}
    write_properties(storage / "meta.properties", identity)


@contextmanager
def kafka_cluster(**options: Any) -> Iterator[KafkaCluster]:
    """Run a cluster of three brokers with replication factor 3; remove the cluster afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rebalance-monitor-cluster-"))
    cluster = KafkaCluster(folder, **options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)
