"""Prepares an embedded broker's jars, formatted storage and class archive, once per Kafka and Java version.

The formatted folder is copied for each new broker, with a new cluster id, and a first broker writes its classes into an
AppCDS archive: with both a broker answers after 1.2 s instead of 3 s.
"""

import base64
import hashlib
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from assignors.errors import OutsideFailure
from streaming.kafka.jars import cache_dir, create_if_missing, fetch, java, kafka_coordinates, print_progress
from streaming.process.children import make_private, open_private

DEFAULT_VERSION = "4.3.1"
_TEMPLATE_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
_LOGGING = {
    "showDateTime": "true",
    "dateTimeFormat": "yyyy-MM-dd HH:mm:ss,SSS",
    **dict.fromkeys((f"log.org.apache.kafka.{name}" for name in ("storage", "common.config", "raft")), "warn"),
}
_JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true", "-Duser.timezone=UTC")


@dataclass(frozen=True, slots=True)
class Runtime:
    """A Kafka version whose jars and formatted storage are on this machine, so that brokers start fast."""

    jars: tuple[Path, ...]
    home: Path

    @property
    def storage(self) -> Path:
        """The folder with Kafka's formatted storage, which each new broker gets a copy of."""
        return self.home / "storage"

    def command(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs one of Kafka's main classes."""
        archive = self.home / "classes.jsa"
        shared = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        return [
            str(java()[0]),
            *_JVM_OPTIONS,
            *(f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in _LOGGING.items()),
            *(shared if archive.is_file() else ()),
            *jvm,
            *("-cp", ":".join(map(str, self.jars)), main, *arguments),
        ]


def prepare_runtime(version: str = DEFAULT_VERSION) -> Runtime:
    """Return the runtime of a Kafka version, and prepare it if necessary; raises OutsideFailure if that fails."""
    path, major = java()
    jars = tuple(fetch(kafka_coordinates(version)))
    # The archive is valid only for exactly this Java and this class path.
    modified_ns = path.resolve().stat().st_mtime_ns
    key = hashlib.sha256("\n".join([*map(str, jars), str(path.resolve()), str(modified_ns)]).encode()).hexdigest()[:12]
    home = cache_dir("broker") / f"{version}-java{major}-{key}"
    create_if_missing(home, lambda: _prepare_runtime(jars, home))
    return Runtime(jars, home)


def write_storage(runtime: Runtime, folder: Path) -> None:
    """Write a formatted, empty storage folder with a new cluster id."""
    make_private(folder)  # the metadata log contains SCRAM credentials
    for file in runtime.storage.iterdir():
        text = file.read_bytes()
        if file.name == "meta.properties":
            text = text.replace(_TEMPLATE_CLUSTER.encode(), new_uuid().encode())
        (folder / file.name).write_bytes(text)


def new_uuid() -> str:
    """Return a random id as Kafka prints it: 22 characters of url-safe base64, not starting with ``-``."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


def free_ports(count: int) -> list[int]:
    """Return ``count`` ports that are free on 127.0.0.1 now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in sockets]


def is_open(port: int) -> bool:
    """True if a process listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def server_properties(
    storage: Path, port: int, controller_port: int, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the configuration of a one-node cluster in KRaft combined mode on 127.0.0.1."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(storage),
        # One broker allows one replica; few partitions of internal topics make the start fast.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A topic that the broker creates automatically would have one partition.
        "auto.create.topics.enable": "false",
        # Short timeouts for demos and tests, and a first member that starts at once.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        # After a crash, the controller registers the same broker again only when its old session has expired.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        **(extra or {}),
    }


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file that only this user can read, because it may contain passwords."""
    lines = (f"{name}={value}".replace("\\", "\\\\") for name, value in properties.items())
    with open_private(file, "w") as text:
        text.write("\n".join(lines) + "\n")


def _prepare_runtime(jars: tuple[Path, ...], home: Path) -> None:
    print_progress("preparing the broker (once)")
    with tempfile.TemporaryDirectory(prefix=".make-", dir=home.parent) as temporary_folder:
        work = Path(temporary_folder) / "home"
        work.mkdir()
        fresh = Runtime(jars, work)
        config = Path(temporary_folder) / "server.properties"
        port, controller_port = free_ports(2)
        write_properties(config, server_properties(fresh.storage, port, controller_port))
        tool = fresh.command("kafka.tools.StorageTool", "format", "-t", _TEMPLATE_CLUSTER, "-c", str(config))
        answer = subprocess.run(tool, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            last = (answer.stderr.strip() or answer.stdout.strip() or "no output").splitlines()[-1]
            raise OutsideFailure(f"Kafka's storage tool ended with {answer.returncode}: {last}")
        _archive_classes(fresh, config, port)
        work.rename(home)
    print_progress("")


def _archive_classes(runtime: Runtime, config: Path, port: int) -> None:
    """Run a broker until its port is open, so that its JVM archives the loaded classes; ignore a failure."""
    keep = runtime.home / "storage.kept"
    shutil.copytree(runtime.storage, keep)
    archive = runtime.home / "classes.jsa"
    command = runtime.command("kafka.Kafka", str(config), jvm=[f"-XX:ArchiveClassesAtExit={archive}"])
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as broker:
        try:
            by = time.monotonic() + 60
            while broker.poll() is None and time.monotonic() < by and not is_open(port):
                time.sleep(0.05)
            broker.terminate()
            broker.wait(60)
        finally:
            broker.kill()
    shutil.rmtree(runtime.storage)
    keep.rename(runtime.storage)
