"""A recording that ``record`` wrote gives the same output, byte for byte, on a machine without a cluster."""

import json
from pathlib import Path

import pytest

from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.histories import Log
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))


@pytest.fixture
def log(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster with the log of group ``orders``: topics at 1 s, then joins of c1 and c2, and a leave of c1."""
    ensure_topics(SETTINGS)
    for group in ("orders", "other"):
        g = Log(group)
        kafka.publish(g.topics(t=4), g.join("c1"), g.join("c2"), g.leave("c1"))
    return kafka


def record(command: Command, file: Path, *words: str) -> tuple[int, str, str]:
    return command("record", "orders", "-o", str(file), *words)


def test_a_recording_replays_without_a_cluster(command: Command, log: MemoryKafka, tmp_path: Path) -> None:
    file = tmp_path / "a.rmlog"
    lines = command("replay", "--group", "orders", "--json")[1].splitlines()
    live = [line for line in lines if json.loads(line)["timestamp"] >= 3000]
    status, out, errors = record(command, file, "--from", "3000", "--to", "1970-01-01T00:00:04Z")
    assert (status, out.startswith(f"{file}: 4 events and ")) == (0, True)
    assert "3 published diffs differ" in errors
    assert file.stat().st_mode & 0o777 == 0o600
    log.topics.clear()
    assert command("replay", str(file), "--json") == (0, "\n".join([*live, ""]), "")
    assert command("replay", str(file), "--check") == (0, "", "no differences\n")
    lines = command("replay", str(file))[1].splitlines()
    assert ["orders  settled " in lines[0], " generation 2 " in lines[1]] == [True, True]


def test_publish_writes_the_recorded_events(command: Command, log: MemoryKafka, tmp_path: Path) -> None:
    file, topic = tmp_path / "a.rmlog", f"x.{SETTINGS.topics.membership}"
    record(command, file)
    ensure_topics(Settings(kafka=SETTINGS.kafka, topics=SETTINGS.topics.model_copy(update={"prefix": "x."})))
    status, out, _ = command("replay", str(file), "--publish", "--topic-prefix", "x.")
    assert (status, out) == (0, f"4 events written to {topic}\n")
    assert command("replay", "--topic-prefix", "x.", "--json")[1] == command("replay", str(file), "--json")[1]
    for option in ("--page", "--publish"):
        assert command("replay", option) == (2, "", f"error: {option}: needs the FILE of a recording\n")


def test_anonymised_recording_has_no_names(command: Command, log: MemoryKafka, tmp_path: Path) -> None:
    file = tmp_path / "a.rmlog"
    status, out, _ = record(command, file, "--anonymise")
    assert (status, "orders" in out) == (0, False)
    diffs = command("replay", str(file), "--json")[1]
    assert ("orders" in diffs, len(diffs.splitlines())) == (False, 3)


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "5000"), "group orders: the membership topic has no event of it in that time"),
        (("-o", "{}/no/a.rmlog"), "--output {}/no/a.rmlog: No such file or directory"),
    ],
)
def test_recordings_are_refused_with_a_reason(
    command: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    words = tuple(word.format(tmp_path) for word in words)
    status, out, errors = record(command, tmp_path / "a.rmlog", *words)
    assert (status, out, errors.splitlines()[-1]) == (2, "", f"error: {message.format(tmp_path)}")


def test_a_damaged_recording_is_refused(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.rmlog"
    file.write_bytes(b"x" * 100)
    status, out, errors = command("replay", str(file))
    assert (status, out, errors.startswith(f"error: {file}: is not a recording: ")) == (2, "", True)
    assert command("replay", str(tmp_path))[2] == f"error: {tmp_path}: Is a directory\n"
