"""The command ``run`` starts the three components with its options, and ends them together."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from assignors.errors import OutsideFailure
from streaming.freshness import ComponentHeartbeat, encode_heartbeat
from streaming.process import children
from streaming.spark.checkpoint import LocalCheckpoint
from tests.support.background import run_in_background
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, stopped_when


class FakeComponent:
    """A fake child process that records its start and its end."""

    started: list[list[str]] = []  # noqa: RUF012 - emptied for each test
    ended: list[str] = []  # noqa: RUF012 - same
    awaited_components: list[str] = []  # noqa: RUF012 - same
    crashing_component = ""
    can_restart = False

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name = name
        self.started.append([name, *words])

    def check(self) -> None:
        if self.name == self.crashing_component:
            raise OutsideFailure(f"{self.name} ended with status 3; its error is above")

    def terminate(self) -> None:
        self.ended.append(self.name)

    def wait(self) -> int:
        assert len(self.ended) == len(self.started)
        self.awaited_components.append(self.name)
        return 0


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, kafka: MemoryKafka) -> type[FakeComponent]:
    monkeypatch.setattr(children, "Child", FakeComponent)
    for name, value in (("started", []), ("ended", []), ("awaited_components", []), ("crashing_component", "")):
        monkeypatch.setattr(FakeComponent, name, value)
    return FakeComponent


def test_components_get_options_and_stop_in_reverse_order(
    command: Command, parts: type[FakeComponent], kafka: MemoryKafka, tmp_path: Path
) -> None:
    words = ("--bootstrap-servers", "k:1", "--topic-prefix", "p.", "--log-format", "json", "--verbose")
    own = ("--checkpoint", str(tmp_path / "c"), "--coordinator-log", "a.log", "--coordinator-log", "b.log")
    with stopped_when(lambda: len(parts.started) == 3):
        status, _, _ = command("run", *own, *words, "--port", "1234")
    common = ["--log-format", "json", "--bootstrap-servers", "k:1", "--topic-prefix", "p.", "--verbose"]
    logs = ["--coordinator-log", "a.log", "--coordinator-log", "b.log"]
    assert status == 0
    assert parts.started == [
        ["collect", "streaming", "collect", *common, *logs],
        ["stream", "streaming", "stream", *common, "--checkpoint", str(tmp_path / "c")],
        ["serve", "streaming", "serve", *common, "--port", "1234"],
    ]
    assert parts.ended == ["serve", "stream", "collect"]
    assert parts.awaited_components == parts.ended, "all are asked to end before one is waited for"
    assert "p.rebalance.membership" in kafka.topics


def test_port_in_use_prevents_any_component_start(
    command: Command, parts: type[FakeComponent], kafka: MemoryKafka
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        port = listening_socket.getsockname()[1]
        status, _, errors = command("run", "--port", str(port))
    assert (status, parts.started, kafka.topics) == (3, [], {})
    assert f"--port {port}: Address already in use" in errors


def test_checkpoint_in_use_prevents_any_component_start(
    command: Command, parts: type[FakeComponent], tmp_path: Path
) -> None:
    with LocalCheckpoint(str(tmp_path)):
        status, _, errors = command("run", "--port", "0", "--checkpoint", str(tmp_path))
    assert (status, parts.started) == (3, [])
    assert str(tmp_path) in errors


def heartbeat(kafka: MemoryKafka, state: Literal["running", "stopped"] = "running") -> None:
    now = time.time_ns() // 1_000_000
    heartbeat = ComponentHeartbeat(
        part="collector", id="rebalance-monitor-collector", state=state, timestamp=now, up_to=now, every_ms=100
    )
    key, value, headers = encode_heartbeat(heartbeat)
    kafka.append("rebalance.signs", value, key=key, headers=headers, timestamp=now)


def test_a_second_run_does_not_end_a_running_collector(
    command: Command, parts: type[FakeComponent], kafka: MemoryKafka
) -> None:
    kafka.create("rebalance.signs", 1)
    heartbeat(kafka)
    with run_in_background(lambda stop: [heartbeat(kafka) for _ in iter(lambda: stop.wait(0.05), True)]):
        status, _, errors = command("run", "--port", "0")
        assert (status, parts.started) == (3, [])
        assert "rebalance-monitor-collector is running" in errors
        assert "--take-over" in errors
        parts.crashing_component = "collect"
        assert command("run", "--port", "0", "--take-over")[0] == 3
        assert len(parts.started) == 3


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_crashed_or_stopped_collector_does_not_prevent_start(
    command: Command, parts: type[FakeComponent], kafka: MemoryKafka, state: Literal["running", "stopped"]
) -> None:
    kafka.create("rebalance.signs", 1)
    heartbeat(kafka, state)
    parts.crashing_component = "collect"
    command("run", "--port", "0")
    assert len(parts.started) == 3


def test_component_that_ends_by_itself_ends_the_others(command: Command, parts: type[FakeComponent]) -> None:
    parts.crashing_component = "stream"
    assert command("run", "--port", "0") == (3, "", "error: stream ended with status 3; its error is above\n")
    assert parts.ended == ["serve", "stream", "collect"]
