"""The commands ``groups``, ``group`` and ``top`` print groups, in text and JSON."""

import json

import pytest
from msgspec import structs

from streaming.cli.episodes import episode_lines
from streaming.cli.groups import group_lines, group_table, sort_worst_first
from streaming.process.terminal import console, show
from streaming.recording.overview import GroupOverview, group_overview, group_overviews
from streaming.records.codec import encode, rfc3339
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Downtime, Episode, EpisodeMembers, Rebalancing, Replaced, key
from streaming.records.events import CLUSTER, Evidence
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import (
    ASSIGNMENTS,
    ENDED_MS,
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


NOW_MS = ENDED_MS + 86_400_000
GROUP = "team/checkout"


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def lines(episode: Episode, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(episode_lines(episode, NOW_MS))
    return capsys.readouterr().out.splitlines()


def test_unsure_kinds_and_missing_evidence_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    episode = structs.replace(episode_records(checkout_group())[0].episode, kind="crash", sure=False, evidence=[])
    shown = lines(episode, capsys)
    assert shown[0] == "team/checkout, episode 1: crash (not sure), settled"
    assert shown[2:4] == ["evidence", "  none"]
    assert lines(structs.replace(episode, kind="unknown"), capsys)[0].endswith(": unknown, settled")


def test_repeated_reason_is_shown_once_with_names(capsys: pytest.CaptureFixture[str]) -> None:
    evidence = [
        Evidence(source="coordinator-log", reason="pay@h1#1 left", member_ids=["pay@h1#1"]),
        Evidence(source="coordinator-log", reason="pay@h1#1 left", member_ids=["pay@h1#1", "x"]),
        Evidence(source="polling", reason="can't tell", member_ids=[]),
    ]
    shown = lines(structs.replace(episode_records(checkout_group())[1].episode, evidence=evidence), capsys)
    assert shown[2:5] == ["evidence", "  pay (h1) left (coordinator-log)", "  can't tell (polling)"]


def test_episode_lists_members_by_change_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    members = EpisodeMembers(
        joined=[f"j{number:02}" for number in range(22)],
        left=["l"],
        lost=["o"],
        gone=["g"],
        replaced=[Replaced(left="a", joined="b", by="pod names of one Deployment")],
        before=4,
        after=23,
        names={"a": MemberNames(client_id="pay-1"), "b": MemberNames(client_id="pay-2")},
        omitted=7,
    )
    shown = lines(structs.replace(episode_records(checkout_group())[0].episode, members=members), capsys)
    assert shown[shown.index("members  4 before, 23 after") + 1 : -1] == [
        "  replaced pay-1 → pay-2  by pod names of one Deployment",
        *(f"  joined   j{number:02}" for number in range(20)),
        "           and 2 more, see --json",
        "  left     l",
        "  crashed  o",
        "  gone     g",
        "  and 7 more that the episode does not list",
    ]


def test_downtime_bounds_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    downtime = Downtime(
        lower_ms=5,
        upper_ms=90,
        longest_ms=(3, 40),
        total_ms=(5, 90),
        stops=(2, 3),
        partitions=2,
        evidence=["listener", "offset-commits"],
    )
    episode = structs.replace(episode_records(checkout_group())[0].episode, downtime=downtime)
    assert lines(episode, capsys)[-1] == (
        "downtime  longest 3 to 40 ms; in all 5 to 90 ms (2 partitions, 2 to 3 stops); by listener, offset-commits"
    )
    unbounded_downtime = Downtime(
        lower_ms=5, upper_ms=None, longest_ms=(4, None), total_ms=(5, None), stops=(1, 1), partitions=1, unbounded=1
    )
    assert lines(structs.replace(episode, downtime=unbounded_downtime), capsys)[-1] == (
        "downtime  longest ≥ 4 ms; in all ≥ 5 ms (1 partition, 1 stop); no upper limit known for 1 partition"
    )


def test_group_without_members_or_episodes_is_still_printed(capsys: pytest.CaptureFixture[str]) -> None:
    empty = DiffBuilder().join("a").leave("a")
    show(group_lines(group_overview("g", [latest(empty)], [], []), NOW_MS))
    assert capsys.readouterr().out == (
        "g  consumer, empty since 2023-11-14 22:13:22 UTC, 0 members"
        "  classic, range, generation 2 since 2023-11-14 22:13:22 UTC\n"
    )
    unknown = structs.replace(latest(DiffBuilder().join("a")), assignor=None, generation=None, group_epoch=4)
    show(group_lines(group_overview("g", [unknown], [], []), NOW_MS))
    assert capsys.readouterr().out.splitlines()[0] == (
        "g  consumer, stable since 2023-11-14 22:13:21 UTC, 1 member  classic, epoch 4 since 2023-11-14 22:13:21 UTC"
    )


def test_tasks_of_kafka_streams_are_listed_beside_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    assignment = structs.replace(
        latest(DiffBuilder(2).join("a", "b")), standby={"a": {"0": [1]}}, warmup={"a": {}, "b": {"1": [2]}}
    )
    show(group_lines(group_overview("g", [assignment], [], []), NOW_MS))
    rows = [line.split("│")[3].strip() for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert rows == ["t:0  standby 0:1", "t:1  warm-up 1:2"]


def test_statuses_have_colours_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen = console(is_wide=True)
    screen._color_system, screen._force_terminal = (__import__("rich.console").console.ColorSystem.STANDARD, True)
    screen.print(
        group_table(group_overviews([latest(checkout_group())], episode_records(checkout_group()), [], ENDED_MS))
    )
    assert "\x1b[32mstable" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("downtime", "cell"),
    [
        (Downtime(lower_ms=300, upper_ms=1210, total_ms=(300, 1210)), "300 ms to 1.2 s"),
        (Downtime(lower_ms=300, upper_ms=None, total_ms=(300, None)), "≥ 300 ms"),
        (None, ""),
    ],
)
def test_downtime_of_the_day_is_listed_with_each_group(
    downtime: Downtime | None, cell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (overview,) = group_overviews([latest(checkout_group())], episode_records(checkout_group()), [], ENDED_MS)
    console(is_wide=True).print(group_table([overview._replace(today=downtime)]))
    row = next(line for line in capsys.readouterr().out.splitlines() if GROUP in line)
    assert row.split("│")[5].strip() == cell


def test_rebalance_in_progress_names_awaited_members(capsys: pytest.CaptureFixture[str]) -> None:
    builder = DiffBuilder(2).join("a@h#1", "b@h#1")
    since = builder.now + 1000
    now = Rebalancing(since=since, reason="member b@h#1 joined", awaited=["a@h#1"], until={"a@h#1": since + 132_000})
    newest = episode_records(builder, over=False)[-1]
    episode = structs.replace(newest.episode, status="rebalancing", rebalancing=now)
    text = f"rebalancing since {rfc3339(since)[11:19]} UTC (member b joined), waiting for a (2 min 10 s left)"
    show(group_lines(group_overview("g", [latest(builder)], [newest._replace(episode=episode)], []), since + 2000))
    assert capsys.readouterr().out.startswith(f"g  consumer, {text}, 2 members  ")
    members = structs.replace(episode.members, names=latest(builder).names)
    show(episode_lines(structs.replace(episode, members=members), since + 2000))
    assert capsys.readouterr().out.splitlines()[2] == f"  {text}"
