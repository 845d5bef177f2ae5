"""The command ``doctor`` prints one line per check, in text or JSON, and returns an exit status."""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from assignors.registry import NATIVE_FUNCTIONS
from streaming.cli import doctor
from streaming.cli.doctor import AssignmentCode, assignment_code
from tests.support.memory_kafka import MemoryKafka
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


@pytest.mark.parametrize(
    ("there", "text"),
    [
        (
            NATIVE_FUNCTIONS[:-1],
            f"partly in Python, as the native code is of another release and lacks {NATIVE_FUNCTIONS[-1]};",
        ),
        ((), "in Python, as the native code is of another release and lacks client_shares, range_target,"),
    ],
)
def test_native_code_of_another_release_is_reported(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], text: str
) -> None:
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
