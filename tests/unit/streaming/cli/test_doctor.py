"""The command ``doctor`` prints one line per check, in text or JSON, and returns an exit status."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from assignors.errors import OutsideFailure
from assignors.registry import NATIVE_FUNCTIONS
from streaming.cli import doctor
from streaming.cli.doctor import AssignmentCode, CheckResult, assignment_code
from streaming.kafka.jars import NoJava
from streaming.kafka.topics import ensure_topics
from streaming.settings.config import load
from tests.support.memory_kafka import MemoryKafka
from tests.support.offsets_topic import GOLDEN
from tests.unit.streaming.cli.conftest import Command


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Simulate a host with Java and all downloads."""
    monkeypatch.setattr(doctor, "java", lambda: (Path("/java"), 21))
    monkeypatch.setattr(doctor, "kafka_connector", lambda: [tmp_path] * 7)
    monkeypatch.setattr(doctor, "assignment_code", lambda: AssignmentCode("native", is_chosen=True))


@pytest.mark.usefixtures("machine")
def test_all_checks_pass_on_a_complete_machine(command: Command, kafka: MemoryKafka, tmp_path: Path) -> None:
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
def test_failed_checks_are_named_and_exit_with_3(command: Command, kafka: MemoryKafka) -> None:
    command("topics", "--create")
    kafka.delete("rebalance.diffs")
    kafka.topics["rebalance.assignments"].config["cleanup.policy"] = "delete"
    kafka.deny("rebalance.membership", "WRITE")
    status, out, _ = command("doctor", "--json")
    assert status == 3
    findings = [json.loads(line) for line in out.splitlines()]
    failed_checks = [(finding["check"], finding["text"][:60]) for finding in findings if not finding["ok"]]
    user = "cluster 127.0.0.1:9092: user 'ANONYMOUS' may not write topic "
    assert (
        failed_checks
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


def replace_installed_functions(monkeypatch: pytest.MonkeyPatch, *functions: str) -> None:
    monkeypatch.setitem(sys.modules, "rebalance_kernel", SimpleNamespace(**dict.fromkeys(functions)))


def hide_native_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make the native code impossible to import; return the path of the file that records a failed build."""
    monkeypatch.delitem(sys.modules, "rebalance_kernel", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(doctor, "_FAILED_BUILD_MARK", tmp_path / "without-kernel")
    return tmp_path / "without-kernel"


def test_all_native_functions_are_present(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_installed_functions(monkeypatch, *NATIVE_FUNCTIONS, "something_newer")
    assert assignment_code() == AssignmentCode("native", is_chosen=True)


def test_native_code_of_another_release_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "in Python, as the native code is of another release and lacks"
    for there, text in (
        (NATIVE_FUNCTIONS[:-1], f"partly {reason} {NATIVE_FUNCTIONS[-1]};"),
        ((), f"{reason} client_shares, range_target,"),
    ):
        replace_installed_functions(monkeypatch, *there)
        finding = assignment_code()
        assert (finding.text.startswith(text), finding.is_chosen) == (True, False)


def test_native_code_that_fails_to_load_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_native_code(monkeypatch, tmp_path)
    (tmp_path / "rebalance_kernel.py").write_text('raise ImportError("libc is too old")\n')
    assert assignment_code() == AssignmentCode(
        "in Python, as the native code does not load (libc is too old); run `make packages`", is_chosen=False
    )


def test_missing_native_code_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed = hide_native_code(monkeypatch, tmp_path)
    assert assignment_code() == AssignmentCode(
        "in Python; with cargo installed, `make packages` builds the native code", is_chosen=True
    )
    failed.touch()
    assert assignment_code() == AssignmentCode(
        "in Python, as kernel/ could not be built; `make packages` shows why", is_chosen=False
    )


def make_checkpoint(folder: Path) -> None:
    (folder / "offsets").mkdir()
    (folder / "metadata").write_text("{}")


@pytest.mark.parametrize("missing_file", ["offsets", "metadata"])
def test_incomplete_checkpoint_is_rejected(tmp_path: Path, missing_file: str) -> None:
    make_checkpoint(tmp_path)
    (tmp_path / missing_file).rename(tmp_path / "elsewhere")
    finding = doctor._check_checkpoint(tmp_path)
    assert (finding.ok, "has files that are not" in finding.text) == (False, True)


def test_path_that_is_no_checkpoint_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    assert "has files that are not" in doctor._check_checkpoint(tmp_path).text
    assert "no folder that this user can write to" in doctor._check_checkpoint(tmp_path / "notes.txt").text


def test_new_and_existing_checkpoint_are_valid(tmp_path: Path) -> None:
    assert doctor._check_checkpoint(tmp_path / "new" / "deeper").ok is True
    make_checkpoint(tmp_path)
    assert doctor._check_checkpoint(tmp_path) == CheckResult("checkpoint", True, f"{tmp_path}: writable")


def test_outgrown_checkpoint_is_valid_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_checkpoint(tmp_path)
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
    findings = {finding.check: finding for finding in doctor.run_checks(load(), None)}
    assert [check for check, finding in findings.items() if finding.ok] == ["spark", "jars", "assignments"]
    assert [check for check, finding in findings.items() if finding.ok is None] == ["permissions", "topics"]
    assert [check for check, finding in findings.items() if finding.ok is False] == ["java", "broker"]
    assert "install it" in findings["java"].text


def test_doctor_passes_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "assignment_code", lambda: AssignmentCode("in Python", False))
    monkeypatch.setattr(doctor, "_run_check", lambda check, _: [CheckResult(check, False, "")])
    assert CheckResult("assignments", True, "in Python") in list(doctor.run_checks(load(), None))


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
