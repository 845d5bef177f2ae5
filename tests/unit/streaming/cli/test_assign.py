"""The command ``assign`` in pipes and on a terminal: its complete output and exit status."""

import json
from typing import Any

from tests.unit.streaming.cli.conftest import RunCommand

CONTRACT_EXAMPLE = {
    "protocol": "classic",
    "assignor": "cooperative-sticky",
    "topics": {"t0": {"partitions": 3, "racks": [["r1"], ["r2"], ["r1"]]}, "t1": {"partitions": 2}},
    "members": [
        {
            "memberId": "c1",
            "instanceId": None,
            "rackId": "r1",
            "topics": ["t0", "t1"],
            "owned": {"t0": [0]},
            "generation": 4,
        }
    ],
}
RANGE = {
    "assignor": "range",
    "topics": {"日本": {"partitions": 3}},
    "members": [{"memberId": "é", "topics": ["日本"]}, {"memberId": "😀", "topics": ["日本"]}],
}
RANGE_ASSIGNMENT = {"assignment": {"é": {"日本": [0, 1]}, "😀": {"日本": [2]}}}


def lines(*cases: Any) -> str:
    return "\n".join(case if isinstance(case, str) else json.dumps(case) for case in cases)


def parsed_lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


def test_example_of_the_docs_is_answered(run: RunCommand) -> None:
    done = run("assign", stdin=lines(CONTRACT_EXAMPLE))
    assert (done.returncode, done.stderr) == (0, "")
    assert parsed_lines(done.stdout) == [{"assignment": {"c1": {"t0": [0, 1, 2], "t1": [0, 1]}}}]


def test_empty_input_gives_empty_output(run: RunCommand) -> None:
    for nothing in ("", "\n", "\r\n  \n", "\ufeff"):
        done = run("assign", stdin=nothing)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_non_ascii_names_are_answered(run: RunCommand) -> None:
    """Input is read correctly with a byte-order mark, CRLF, blank lines, other scripts, and no line feed at its end."""
    done = run("assign", stdin="\ufeff" + lines(RANGE) + "\r\n\r\n \t\r\n" + lines(RANGE))
    assert (done.returncode, parsed_lines(done.stdout)) == (0, [RANGE_ASSIGNMENT, RANGE_ASSIGNMENT])


def test_invalid_lines_give_errors_in_order(run: RunCommand) -> None:
    base = {"assignor": "range", "topics": {"t": {"partitions": 2}}, "members": [{"memberId": "a", "topics": ["t"]}]}
    member = base["members"][0]
    cases: list[tuple[Any, dict[str, Any]]] = [
        (base, {"assignment": {"a": {"t": [0, 1]}}}),
        ("{", error("MalformedJson", "line: Input data was truncated")),
        (
            '{"topics": {"t": {"partitions": NaN}}, "members": []}',
            error("MalformedJson", "line: JSON is malformed: invalid character (byte 32)"),
        ),
        ("[]", error("BadInput", "line: expected `object`, got `array`")),
        (
            {**base, "members": [member, member]},
            error("InvalidGroup", "members[1].memberId: 'a' is listed twice, first as members[0]"),
        ),
        (
            {**base, "members": [{**member, "owned": {"t": [2]}}]},
            {"assignment": {"a": {"t": [0, 1]}}},  # the topic was created again: range ignores owned partitions
        ),
        (
            {**base, "assignor": "fair"},
            error(
                "UnknownAssignor",
                "assignor: 'fair' is not one of range, roundrobin, sticky, cooperative-sticky (protocol classic)",
            ),
        ),
        (base, {"assignment": {"a": {"t": [0, 1]}}}),
    ]
    done = run("assign", stdin=lines(*(case for case, _ in cases)))
    assert (done.returncode, done.stderr) == (2, "")
    assert parsed_lines(done.stdout) == [answer for _, answer in cases]


def test_too_long_line_gives_an_error(run: RunCommand) -> None:
    done = run("assign", "--max-line-bytes", "300", stdin=lines("x" * 301, RANGE, "y" * 5000))
    limit = "longer than 300 bytes, the limit; shorten it or raise --max-line-bytes"
    assert (done.returncode, parsed_lines(done.stdout)) == (
        2,
        [error("LineTooLong", f"line 1: {limit}"), RANGE_ASSIGNMENT, error("LineTooLong", f"line 3: {limit}")],
    )


def test_every_protocol_and_assignor_is_answered(run: RunCommand) -> None:
    zookeeper_request = {
        "protocol": "zookeeper",
        "assignor": "roundrobin",
        "topics": {"t": {"partitions": 3}},
        "members": [{"memberId": "c1", "streams": {"t": 2}}],
    }
    consumer = {
        "protocol": "consumer",
        "assignor": "uniform",
        "topics": {"t": {"partitions": 2, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}},
        "members": [{"memberId": "c1", "topics": ["t", "unknown"]}],
    }
    done = run("assign", stdin=lines(zookeeper_request, consumer))
    parsed = parsed_lines(done.stdout)
    assert done.returncode == 0
    assert sorted(parsed[0]["assignment"]) == ["c1-0", "c1-1"]
    assert parsed[1] == {"assignment": {"c1": {"t": [0, 1]}}}


def test_explain_adds_reasons(run: RunCommand) -> None:
    (answer,) = parsed_lines(run("assign", "--explain", stdin=lines(RANGE)).stdout)
    assert answer["assignment"] == RANGE_ASSIGNMENT["assignment"]
    assert [answer["members"][member]["decisions"][0]["rule"] for member in ("é", "😀")] == ["range", "range"]
