"""The commands ``groups``, ``group`` and ``top`` print groups, in text and JSON."""

import json

from streaming.cli.groups import sort_worst_first
from streaming.recording.overview import GroupOverview
from streaming.records.codec import encode
from streaming.records.episodes import key
from streaming.records.events import CLUSTER
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import (
    ASSIGNMENTS,
    EPISODES,
    FLAPPY_INCIDENTS,
    INCIDENTS,
    checkout_group,
    episode_records,
    latest,
)
from tests.support.incidents import incident
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, table_cells


def test_table_in_a_pipe_has_no_colours(command: Command, groups: MemoryKafka) -> None:
    status, out, errors = command("groups")
    assert (status, errors, "\x1b" in out) == (0, "", False)
    rows = [row for row in table_cells(out) if "consumer" in row]
    assert [row[:6] for row in rows] == [
        ["flappy", "consumer", "storming", "2", "", "storm, stuck"],
        ["team/checkout", "consumer", "stable", "3", "", ""],
    ]
    assert rows[1][6].startswith("Rolling restart of 2 of 3 members, 2023-11-14 22:23 UTC")


def test_json_has_one_object_per_group(command: Command, groups: MemoryKafka) -> None:
    status, out, _ = command("groups", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    records = ("episode", "incidents")
    same: dict[str, object] = {"kind": "consumer", "awaited": [], "lag": None, "downtimeToday": None}
    assert [{name: line[name] for name in line if name not in records} for line in lines] == [
        {
            "groupId": "flappy",
            "state": "storming",
            "status": "storming",
            "since": lines[0]["episode"]["openedAt"],
            "reason": lines[0]["episode"]["story"],
            "members": 2,
            **same,
        },
        {
            "groupId": "team/checkout",
            "state": "settled",
            "status": "stable",
            "since": lines[1]["episode"]["closedAt"],
            "reason": None,
            "members": 3,
            **same,
        },
    ]
    shown = [encode(incident).decode() for incident in FLAPPY_INCIDENTS[:0:-1]]  # the open ones, newest first
    assert out.splitlines()[0].endswith(f'"incidents":[{",".join(shown)}]}}')
    newest = episode_records(checkout_group())[-1].value.decode()
    assert out.splitlines()[1].endswith(f'"episode":{newest},"incidents":[]}}')


def test_malformed_records_are_reported_and_skipped(command: Command, groups: MemoryKafka) -> None:
    groups.append(EPISODES, None, key=b"flappy/1", partition=1)
    groups.append(EPISODES, b"{", key=b"flappy/2", partition=1)
    status, out, errors = command("groups", "--json")
    assert (status, len(out.splitlines()), errors.count("\n")) == (0, 2, 1)
    assert errors.startswith("skipped: rebalance.episodes key flappy/2: ")
    assert json.loads(out.splitlines()[0])["state"] is None


def test_missing_topic_of_a_new_cluster_is_named(command: Command, kafka: MemoryKafka) -> None:
    status, out, errors = command("groups")
    assert (status, out) == (3, "")
    assert errors.startswith("error: topic rebalance.")
    assert "does not exist" in errors


def test_cluster_incidents_are_printed_first(command: Command, groups: MemoryKafka) -> None:
    away = incident(CLUSTER, 1, kind="broker-restart", scope="cluster", groups=["flappy"], story="Broker 1 is away.")
    groups.append(INCIDENTS, encode(away), key=key(CLUSTER, 1))
    line = "broker-restart since 1970-01-01 00:00:00 UTC  Broker 1 is away."
    assert command("groups")[1].splitlines()[0] == line
    shown = command("group", "flappy")[1].splitlines()
    assert (line in shown, line in command("group", "team/checkout")[1]) == (True, False)
    counts = [len(json.loads(row)["incidents"]) for row in command("groups", "--json")[1].splitlines()]
    assert counts == [3, 0]
    assert command("incidents", "--json", "--group", "flappy")[1].count("\n") == 3


def test_group_command_prints_the_group_as_text(command: Command, groups: MemoryKafka) -> None:
    status, out, errors = command("group", "team/checkout")
    assert (status, errors, "\x1b" in out) == (0, "", False)
    assert out.splitlines()[0] == (
        "team/checkout  consumer, stable since 2023-11-14 22:23:36 UTC, 3 members"
        "  classic, range, generation 5 since 2023-11-14 22:23:36 UTC"
    )
    rows = table_cells(out)
    assert rows[:3] == [
        ["pay (h1)", "h1", "t:2-3", "2", "pay@h1#2"],
        ["pay (h2)", "h2", "t:4-5", "2", "pay@h2#2"],
        ["web-0", "h1", "t:0-1", "2", "web@h1#1=web-0"],
    ]
    assert [row[:3] for row in rows[3:] if row[0]] == [
        ["2", "rolling-restart", "settled"],
        ["1", "first-start", "settled"],
    ]


def test_json_output_of_a_group(command: Command, groups: MemoryKafka) -> None:
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
    assert [row["episode"] for row in answer["episodes"]] == [2, 1]
    assert answer["incidents"] == []


def test_open_incidents_newest_first(command: Command, groups: MemoryKafka) -> None:
    assert command("group", "flappy")[1].splitlines()[1:3] == [
        "storm since 2023-11-14 22:13:24 UTC  flappy does not settle.",
        "stuck since 2023-11-14 22:13:23 UTC  flappy does not settle.",
    ]
    wrong = json.loads(command("group", "flappy", "--json")[1])["incidents"]
    assert [(row["incident"], row["kind"]) for row in wrong] == [(3, "storm"), (2, "stuck")]


def test_unknown_group_is_reported(command: Command, groups: MemoryKafka) -> None:
    for words in (["group", "checkout"], ["group", "--json", "checkout"]):
        error = "error: group checkout: not found; `rebalance-monitor groups` lists all groups\n"
        assert command(*words) == (2, "", error)


def test_deleted_group_is_reported(command: Command, groups: MemoryKafka) -> None:
    groups.append(ASSIGNMENTS, None, key=b"flappy", partition=1)
    error = "error: group flappy: deleted; `rebalance-monitor why flappy` shows its last episode\n"
    assert command("group", "flappy") == (2, "", error)


def test_top_prints_one_table_per_reading_in_a_pipe(command: Command, groups: MemoryKafka) -> None:
    status, out, errors = command("top", "--count", "2", "--interval", "1")
    assert (status, errors) == (0, "")
    assert [row[0] for row in table_cells(out) if "consumer" in row] == ["flappy", "team/checkout"] * 2


def test_top_json_equals_groups_json(command: Command, groups: MemoryKafka) -> None:
    _, out, _ = command("top", "--json", "--count", "1", "--limit", "1")
    assert json.loads(out)["groupId"] == "flappy"
    assert command("groups", "--json")[1].splitlines()[0] == out.strip()


def test_the_worst_status_is_first() -> None:
    left = DiffBuilder(group_id="empty").join("a").leave("a")
    overviews = [
        GroupOverview(latest(builder), list(reversed(episode_records(builder)))) for builder in (left, checkout_group())
    ]
    assert [overview.status.status for overview in sort_worst_first(overviews)] == ["stable", "empty"]
