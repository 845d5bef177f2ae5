"""The command ``demo`` passes its options on and returns an exit status."""

from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from streaming.cli.demo import DemoView
from streaming.demo import runner
from streaming.demo.agreement import ReportComparison
from streaming.demo.runner import DemoSummary
from streaming.process.children import ChildProcesses
from streaming.settings.config import Settings
from tests.unit.streaming.cli.conftest import Command


@pytest.fixture
def demo_calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def run_demo(**options: Any) -> DemoSummary:
        calls.append(options | {"kept": options["folder"].is_dir()})
        return DemoSummary()

    monkeypatch.setattr(runner, "run_demo", run_demo)
    return calls


def test_demo_defaults_to_a_minute_on_an_embedded_broker(command: Command, demo_calls: list[dict[str, Any]]) -> None:
    status, out, _ = command("demo")
    (options,) = demo_calls
    assert (status, "rounds: none" in out) == (0, True)
    assert (options["duration"], options["embedded"]) == (60, True)
    assert options["kept"]
    assert not options["folder"].exists()


def test_demo_options_are_passed_to_run_demo(
    command: Command, demo_calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    words = (
        *("--duration", "5", "--json", "--keep-running"),
        *("--keep", str(tmp_path / "kept"), "--bootstrap-servers", "k:1"),
    )
    assert command("demo", *words) == (0, "", "")
    (options,) = demo_calls
    assert (options["duration"], options["embedded"]) == (5, False)
    assert options["keep_running"]
    assert options["settings"].kafka.bootstrap_servers == "k:1"
    assert options["folder"].is_relative_to(tmp_path / "kept")
    assert options["folder"].exists()


def test_diffs_that_differ_from_callbacks_exit_with_1(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_demo", lambda **_: DemoSummary(agreement=ReportComparison(1, ("c1 has t 0",))))
    assert command("demo", "--json") == (1, "", "the consumers disagree: c1 has t 0\n")


@pytest.mark.parametrize(("keep_running", "polls"), [(False, 0), (True, 3)])
def test_keep_running_reads_diffs_until_stopped(tmp_path: Path, keep_running: bool, polls: int) -> None:
    stop, polled = Event(), count(1)

    class Reader:
        def poll(self, _: float) -> None:
            if next(polled) == 3:
                stop.set()

    run = runner.DemoRun(Settings(), tmp_path, DemoView(as_json=True), stop, {})
    run.run_schedule(0, Reader(), ChildProcesses(), keep_running=keep_running)  # type: ignore[arg-type]
    assert next(polled) == polls + 1
