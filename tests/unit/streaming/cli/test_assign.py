"""``assign``: its options reach the answers."""

from __future__ import annotations

import json
from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
GROUP = {
    "assignor": "sticky",
    "topics": {"t": {"partitions": 3}},
    "members": [
        {"memberId": "a", "topics": ["t"], "owned": {"t": [0, 1, 2]}, "generation": 4},
        {"memberId": "b", "topics": ["t"]},
    ],
}
LINE = json.dumps(GROUP) + "\n"


def test_a_line_a_group_in_order_and_a_status(command: Command) -> None:
    status, out, errors = command("assign", stdin=LINE + '{"members": 7}\n\n' + LINE)
    first, second, third = map(json.loads, out.splitlines())
    assert (status, errors) == (2, "")
    assert first == third == {"assignment": {"a": {"t": [0, 1]}, "b": {"t": [2]}}}
    assert set(second) == {"error"}
    assert command("assign", stdin=LINE)[0] == 0


def test_explain_adds_what_changes_and_why(command: Command) -> None:
    answer = json.loads(command("assign", "--explain", stdin=LINE)[1])
    told = answer["members"]
    assert (told["a"]["kept"], told["a"]["revoked"], told["b"]["assigned"]) == ({"t": [0, 1]}, {"t": [2]}, {"t": [2]})
    assert told["b"]["decisions"]


def test_compare_puts_assignors_side_by_side(command: Command) -> None:
    answer = json.loads(command("assign", "--compare", stdin=LINE)[1])
    assert {"range", "roundrobin", "sticky", "cooperative-sticky"} <= set(answer["compared"])
    assert answer["compared"]["sticky"]["moved"] == 1


def test_a_table_on_request_and_json_before_it(command: Command) -> None:
    _, table, _ = command("assign", "--table", stdin=LINE)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
    assert rows == [["a", "t:0-1", "2"], ["b", "t:2", "1"]]
    both = command("assign", "--table", "--json", stdin=LINE)
    assert both == command("assign", stdin=LINE)
    _, compared, _ = command("assign", "--compare", "--table", stdin=LINE)
    assert "cooperative-sticky" in compared


def test_a_line_that_is_too_long_is_answered_with_that(command: Command) -> None:
    status, out, _ = command("assign", "--max-line-bytes", str(len(LINE) - 2), stdin=LINE)
    assert (status, json.loads(out)["error"]["type"]) == (2, "LineTooLong")
    assert command("assign", "--max-line-bytes", str(len(LINE) - 1), stdin=LINE)[0] == 0
