from __future__ import annotations

import sys

import pytest

from streaming.cli.output import writer

ANSWER = {"assignment": {"c": {"t": [0]}}}


@pytest.mark.parametrize(
    ("as_json", "as_table", "terminal", "is_json"),
    [(False, False, False, True), (True, True, True, True), (False, True, False, False), (False, False, True, False)],
)
def test_json_for_programs_tables_for_people(
    *,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    as_json: bool,
    as_table: bool,
    terminal: bool,
    is_json: bool,
) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: terminal, raising=False)
    writer("assignment", as_json=as_json, as_table=as_table)(ANSWER)
    out = capfd.readouterr().out
    assert (out == '{"assignment":{"c":{"t":[0]}}}\n') is is_json
    assert ("assignment" in out and "partitions" in out) is not is_json
