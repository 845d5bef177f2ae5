"""A real Kafka broker as a child process, for the demo and the tests."""

import re
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka import admin as kafka_admin

from assignors.errors import OutsideFailure
from streaming.kafka import runtime
from streaming.kafka.clients import confluent_config
from streaming.process.children import SupervisedProcess, make_private
from streaming.settings.connection import KafkaSettings

_START_TIMEOUT_SECONDS = 60.0
_EXCEPTION_LINE = re.compile(r"^(Caused by: )?[\w.$]+(Exception|Error)\b")


class PortInUse(OutsideFailure):
    """Another process uses the port that the broker needs."""


class EmbeddedBroker:
    """A one-node KRaft cluster on 127.0.0.1, as a context manager.

    The broker ends when this process ends, for whatever reason. Ctrl-C in the terminal does not reach the broker.
    ``port``: None for a free port, which a restart keeps. ``data_dir``: the folder of the broker's data, which is used
    again if it exists; None for a temporary folder.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        data_dir: Path | None = None,
        version: str = runtime.DEFAULT_VERSION,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm_options: Sequence[str] = (),
    ) -> None:
        self._requested_port = port
        self._is_temporary_dir = data_dir is None
        self._data_dir = data_dir
        self._version = version
        self._properties = dict(properties or {})
        self._jvm_options = (f"-Xmx{heap}", "-Xms64m", *jvm_options)
        self._ports: tuple[int, int] | None = None
        self._process: SupervisedProcess | None = None

    @property
    def data_dir(self) -> Path:
        """The folder of the broker's data, configuration and log."""
        if self._data_dir is None:
            self._data_dir = Path(tempfile.mkdtemp(prefix="rebalance-monitor-broker-"))
        return self._data_dir

    @property
    def log_path(self) -> Path:
        """The path of the broker's log, which contains the group coordinator's reasons for rebalances."""
        return self.data_dir / "server.log"

    @property
    def port(self) -> int:
        """The port that clients connect to; the first start sets it."""
        if self._ports is None:
            raise OutsideFailure("the broker was never started")
        return self._ports[0]

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the broker's JVM; None while the broker is not running."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """True if the broker's process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the broker if it is not running; return once it answers, or raise OutsideFailure after a minute."""
        if self.running:
            return self
        prepared = runtime.prepare_runtime(self._version)
        has_fixed_port = self._ports is not None or self._requested_port is not None
        for tries_left in reversed(range(1 if has_fixed_port else 3)):
            ports = self._ports or self._choose_ports()
            try:
                self._start(prepared, ports)
                break
            except PortInUse:  # another process took the free port before the broker did
                if not tries_left:
                    raise
        self._ports = ports
        return self

    def stop(self, timeout: float = 15.0) -> None:
        """Stop the broker cleanly, or kill it after ``timeout`` seconds; keep its data directory."""
        if self._process is not None:
            self._process.stop(timeout)
            self._process = None

    def kill(self) -> None:
        """Kill the broker with SIGKILL, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def restart(self) -> Self:
        """Stop the broker, and start it again with the same data and port."""
        self.stop()
        return self.start()

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the broker's exit status once it ends; None after ``timeout`` seconds."""
        return self._process.wait(timeout) if self._process is not None else 0

    def close(self) -> None:
        """Stop the broker, and delete its data directory if that is temporary."""
        if not self._is_temporary_dir:
            self.stop()
            return
        self.kill()  # the data is deleted, so no clean shutdown is needed
        if self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)
            self._data_dir = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _choose_ports(self) -> tuple[int, int]:
        free = runtime.free_ports(2)
        if self._requested_port is None:
            return free[0], free[1]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self._requested_port))
            except OSError as error:
                raise PortInUse(
                    f"--port {self._requested_port}: {error.strerror}; choose another, or leave it out for a free one"
                ) from error
        return self._requested_port, next(port for port in free if port != self._requested_port)

    def _start(self, prepared: runtime.Runtime, ports: tuple[int, int]) -> None:
        storage, config = self.data_dir / "storage", self.data_dir / "server.properties"
        try:
            make_private(self.data_dir)
            if not (storage / "meta.properties").is_file():
                runtime.write_storage(prepared, storage)
            runtime.write_properties(config, runtime.server_properties(storage, *ports, self._properties))
            logged = self.log_path.stat().st_size if self.log_path.exists() else 0
        except OSError as error:
            raise OutsideFailure(f"--data-dir {self.data_dir}: {error.strerror}") from error
        process = SupervisedProcess(prepared.command("kafka.Kafka", str(config), jvm=self._jvm_options), self.log_path)
        try:
            self._await_port(process, ports[0], logged)
        except BaseException:
            process.kill()
            raise
        self._process = process

    def _await_port(self, process: SupervisedProcess, port: int, logged: int) -> None:
        by = time.monotonic() + _START_TIMEOUT_SECONDS
        client: kafka_admin.AdminClient | None = None
        reason = f"its port {port} is not open"
        while time.monotonic() < by:
            if process.wait(0.02) is not None:
                self._raise_start_failure(process, port, logged)
            if client is None and not runtime.is_open(port):
                continue
            servers = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}")
            client = client or kafka_admin.AdminClient(confluent_config(servers))
            try:
                if client.list_topics(timeout=2).brokers:
                    return
            except KafkaException as error:
                reason = error.args[0].str()
        raise OutsideFailure(f"the broker does not answer after a minute ({reason}); see {self.log_path}")

    def _raise_start_failure(self, process: SupervisedProcess, port: int, logged: int) -> None:
        with self.log_path.open("rb") as log:
            log.seek(logged)
            lines = log.read().decode(errors="replace").splitlines()
        if any("Address already in use" in line or "BindException" in line for line in lines):
            raise PortInUse(f"port {port} or the controller's port was taken while the broker started")
        exceptions = [line for line in lines if _EXCEPTION_LINE.match(line)]
        # The last cause is the deepest and the most specific: "Caused by: …ConfigException: …".
        causes = [line for line in exceptions if line.startswith("Caused by")]
        reason = (causes[-1:] or exceptions[:1] or lines[-1:] or ["its log has no message"])[0].strip()
        ended = f"the broker ended with status {process.poll()} while starting"
        raise OutsideFailure(f"{ended}: {reason}; see {self.log_path}")
