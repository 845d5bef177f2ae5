"""The command ``check`` checks assignments: its output, exit statuses and error messages."""

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.streaming.cli.conftest import RunCommand

GROUP: dict[str, Any] = {
    "assignor": "cooperative-sticky",
    "topics": {"p": {"partitions": 4}},
    "members": [
        {"memberId": "a", "topics": ["p"], "owned": {"p": [0, 1, 2, 3]}, "generation": 1},
        {"memberId": "b", "topics": ["p"]},
    ],
}
VALID_ASSIGNMENT = {**GROUP, "assignment": {"a": {"p": [0, 1]}, "b": {}}}
ASSIGNMENT_WITH_OLD_OWNER = {**GROUP, "assignment": {"a": {"p": [0, 1]}, "b": {"p": [2, 3]}}}
PLACEMENT_REQUEST = {"brokers": "0:r1,1:r2", "placement": {"0": [0, 1], "1": [0, 1]}}
RULES = ["valid", "balanced", "sticky", "cooperative-safe"]


def check(run: RunCommand, *lines: Any, options: tuple[str, ...] = ()) -> tuple[int, list[Any]]:
    done = run("check", *options, stdin="\n".join(map(json.dumps, lines)))
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_valid_assignment_exits_with_0(run: RunCommand) -> None:
    assert check(run, VALID_ASSIGNMENT, options=("--exact",)) == (
        0,
        [{"ok": True, "rules": [*RULES, "exact"], "violations": []}],
    )


def test_violation_exits_with_1(run: RunCommand) -> None:
    safety_violation = "cooperative-safe: p-2,3 given to b while a still owns it"
    assert check(run, VALID_ASSIGNMENT, ASSIGNMENT_WITH_OLD_OWNER) == (
        1,
        [
            {"ok": True, "rules": RULES, "violations": []},
            {"ok": False, "rules": RULES, "violations": [safety_violation]},
        ],
    )


def test_invalid_line_and_violation_exit_with_2(run: RunCommand) -> None:
    status, responses = check(run, ASSIGNMENT_WITH_OLD_OWNER, GROUP, VALID_ASSIGNMENT)
    assert (status, responses[1]) == (
        2,
        {
            "error": {
                "type": "InvalidGroup",
                "message": "assignment: missing; give the observed one, {member: {topic: [partition]}}",
            }
        },
    )
    assert [answer.get("ok") for answer in responses] == [False, None, True]


@pytest.mark.parametrize("command", [["assign"], ["check"], ["partition", "--partitions", "3"]])
def test_closed_standard_input_is_reported_in_one_line(command: list[str]) -> None:
    command_line = shlex.join([sys.executable, "-m", "streaming", *command])
    done = subprocess.run(["/bin/sh", "-c", f"{command_line} <&-"], capture_output=True, text=True, check=False)
    message = "error: Standard input is closed; give it a file, a pipe or nothing at all (< /dev/null).\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
