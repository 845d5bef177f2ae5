"""``group``: the owner of each partition by display name, and the last episodes."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.compacted import ASSIGNMENTS
from tests.support.memory_kafka import MemoryKafka

Command = Callable[..., tuple[int, str, str]]


def cells(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]


def test_for_people(command: Command, groups: MemoryKafka) -> None:
    status, out, errors = command("group", "team/checkout")
    assert (status, errors, "\x1b" in out) == (0, "", False)
    assert out.splitlines()[0] == (
        "team/checkout  consumer, stable since 2023-11-14 22:23:36 UTC, 3 members"
        "  classic, range, generation 5 since 2023-11-14 22:23:36 UTC"
    )
    rows = cells(out)
    assert rows[:3] == [
        ["pay (h1)", "h1", "t:2-3", "2", "pay@h1#2"],
        ["pay (h2)", "h2", "t:4-5", "2", "pay@h2#2"],
        ["web-0", "h1", "t:0-1", "2", "web@h1#1=web-0"],
    ]
    assert [row[:3] for row in rows[3:] if row[0]] == [
        ["2", "rolling-restart", "settled"],
        ["1", "first-start", "settled"],
    ]


def test_for_programs(command: Command, groups: MemoryKafka) -> None:
    status, out, _ = command("group", "team/checkout", "--json")
    answer = json.loads(out)
    assert (status, out.count("\n"), answer["state"]) == (0, 1, "settled")
    assert answer["members"][0] == {
        "memberId": "pay@h1#2",
        "name": "pay (h1)",
        "clientId": "pay",
        "clientHost": "/h1",
        "groupInstanceId": None,
        "owned": {"t": [2, 3]},
    }
    assert [one["episode"] for one in answer["episodes"]] == [2, 1]
    assert answer["incidents"] == []


def test_open_incidents_newest_first(command: Command, groups: MemoryKafka) -> None:
    assert command("group", "flappy")[1].splitlines()[1:3] == [
        "storm since 2023-11-14 22:13:24 UTC  flappy does not settle.",
        "stuck since 2023-11-14 22:13:23 UTC  flappy does not settle.",
    ]
    wrong = json.loads(command("group", "flappy", "--json")[1])["incidents"]
    assert [(one["incident"], one["kind"]) for one in wrong] == [(3, "storm"), (2, "stuck")]


def test_unknown_group_is_reported(command: Command, groups: MemoryKafka) -> None:
    for words in (["group", "checkout"], ["group", "--json", "checkout"]):
        assert command(*words) == (
            2,
            "",
            ("error: group checkout: not found; `rebalance-monitor groups` lists all groups\n"),
        )


def test_deleted_group_is_reported(command: Command, groups: MemoryKafka) -> None:
    groups.append(ASSIGNMENTS, None, key=b"flappy", partition=1)
    assert command("group", "flappy") == (
        2,
        "",
        "error: group flappy: deleted; `rebalance-monitor why flappy` shows its last episode\n",
    )
