from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from streaming.cli import output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, screen: io.StringIO, times: list[float]) -> str:
    clock = iter(times)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with output.Progress("keys placed") as work:
        work.step(1000)
        work.step(1000)
    return screen.getvalue()


def test_nothing_is_shown_before_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), [0.0, 0.5, 1.9]) == ""


def test_the_count_is_shown_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), [0.0, 0.5, 2.1, 2.1]) == "\r2,000 keys placed\r\x1b[K"


def test_progress_is_only_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), [0.0]) == ""
