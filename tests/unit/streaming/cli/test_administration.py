"""The commands ``broker``, ``config``, ``topics`` and ``dlt``."""

import json
import threading
import tomllib
from base64 import b64encode
from pathlib import Path
from typing import cast
from unittest.mock import MagicMock

import pytest

from streaming.kafka import broker
from streaming.process import service
from streaming.records.codec import MalformedEvent
from streaming.records.dead_letters import dead_letter_headers
from streaming.settings.config import load
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command


@pytest.fixture
def embedded_broker(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Replace the embedded broker by a fake, and let the command end at once."""
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(service, "stop_on_signals", lambda: stop)
    running = MagicMock(bootstrap_servers="127.0.0.1:1234", log_path=Path("/logs/server.log"), pid=77)
    monkeypatch.setattr(broker, "EmbeddedBroker", MagicMock(**{"return_value.__enter__.return_value": running}))
    return cast("MagicMock", broker.EmbeddedBroker)


def test_broker_defaults_to_a_free_port_and_temporary_folder(command: Command, embedded_broker: MagicMock) -> None:
    assert command("broker") == (0, "Kafka 4.3.1 at 127.0.0.1:1234, log /logs/server.log\n", "")
    embedded_broker.assert_called_once_with(port=None, data_dir=None, version="4.3.1", properties={})


def test_broker_options_reach_the_embedded_broker(command: Command, embedded_broker: MagicMock, tmp_path: Path) -> None:
    words = ("--port", "9092", "--data-dir", str(tmp_path), "--version", "3.9.0", "--json")
    status, out, _ = command("broker", *words, "--property", "a.b=c=d", "--property", "e=")
    started = {"bootstrapServers": "127.0.0.1:1234", "log": "/logs/server.log", "pid": 77}
    assert (status, json.loads(out)) == (0, started)
    properties = {"a.b": "c=d", "e": ""}
    embedded_broker.assert_called_once_with(port=9092, data_dir=tmp_path, version="3.9.0", properties=properties)


@pytest.mark.parametrize("text", ["a.b", "=c", ""])
def test_property_without_name_or_value_is_refused(command: Command, embedded_broker: MagicMock, text: str) -> None:
    assert command("broker", "--property", text) == (2, "", f"error: --property {text}: NAME=VALUE is needed\n")
    embedded_broker.assert_not_called()


def test_broker_that_ends_by_itself_is_reported(
    command: Command, embedded_broker: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "stop_on_signals", threading.Event)
    ended = embedded_broker.return_value.__enter__.return_value
    ended.running, ended.wait.return_value = False, 137
    status, _, errors = command("broker")
    assert (status, errors) == (3, "error: the broker ended with status 137; see /logs/server.log\n")


def test_config_show_prints_all_settings_with_masked_secrets(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.toml"
    file.write_text(
        '[kafka]\nbootstrap_servers = "k:1"\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\n'
        'sasl_username = "u"\nsasl_password = "hush"\n'
    )
    _, shown, errors = command("config", "show", "--config", str(file), "--topic-prefix", "p.")
    assert errors == ""
    assert "hush" not in shown
    settings = tomllib.loads(shown)
    assert (settings["kafka"]["bootstrap_servers"], settings["topics"]["prefix"]) == ("k:1", "p.")
    _, answer, _ = command("config", "show", "--config", str(file), "--topic-prefix", "p.", "--json")
    empty: dict[str, list[object]] = {"notify": [], "slo": [], "clusters": []}  # TOML has no empty list of tables
    assert json.loads(answer) == settings | empty
    expected = load(file, topic_prefix="p.").model_dump(mode="json", exclude_none=True)
    assert settings | empty == expected


def test_config_check_prints_the_cluster(command: Command, kafka: MemoryKafka) -> None:
    line = "ok: cluster memory at k:1 (PLAINTEXT)\n"
    assert command("config", "check", "--bootstrap-servers", "k:1") == (0, line, "")


NAMES = [
    f"p.rebalance.{name}"
    for name in ("membership", "diffs", "assignments", "membership-dlt", "episodes", "incidents", "signs")
]


def test_missing_topics_are_shown_and_created_on_request(command: Command, kafka: MemoryKafka) -> None:
    words = ("topics", "--topic-prefix", "p.")
    status, out, _ = command(*words)
    assert (status, [line.split()[1] for line in out.splitlines() if "missing" in line]) == (1, NAMES)
    assert not kafka.topics
    status, out, errors = command(*words, "--create", "--json")
    assert (status, errors) == (0, "")
    assert [json.loads(line) for line in out.splitlines()][2] == {
        "name": NAMES[2],
        "holds": "latest assignment of each group",
        "wantedCleanupPolicy": "compact",
        "partitions": 4,
        "replicationFactor": 1,
        "cleanupPolicy": "compact",
        "maxMessageBytes": 10485760,
    }
    status, out, _ = command(*words)
    assert status == 0
    rows = [line.replace("│", " ").split() for line in out.splitlines() if "ok" in line]
    policies = ("delete", "delete", "compact", "delete", "compact,delete", "compact,delete", "compact")
    partitions = ("4", "4", "4", "4", "4", "4", "1")
    assert rows == [[*row, "1", "ok"] for row in zip(NAMES, policies, partitions, strict=True)]


def test_wrong_cleanup_policy_is_shown_with_its_remedy(command: Command, kafka: MemoryKafka) -> None:
    kafka.create("rebalance.assignments")
    status, out, _ = command("topics")
    assert status == 1
    assert "wrong cleanup policy" in out
    assert out.splitlines()[-1].startswith("topic rebalance.assignments: cleanup.policy is delete, compact is needed")
    status, out, errors = command("topics", "--create")
    assert (status, out, errors.startswith("error: topic rebalance.assignments: cleanup.policy")) == (2, "", True)


MEMBERSHIP_TOPIC, DEAD_LETTER_TOPIC = "rebalance.membership", "rebalance.membership-dlt"


@pytest.fixture
def letters(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(MEMBERSHIP_TOPIC, 3)
    kafka.create(DEAD_LETTER_TOPIC, 2)
    for number, key in enumerate((b"g", b"\xff", None)):
        headers = dead_letter_headers([("x", b"1")], MalformedEvent("why"), topic="m", partition=2, offset=number)
        kafka.append(DEAD_LETTER_TOPIC, b"v%d" % number, key=key, partition=number % 2, headers=headers)
    return kafka


def test_dead_letters_are_listed_as_table_and_json(command: Command, letters: MemoryKafka) -> None:
    rows = [line.replace("│", " ").split() for line in command("dlt", "list")[1].splitlines() if "Malformed" in line]
    assert rows == [
        ["0:0", "MalformedEvent", "why", "m", "2:0", "g"],
        ["0:1", "MalformedEvent", "why", "m", "2:2"],
        ["1:0", "MalformedEvent", "why", "m", "2:1", "\\xff"],
    ]
    _, out, _ = command("dlt", "list", "--json")
    assert json.loads(out.splitlines()[2]) == {
        "partition": 1,
        "offset": 0,
        "exception": "MalformedEvent",
        "message": "why",
        "sourceTopic": "m",
        "sourcePartition": 2,
        "sourceOffset": 1,
        "key": b64encode(b"\xff").decode(),
        "value": b64encode(b"v1").decode(),
        "headers": [["x", b64encode(b"1").decode()]],
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("words", "sent"), [(["--all"], [b"v0", b"v1", b"v2"]), (["1:0"], [b"v1"]), (["0:1", "0:0"], [b"v0", b"v2"])]
)
def test_selected_or_all_dead_letters_are_published_again(
    command: Command, letters: MemoryKafka, words: list[str], sent: list[bytes]
) -> None:
    assert command("dlt", "resubmit", *words) == (0, f"{len(sent)} published to {MEMBERSHIP_TOPIC}\n", "")
    assert sorted(message.value() or b"" for message in letters.records(MEMBERSHIP_TOPIC)) == sent


@pytest.mark.parametrize("words", [[], ["0:0", "--all"]])
def test_resubmit_without_offsets_or_all_is_refused(command: Command, letters: MemoryKafka, words: list[str]) -> None:
    error = "error: Name the dead letters to publish again: PARTITION:OFFSET …, or --all.\n"
    assert command("dlt", "resubmit", *words) == (2, "", error)
    assert letters.records(MEMBERSHIP_TOPIC) == []
