import json
from typing import Any

from rich.console import Console

from streaming.cli import tables
from streaming.cli.assignment import assignment_answer, comparison_answer
from streaming.cli.checking import check_answer as check
from streaming.cli.checking import place_replicas
from streaming.cli.diff_lines import partition_runs, share_text

GROUP = {
    "assignor": "range",
    "topics": {"t": {"partitions": 4}},
    "members": [
        {"memberId": "[red]a", "topics": ["t"], "owned": {"t": [0, 3]}},
        {"memberId": "b", "topics": ["t"], "owned": {"t": [1, 2]}},
    ],
}


def rows(table: Any) -> list[list[str]]:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(table)
    lines = [line for line in capture.get().splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]] for line in lines]


def test_partition_runs_are_written_as_ranges() -> None:
    assert partition_runs([0, 1, 2, 7, 9, 10]) == "0-2,7,9-10"
    assert partition_runs([-1, 0, 1]) == "-1,0-1"
    assert partition_runs([]) == ""
    assert share_text({"u": [1], "t": [0, 1], "v": []}) == "t:0-1 u:1"


def test_assignment_table_has_one_row_per_member() -> None:
    assert rows(tables.assignment_table(assignment_answer(json.dumps(GROUP).encode()))) == [
        ["member", "assignment", "partitions"],
        ["[red]a", "t:0-1", "2"],
        ["b", "t:2-3", "2"],
    ]


def test_explanation_table_has_one_row_per_decision() -> None:
    table_rows = rows(tables.assignment_table(assignment_answer(json.dumps(GROUP).encode(), explained=True)))
    lost = "this assignor doesn't look at what was owned"
    assert table_rows == [
        ["member", "change", "partitions", "why"],
        ["[red]a", "= kept", "t:0", "range: subscriber 1 of 2: 2 each"],
        ["", "+ assigned", "t:1", "range: subscriber 1 of 2: 2 each"],
        ["", "− revoked", "t:3", f"recomputed: given to b: {lost}"],
        ["b", "= kept", "t:2", "range: subscriber 2 of 2: 2 each"],
        ["", "+ assigned", "t:3", "range: subscriber 2 of 2: 2 each"],
        ["", "− revoked", "t:1", f"recomputed: given to [red]a: {lost}"],
    ]


def test_reasons_shared_by_topics_are_one_row() -> None:
    question = {
        "assignor": "cooperative-sticky",
        "topics": {"t": {"partitions": 2}, "u": {"partitions": 2}},
        "members": [
            {"memberId": "a", "topics": ["t", "u"], "owned": {"t": [0, 1], "u": [0, 1]}},
            {"memberId": "b", "topics": ["t", "u"]},
        ],
    }
    later = "over the member's share: its new owner gets it in the next round, once revoked"
    assert rows(tables.assignment_table(assignment_answer(json.dumps(question).encode(), explained=True))) == [
        ["member", "change", "partitions", "why"],
        ["a", "= kept", "t:0 u:0", "kept: owned before, within the member's share"],
        ["", "− revoked", "t:1 u:1", f"withheld: {later}"],
        ["b", "no partitions", "", ""],
    ]


def test_comparison_table_has_one_column_per_assignor() -> None:
    table_rows = rows(tables.comparison_table(comparison_answer(json.dumps(GROUP).encode())))
    assert table_rows[:3] == [
        ["member", "range", "roundrobin", "sticky", "cooperative-sticky"],
        ["[red]a", "t:0-1", "t:0,2", "t:0,3", "t:0,3"],
        ["b", "t:2-3", "t:1,3", "t:1-2", "t:1-2"],
    ]
    assert table_rows[3:] == [
        ["kept", "2", "2", "4", "4"],
        ["revoked", "2", "2", "0", "0"],
        ["assigned", "2", "2", "0", "0"],
        ["moved", "2", "2", "0", "0"],
        ["most per member", "2", "2", "2", "2"],
        ["least per member", "2", "2", "2", "2"],
    ]


def test_failed_assignor_has_a_column_with_its_error() -> None:
    response = comparison_answer(json.dumps(GROUP).encode())
    columns = dict(response["compared"])
    columns["sticky"] = {"error": {"type": "InvalidGroup", "message": "why"}}
    table = rows(tables.comparison_table({"compared": columns}))
    assert [row[3] for row in table if row[0] in ("moved", "kept", "error")] == ["", "", "why"]
    assert [row[1] for row in table if row[0] in ("moved", "error")] == ["2", ""]


def test_placement_table_has_one_row_per_partition() -> None:
    placement = place_replicas("0,1,2", 2, 3, start_index=0)
    assert rows(tables.placement_table({str(p): r for p, r in placement.items()})) == [
        ["partition", "leader", "replicas"],
        ["0", "0", "0, 1, 2"],
        ["1", "1", "1, 2, 0"],
    ]


def test_check_table_lists_violations() -> None:
    violations = check(b'{"brokers": "0,1", "placement": {"0": [0], "1": [0]}}')
    assert rows(tables.check_table(violations)) == [
        ["result", "details"],
        ["violations", ""],
        ["even-replicas", "broker 0 has 2, broker 1 0"],
        ["checked", "rack-spread, even-replicas, even-leaders"],
        ["leaders by broker", "0: 2, 1: 0"],
        ["replicas by broker", "0: 2, 1: 0"],
        ["move", "0: 0 → 1"],
    ]
