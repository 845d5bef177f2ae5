import re
from itertools import count

import msgspec
import pytest
from rich.console import Console

from streaming.cli.demo import DemoView
from streaming.cli.stream import report_batches
from streaming.demo.agreement import ReportComparison
from streaming.demo.runner import DemoSummary
from streaming.kafka.diff_reader import DiffRecord
from streaming.process.terminal import console
from streaming.records.diffs import Cause
from streaming.spark import progress
from streaming.spark.progress import BatchReport
from tests.support.histories import sample

DIFF = sample()
DIFF_RECORD = DiffRecord("id", DIFF, msgspec.json.format(msgspec.json.encode(DIFF), indent=2), 0, 0)
KINDS = (*["member.joined"] * 2, *["member.fenced"] * 3, "made.up")
GROUPS = (*["orders"] * 4, *["eager"] * 2)
ROUNDS = [sample(cause=Cause(kind=kind), group_id=group) for kind, group in zip(KINDS, GROUPS, strict=True)]
DEMO_SUMMARY = DemoSummary(
    [*ROUNDS, sample(cause=Cause(kind="group.deleted"), group_id="eager", round=2, moved=9)], ReportComparison(5, ())
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make standard output and standard error look like a terminal of 100 columns."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "100"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)


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


BATCH_REPORT = BatchReport(number=1, events=1200, diffs=3, lag=4500)


def test_batches_are_logged_without_a_terminal_if_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[BatchReport] = []
    monkeypatch.setattr(progress, "log_batch", logged.append)
    for every_batch in (False, True):
        with report_batches(prints_every_batch=every_batch) as report:
            report(BATCH_REPORT)
        assert logged == [BATCH_REPORT] * every_batch


@pytest.mark.usefixtures("terminal")
def test_terminal_status_has_totals_of_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    screen = console(stderr=True)
    status = screen.status("")
    monkeypatch.setattr(status, "update", lambda text: shown.append(text.plain))
    monkeypatch.setattr(Console, "status", lambda *_: status)
    with report_batches(prints_every_batch=False) as report:
        for done in (BATCH_REPORT, BatchReport(events=800, diffs=2, lag=0), BatchReport()):
            report(done)
    assert shown == ["1,200 events, 3 diffs, 4,500 behind", "2,000 events, 5 diffs", "2,000 events, 5 diffs"]
