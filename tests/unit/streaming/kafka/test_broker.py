"""Start and end of the embedded broker, with a script instead of the JVM; integration tests start real brokers."""

import socket
import sys
from pathlib import Path

import pytest

from assignors.errors import OutsideFailure
from streaming.kafka import broker
from streaming.kafka.broker import EmbeddedBroker, PortInUse
from streaming.kafka.runtime import Runtime, free_ports
from tests.support.memory_kafka import MemoryKafka
from tests.support.processes import alive

#: Opens the port that its configuration names and keeps running, or prints something and ends.
BROKER_PROGRAM = """
import socket, sys, time
lines = dict(line.rstrip().split("=", 1) for line in open(sys.argv[1]))
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(lines["listeners"].split(",")[0].rpartition(":")[2])))
print("started with", lines.get("mine"), flush=True)
server.listen(); time.sleep(100)
"""


class ScriptRuntime(Runtime):
    """A fake Java runtime that runs a Python script in place of Kafka's broker."""

    text = BROKER_PROGRAM
    starts: list[list[str]] = []  # noqa: RUF012 - emptied for each test

    def command(self, main: str, *arguments: str, jvm: object = ()) -> list[str]:
        self.starts.append([main, *arguments, *jvm])  # type: ignore[misc] # a sequence
        return [sys.executable, "-c", self.text, *arguments]


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[ScriptRuntime]:
    home = tmp_path / "home"
    (home / "storage").mkdir(parents=True)
    (home / "storage/meta.properties").write_text("cluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    MemoryKafka(monkeypatch)
    monkeypatch.setattr(broker.runtime, "prepare_runtime", lambda *_, **__: ScriptRuntime((), home))
    monkeypatch.setattr(ScriptRuntime, "text", BROKER_PROGRAM)
    monkeypatch.setattr(ScriptRuntime, "starts", [])
    return ScriptRuntime


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_broker_folder_exists_only_while_the_broker_is_open(script: type[ScriptRuntime]) -> None:
    embedded_broker = EmbeddedBroker(properties={"mine": "yes"}, heap="300m")
    assert (embedded_broker.running, embedded_broker.pid) == (False, None)
    with pytest.raises(OutsideFailure, match="the broker was never started"):
        _ = embedded_broker.port
    with embedded_broker:
        assert embedded_broker.running
        assert embedded_broker.bootstrap_servers == f"127.0.0.1:{embedded_broker.port}"
        assert is_listening(embedded_broker.port)
        folder, port, pid = embedded_broker.data_dir, embedded_broker.port, embedded_broker.pid
        assert "started with yes" in embedded_broker.log_path.read_text()
        assert embedded_broker.start() is embedded_broker  # the broker is already running
    assert script.starts == [["kafka.Kafka", str(folder / "server.properties"), "-Xmx300m", "-Xms64m"]]
    assert (folder.exists(), is_listening(port), alive(pid or 0), embedded_broker.running, embedded_broker.pid) == (
        False,
    ) * 4 + (None,)
    assert embedded_broker.wait(0) == 0


def test_a_data_directory_is_kept_and_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with EmbeddedBroker(data_dir=folder) as broker:
        properties = (folder / "storage/meta.properties").read_text()
        first = broker.port
        broker.restart()
        assert broker.port == first
    with EmbeddedBroker(data_dir=folder):
        assert (folder / "storage/meta.properties").read_text() == properties
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "server.log").read_text().count("started with") == 3


def test_killed_and_stopped_brokers_can_be_started_again() -> None:
    with EmbeddedBroker() as broker:
        for end in (broker.kill, broker.stop):
            pid = broker.pid or 0
            end()
            assert (broker.running, alive(pid), broker.wait(0)) == (False, False, 0)
            broker.start()
        assert broker.running
        assert broker.wait(0.01) is None


def test_requested_port_is_used_or_refused() -> None:
    (port,) = free_ports(1)
    with EmbeddedBroker(port=port) as broker:
        assert broker.port == port
        with pytest.raises(PortInUse) as refused, EmbeddedBroker(port=port):
            pass
    assert str(refused.value) == (
        f"--port {port}: Address already in use; choose another, or leave it out for a free one"
    )


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["INFO x", "java.lang.RuntimeException: a", "Caused by: b.ConfigException: the cause"],
            "Caused by: b.ConfigException: the cause",
        ),
        (["org.apache.X.KafkaException: first", "org.Y.OtherError: later"], "org.apache.X.KafkaException: first"),
        (["one", "the last line"], "the last line"),
        ([], "its log has no message"),
    ],
)
def test_broker_failing_to_start_is_reported_with_its_log(
    script: type[ScriptRuntime], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: list[str], reason: str
) -> None:
    (tmp_path / "server.log").write_text("Caused by: an.OldException: of an earlier start\n")
    monkeypatch.setattr(script, "text", f"print({chr(10).join(lines)!r}) if {lines!r} else None\nraise SystemExit(7)")
    with pytest.raises(OutsideFailure) as broker_error:
        EmbeddedBroker(data_dir=tmp_path).start()
    assert str(broker_error.value) == (
        f"the broker ended with status 7 while starting: {reason}; see {tmp_path / 'server.log'}"
    )


def test_free_port_taken_by_another_is_tried_three_times(
    script: type[ScriptRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "text", "print('java.net.BindException: Address already in use'); raise SystemExit(1)")
    with pytest.raises(PortInUse, match=r"port \d+ or the controller's port was taken while the broker started"):
        EmbeddedBroker().start()
    assert len(script.starts) == 3
    with pytest.raises(PortInUse):
        EmbeddedBroker(port=free_ports(1)[0]).start()
    assert len(script.starts) == 4


def test_broker_that_never_answers_is_killed_and_reported(
    script: type[ScriptRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_START_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(script, "text", "import time; time.sleep(100)")
    embedded_broker = EmbeddedBroker()
    with pytest.raises(OutsideFailure, match=r"\(its port \d+ is not open\); see .*server\.log"):
        embedded_broker.start()
    assert not embedded_broker.running
    embedded_broker.close()
    monkeypatch.setattr(broker.runtime, "is_open", lambda _: True)
    MemoryKafka(monkeypatch).away = True
    with pytest.raises(OutsideFailure, match=r"does not answer after a minute \(broker is away\)"), EmbeddedBroker():
        pass


def test_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutsideFailure, match=r"--data-dir .*/file: (Not a directory|File exists)"):
        EmbeddedBroker(data_dir=tmp_path / "file").start()
