"""The command ``broker``: arguments, output, and the end of the process; integration tests run real brokers."""

import json
import threading
from pathlib import Path
from typing import Any, Self

import pytest

from streaming.kafka import broker
from streaming.process import service
from tests.unit.streaming.cli.conftest import Command


class FakeBroker:
    options: dict[str, Any] = {}  # noqa: RUF012 - emptied for each test
    running = True
    bootstrap_servers, log_path, pid = "127.0.0.1:1234", Path("/logs/server.log"), 77

    def __init__(self, **options: Any) -> None:
        type(self).options = options

    def wait(self) -> int:
        return 137

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the fake has no process to stop."""


@pytest.fixture
def short_broker(monkeypatch: pytest.MonkeyPatch) -> type[FakeBroker]:
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(service, "stop_on_signals", lambda: stop)
    monkeypatch.setattr(broker, "EmbeddedBroker", FakeBroker)
    monkeypatch.setattr(FakeBroker, "options", {})
    return FakeBroker


def test_broker_defaults_to_a_free_port_and_temporary_folder(command: Command, short_broker: type[FakeBroker]) -> None:
    assert command("broker") == (0, "Kafka 4.3.1 at 127.0.0.1:1234, log /logs/server.log\n", "")
    assert short_broker.options == {"port": None, "data_dir": None, "version": "4.3.1", "properties": {}}


def test_broker_options_reach_the_embedded_broker(
    command: Command, short_broker: type[FakeBroker], tmp_path: Path
) -> None:
    words = ("--port", "9092", "--data-dir", str(tmp_path), "--version", "3.9.0", "--json")
    status, out, _ = command("broker", *words, "--property", "a.b=c=d", "--property", "e=")
    assert (status, json.loads(out)) == (
        0,
        {"bootstrapServers": "127.0.0.1:1234", "log": "/logs/server.log", "pid": 77},
    )
    assert short_broker.options == {
        "port": 9092,
        "data_dir": tmp_path,
        "version": "3.9.0",
        "properties": {"a.b": "c=d", "e": ""},
    }


@pytest.mark.parametrize("text", ["a.b", "=c", ""])
def test_property_without_name_or_value_is_refused(command: Command, short_broker: type[FakeBroker], text: str) -> None:
    assert command("broker", "--property", text) == (2, "", f"error: --property {text}: NAME=VALUE is needed\n")
    assert short_broker.options == {}


def test_broker_that_ends_by_itself_is_reported(
    command: Command, short_broker: type[FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "stop_on_signals", threading.Event)
    monkeypatch.setattr(short_broker, "running", False)
    status, _, errors = command("broker")
    assert (status, errors) == (3, "error: the broker ended with status 137; see /logs/server.log\n")
