"""The command ``demo``: its options, output and exit status."""

import re
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from streaming.cli.demo import DemoView
from streaming.demo import runner
from streaming.demo.agreement import ReportComparison
from streaming.demo.runner import DemoSummary
from streaming.kafka.diff_reader import DiffRecord
from streaming.process.children import ChildProcesses
from streaming.records.diffs import Cause
from streaming.settings.config import Settings
from tests.support.histories import sample
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


DIFF = sample()
DIFF_RECORD = DiffRecord("id", DIFF, msgspec.json.format(msgspec.json.encode(DIFF), indent=2), 0, 0)
KINDS = (*["member.joined"] * 2, *["member.fenced"] * 3, "made.up")
GROUPS = (*["orders"] * 4, *["eager"] * 2)
ROUNDS = [sample(cause=Cause(kind=kind), group_id=group) for kind, group in zip(KINDS, GROUPS, strict=True)]
DEMO_SUMMARY = DemoSummary(
    [*ROUNDS, sample(cause=Cause(kind="group.deleted"), group_id="eager", round=2, moved=9)], ReportComparison(5, ())
)


def view(*, as_json: bool) -> DemoView:
    """Return the terminal output of a demo, with a fake clock that advances by 2.5 s at each reading."""
    return DemoView(as_json=as_json, clock=count(0.0, 2.5).__next__)


def show_three_batches(shown: DemoView) -> None:
    with shown:
        shown.stage("start")
        shown.stage("the page: http://127.0.0.1:1/")
        shown.step("c1 joins")
        shown.diff(DIFF_RECORD)
    shown.summary(DEMO_SUMMARY)


def test_json_output_contains_only_diffs(capsys: pytest.CaptureFixture[str]) -> None:
    show_three_batches(view(as_json=True))
    out, errors = capsys.readouterr()
    assert (out, errors) == (msgspec.json.encode(DIFF).decode() + "\n", "")


@pytest.mark.usefixtures("terminal")
def test_piped_diffs_keep_the_status_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_three_batches(view(as_json=True))
    out, errors = capsys.readouterr()
    assert out.count("\n") == 1
    lines = [line.strip() for line in re.sub(r"\x1b\[\w+", "", errors).splitlines()]
    assert [line for line in lines if line] == ["2.5 s  start", "5.0 s  the page: http://127.0.0.1:1/", "› c1 joins"]


def test_text_output_has_steps_diffs_and_summary(capsys: pytest.CaptureFixture[str]) -> None:
    show_three_batches(view(as_json=False))
    out, errors = capsys.readouterr()
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[:3] == ["  2.5 s  start", "  5.0 s  the page: http://127.0.0.1:1/", "› c1 joins"]
    assert lines[3].endswith("g generation 1  c1 joined")
    assert lines[4:] == [
        "  c1  + t 0-2",
        "",
        "Rebalances by cause",
        "cause       rebalances",
        "was fenced           3",
        "joined               2",
        "made.up              1",
        "rounds: eager 3, orders 4; partitions moved: 9",
        "compared with the consumers' own callbacks 5 times: all agree",
        "",
        "next: rebalance-monitor run --bootstrap-servers HOST:PORT   your own cluster",
        "      rebalance-monitor demo --keep-running                   the same, with time for the page",
    ]
    assert errors == ""


@pytest.mark.parametrize("as_json", [True, False])
def test_disagreement_is_reported_as_text_and_with_json(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    DemoView(as_json=as_json).summary(DemoSummary(agreement=ReportComparison(2, ("c1 has t 0", "c2 has t 1"))))
    out, errors = capsys.readouterr()
    assert errors.splitlines() == ["the consumers disagree: c1 has t 0", "the consumers disagree: c2 has t 1"]
    assert ("2 times: 2 differ" in out) is not as_json
    assert ("rounds: none; partitions moved: 0" in out) is not as_json


def test_demo_summary_omits_what_does_not_apply(capsys: pytest.CaptureFixture[str]) -> None:
    DemoView(as_json=False).summary(DemoSummary(), keep_running=True)
    out = capsys.readouterr().out
    assert ("--keep-running" in out, "compared" in out) == (False, False)
