import io
import sys
from types import SimpleNamespace

import pytest

from streaming.cli import output
from streaming.cli.output import writer

ASSIGNMENT_ANSWER = {"assignment": {"c": {"t": [0]}}}


@pytest.mark.parametrize(
    ("as_json", "as_table", "terminal", "is_json"),
    [(False, False, False, True), (True, True, True, True), (False, True, False, False), (False, False, True, False)],
)
def test_pipe_gets_json_and_terminal_gets_tables(
    *,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    as_json: bool,
    as_table: bool,
    terminal: bool,
    is_json: bool,
) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: terminal, raising=False)
    writer("assignment", as_json=as_json, as_table=as_table)(ASSIGNMENT_ANSWER)
    out = capfd.readouterr().out
    assert (out == '{"assignment":{"c":{"t":[0]}}}\n') is is_json
    assert ("assignment" in out and "partitions" in out) is not is_json


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("screen", "times", "text"),
    [
        (FakeTerminal(), [0.0, 0.5, 1.9], ""),
        (FakeTerminal(), [0.0, 0.5, 2.1, 2.1], "\r2,000 keys placed\r\x1b[K"),
        (io.StringIO(), [0.0], ""),
    ],
)
def test_progress_is_shown_on_a_terminal_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, screen: io.StringIO, times: list[float], text: str
) -> None:
    clock = iter(times)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with output.Progress("keys placed") as work:
        work.step(1000)
        work.step(1000)
    assert screen.getvalue() == text
