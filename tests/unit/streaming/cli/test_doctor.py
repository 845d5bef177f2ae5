"""``doctor``: a line for each check, in text and JSON, and an exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from streaming.cli import doctor
from streaming.cli.doctor import AssignmentCode
from tests.support.memory_kafka import MemoryKafka

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with Java and all downloads."""
    monkeypatch.setattr(doctor, "java", lambda: (Path("/java"), 21))
    monkeypatch.setattr(doctor, "kafka_connector", lambda: [tmp_path] * 7)
    monkeypatch.setattr(doctor, "assignment_code", lambda: AssignmentCode("native", is_intended=True))


@pytest.mark.usefixtures("machine")
def test_complete_machine_has_only_ok_lines(command: Command, kafka: MemoryKafka, tmp_path: Path) -> None:
    command("topics", "--create")
    kafka.create("__consumer_offsets")
    status, out, errors = command("doctor", "--checkpoint", str(tmp_path / "new"))
    assert (status, errors) == (0, "")
    assert out.splitlines() == [
        "ok  java         Java 21 at /java",
        f"ok  spark        PySpark {version('pyspark')}",
        "ok  jars         7 jars of Spark's connector",
        "ok  assignments  native",
        "ok  broker       cluster memory",
        "ok  permissions  collect, stream, serve have the permissions they need",
        "ok  topics       7 topics with the right cleanup policies",
        f"ok  checkpoint   {tmp_path}/new: `stream` will create it",
    ]


@pytest.mark.usefixtures("machine")
def test_missing_parts_are_named_and_the_status_is_3(command: Command, kafka: MemoryKafka) -> None:
    command("topics", "--create")
    kafka.delete("rebalance.diffs")
    kafka.topics["rebalance.assignments"].config["cleanup.policy"] = "delete"
    kafka.deny("rebalance.membership", "WRITE")
    status, out, _ = command("doctor", "--json")
    assert status == 3
    found = [json.loads(line) for line in out.splitlines()]
    lacking = [(one["check"], one["text"][:60]) for one in found if not one["ok"]]
    user = "cluster 127.0.0.1:9092: user 'ANONYMOUS' may not write topic "
    assert (
        lacking
        == [
            ("permissions", user[:60]),  # permissions of collect
            ("permissions", user[:60]),  # permissions of stream
            ("topics", "topic rebalance.assignments: cleanup.policy is delete, compact"[:60]),
            ("topics", "missing, or hidden from this user: rebalance.diffs; `rebalanebalance"[:60]),
        ]
    )


@pytest.mark.usefixtures("machine")
def test_topics_without_describe_permission_are_reported(command: Command, kafka: MemoryKafka) -> None:
    command("topics", "--create")
    kafka.deny("rebalance.diffs", "DESCRIBE_CONFIGS")
    status, out, _ = command("doctor")
    (line,) = (line for line in out.splitlines() if line.startswith("!!  topics"))
    assert (status, "may not describe the configuration of topic rebalance.diffs" in line) == (3, True)


def test_checkpoint_without_write_permission(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    found = doctor._checkpoint(file)
    assert (found.ok, found.text) == (False, f"{file}: no folder that this user can write to; choose another")
    for names in (["metadata"], ["offsets"]):
        folder = tmp_path / names[0]
        folder.mkdir()
        (folder / names[0]).mkdir()
        assert doctor._checkpoint(folder).ok is False
    (tmp_path / "empty").mkdir()
    assert doctor._checkpoint(tmp_path / "empty").ok is True
