import os
from pathlib import Path

import pytest

from assignors.errors import OutsideFailure
from streaming.cli import doctor
from streaming.cli.doctor import AssignmentCode, CheckResult
from streaming.kafka.jars import NoJava
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import load
from tests.support.memory_kafka import MemoryKafka
from tests.support.offsets_topic import GOLDEN


@pytest.mark.parametrize("missing_file", ["offsets", "metadata"])
def test_incomplete_checkpoint_is_rejected(tmp_path: Path, missing_file: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text("{}")
    (tmp_path / missing_file).rename(tmp_path / "elsewhere")
    finding = doctor._check_checkpoint(tmp_path)
    assert (finding.ok, "has files that are not" in finding.text) == (False, True)


def test_path_that_is_no_checkpoint_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    assert "has files that are not" in doctor._check_checkpoint(tmp_path).text
    assert "no folder that this user can write to" in doctor._check_checkpoint(tmp_path / "notes.txt").text


def test_new_and_existing_checkpoint_are_valid(tmp_path: Path) -> None:
    assert doctor._check_checkpoint(tmp_path / "new" / "deeper").ok is True
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text("{}")
    assert doctor._check_checkpoint(tmp_path) == CheckResult("checkpoint", True, f"{tmp_path}: writable")


def test_outgrown_checkpoint_is_valid_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text("{}")
    monkeypatch.setattr(doctor, "resize_advice", lambda _: "its state has outgrown its 16 buckets")
    finding = doctor._check_checkpoint(tmp_path)
    assert (finding.ok, finding.text) == (True, f"{tmp_path}: writable, but its state has outgrown its 16 buckets")


def test_checks_of_the_cluster_are_skipped_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_find_java() -> tuple[Path, int]:
        raise NoJava

    def raise_on_connect(_: object) -> str:
        raise doctor.MonitorError("nobody there")

    monkeypatch.setattr(doctor, "java", fail_to_find_java)
    monkeypatch.setattr(doctor, "kafka_connector", list)
    monkeypatch.setattr(doctor, "check_reachable", raise_on_connect)
    findings_by_check = {finding.check: finding for finding in doctor.run_checks(load(), None)}
    assert {check: finding.ok for check, finding in findings_by_check.items()} == {
        "java": False,
        "jars": True,
        "spark": True,
        "assignments": True,
        "broker": False,
        "permissions": None,
        "topics": None,
    }
    assert "install it" in findings_by_check["java"].text


def test_doctor_passes_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "assignment_code", lambda: AssignmentCode("in Python, as it is of another release", False)
    )
    monkeypatch.setattr(doctor, "_run_check", lambda check, _: [CheckResult(check, False, "")])
    assert CheckResult("assignments", True, "in Python, as it is of another release") in list(
        doctor.run_checks(load(), None)
    )


def test_missing_optional_permission_is_reported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    ensure_topics(load(), load().topics.made)
    for name in ("__consumer_offsets", load().topics.ticks):
        kafka.create(name)
    assert [finding.ok for finding in doctor._check_permissions(load())] == [True]
    kafka.deny("rebalance.signs", "READ")
    (finding,) = doctor._check_permissions(load())
    assert (finding.ok, "may not read topic rebalance.signs, which serve uses" in finding.text) == (False, True)


GOLDEN_LOG = GOLDEN / "coordinator-4.3.1.log"


def test_readable_broker_log_passes_the_check() -> None:
    assert doctor._check_coordinator_log(GOLDEN_LOG) == CheckResult(
        "log", True, f"{GOLDEN_LOG}: 72 of 73 lines understood"
    )


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "10:00 INFO [GroupCoordinator 1]: Stabilized group g generation 1 (__consumer_offsets-7)",
            ["none of 1 messages has a timestamp that can be read"],
        ),
        ("GET / 200\n", ["none of 1 lines is a group coordinator's message", "such as: GET / 200"]),
    ],
)
def test_unusable_broker_log_is_reported(tmp_path: Path, text: str, problems: list[str]) -> None:
    (tmp_path / "server.log").write_text(text)
    finding = doctor._check_coordinator_log(tmp_path / "server.log")
    assert (finding.ok, [problem in finding.text for problem in problems]) == (False, [True] * len(problems))


def test_device_as_broker_log_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OutsideFailure, match="not a regular file"):
        doctor._check_coordinator_log(tmp_path / "fifo")
    assert "no such file" in doctor._check_coordinator_log(tmp_path / "gone").text
