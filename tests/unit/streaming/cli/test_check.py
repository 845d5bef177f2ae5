"""``check``: a broken rule is status 1, a line that can't be used 2."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Command = Callable[..., tuple[int, str, str]]


def group(**assignment: dict[str, list[int]]) -> str:
    members = [{"memberId": name, "topics": ["t"]} for name in ("a", "b")]
    given = {"assignor": "range", "topics": {"t": {"partitions": 2}}, "members": members}
    return json.dumps(given | {"assignment": assignment}) + "\n"


KEPT = group(a={"t": [0]}, b={"t": [1]})
SWAPPED = group(a={"t": [1]}, b={"t": [0]})
BROKEN = group(a={"t": [0, 1]}, b={"t": [1]})


@pytest.mark.parametrize(
    ("lines", "words", "status", "ok"),
    [
        (KEPT, (), 0, [True]),
        (SWAPPED, (), 0, [True]),
        (SWAPPED, ("--exact",), 1, [False]),
        (KEPT, ("--exact",), 0, [True]),
        (BROKEN + KEPT, (), 1, [False, True]),
    ],
)
def test_each_line_is_checked(
    command: Command, lines: str, words: tuple[str, ...], status: int, ok: list[bool]
) -> None:
    ended, out, errors = command("check", *words, stdin=lines)
    assert (ended, [json.loads(line)["ok"] for line in out.splitlines()], errors) == (status, ok, "")


def test_unusable_line_outranks_a_violation(command: Command) -> None:
    status, out, _ = command("check", stdin=BROKEN + "{\n" + KEPT)
    answers = [json.loads(line) for line in out.splitlines()]
    assert (status, [answer.get("ok") for answer in answers]) == (2, [False, None, True])
    assert set(answers[1]) == {"error"}
    long = command("check", "--max-line-bytes", "9", stdin=KEPT)
    assert (long[0], json.loads(long[1])["error"]["type"]) == (2, "LineTooLong")


def test_a_table_for_people(command: Command) -> None:
    status, out, _ = command("check", "--table", stdin=BROKEN)
    assert status == 1
    assert "violations" in out
    assert command("check", "--table", "--json", stdin=BROKEN) == command("check", stdin=BROKEN)
