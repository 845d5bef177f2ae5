"""The commands ``why``, ``compare`` and ``cost``, in text, JSON and CSV."""

import csv
import json
import time

import pytest
from msgspec import structs

from streaming.cli.episodes import change_table, figure_changes
from streaming.process.terminal import console
from streaming.records.codec import encode
from streaming.records.cost import total_cost
from streaming.records.episodes import Bounds, Cost, Downtime, Episode, key
from tests.support.built_diffs import CONSUMER_CLOSED_REASON
from tests.support.compacted import (
    EPISODES,
    INCIDENTS,
    RESTARTED_MS,
    STARTED_MS,
    checkout_group,
    episode_records,
    episode_updates,
)
from tests.support.incidents import incident
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, table_cells

GROUP = "team/checkout"


def test_why_prints_the_newest_episode(command: Command, groups: MemoryKafka) -> None:
    status, out, errors = command("why", GROUP)
    assert (status, errors) == (0, "")
    assert out.splitlines() == [
        "team/checkout, episode 2: rolling-restart, settled",
        f"  {episode_records(checkout_group())[-1].episode.story}",
        "evidence",
        f"  pay (h1): {CONSUMER_CLOSED_REASON} (coordinator-log)",
        f"  pay (h2): {CONSUMER_CLOSED_REASON} (coordinator-log)",
        "members  3 before, 3 after",
        "  replaced pay (h1) rejoined  by client id and host",
        "  replaced pay (h2) rejoined  by client id and host",
        (
            "rounds  4 in 4 rebalances, 2023-11-14 22:23:21 UTC to 2023-11-14 22:23:36 UTC; "
            "6 partitions moved, 6 of them more than once"
        ),
    ]


@pytest.mark.parametrize(
    ("words", "number"), [([], 2), (["--at", "2023-11-14T22:13:30Z"], 1), (["--at", str(RESTARTED_MS)], 2)]
)
def test_why_json_prints_the_episode_record_unchanged(
    command: Command, groups: MemoryKafka, words: list[str], number: int
) -> None:
    value = episode_records(checkout_group())[number - 1].value.decode()
    assert command("why", GROUP, *words, "--json") == (0, f"{value}\n", "")


def test_why_uses_the_quiet_time_of_the_settings(
    command: Command, groups: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = str(STARTED_MS + 120_001)
    assert command("why", GROUP, "--at", at)[0] == 1
    monkeypatch.setenv("REBALANCE_MONITOR_STREAM__EPISODE_QUIET_MS", "120001")
    assert command("why", GROUP, "--at", at)[0] == 0


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["x"], 2, "group x: has no episode; `rebalance-monitor groups` lists all groups"),
        (
            [GROUP, "--at", "2023-11-14T22:00:00Z"],
            1,
            (
                "group team/checkout: no episode was open at 2023-11-14T22:00:00.000Z: "
                "episode 1 began at 2023-11-14T22:13:21.000Z"
            ),
        ),
        (
            [GROUP, "--at", "noon"],
            2,
            "--at noon: write RFC 3339 (2026-01-31T12:00:00Z) or milliseconds since the epoch",
        ),
    ],
)
def test_missing_episode_is_reported_in_one_line(
    command: Command, groups: MemoryKafka, words: list[str], status: int, line: str
) -> None:
    assert command("why", *words, "--json") == (status, "", f"error: {line}\n")


def test_why_names_the_cluster_incident_behind_an_episode(command: Command, groups: MemoryKafka) -> None:
    crash = structs.replace(episode_records(checkout_group("pay"))[-1].episode, kind="crash")
    groups.append(EPISODES, encode(crash), key=key("pay", crash.episode))
    span = {"opened_at": crash.opened_at, "closed_at": crash.opened_at + 9000}
    story = "Broker 1 away: coordinator of 1 group (from 2023-11-14 22:23 to 2023-11-14 22:23 UTC)."
    away = incident("(cluster)", 3, kind="broker-restart", scope="cluster", groups=["pay"], story=story, **span)
    groups.append(INCIDENTS, encode(away), key=key("(cluster)", 3))
    status, out, _ = command("why", "pay", "--json")
    answer = json.loads(out)
    assert (status, answer["cause"], answer["kind"], answer["sure"]) == (0, "(cluster)/3", "coordinator-move", False)
    assert answer["story"].startswith("Broker 1 away: coordinator of 1 group (cluster incident 3); ")


EPISODE_BEFORE = episode_updates(checkout_group())[-1]


def episode_with(total: Bounds | None, delayed: Bounds | None = None, **fields: int) -> Episode:
    downtime = total and Downtime(lower_ms=total[0], upper_ms=total[1], total_ms=total)
    return structs.replace(EPISODE_BEFORE, downtime=downtime, cost=delayed and Cost(delayed_messages=delayed), **fields)


@pytest.mark.parametrize(
    ("before", "after", "better"),
    [
        ((500, 900), (100, 499), True),
        ((500, 900), (100, 500), None),
        ((500, 900), (901, None), False),
        ((500, None), (100, 400), True),
        ((500, 900), None, None),
        ((0, 0), (0, 0), None),
    ],
)
def test_overlapping_bounds_are_neither_better_nor_worse(
    before: Bounds, after: Bounds | None, better: bool | None
) -> None:
    lines = {change.figure: change for change in figure_changes(episode_with(before), episode_with(after))}
    line = lines["totalDowntimeMs"]
    assert (line.before, line.after, line.better) == (before, after, better)


def test_each_figure_of_two_episodes_is_compared() -> None:
    lines = figure_changes(
        episode_with(None, (5, 9), moved=7, rebalances=4), episode_with(None, (1, 2), moved=8, rebalances=2)
    )
    changes = {line.figure: (line.before, line.after, line.better) for line in lines}
    assert changes["moved"] == ((7, 7), (8, 8), False)
    assert changes["rebalances"] == ((4, 4), (2, 2), True)
    assert changes["delayedMessages"] == ((5, 9), (1, 2), True)
    assert changes["longestDowntimeMs"] == (None, None, None)
    assert changes["durationMs"][2] is None


def test_comparison_table_has_words_and_durations() -> None:
    screen = console(is_wide=True)
    with screen.capture() as shown:
        lines = figure_changes(episode_with((5000, 9000)), episode_with((0, 1000)))
        screen.print(change_table("shop", ["1: restart", "2: restart"], lines))
    assert ["downtime in all", "5.0 s to 9.0 s", "0 ms to 1.0 s", "better"] in table_cells(shown.get())


NOW_MS = time.time_ns() // 1_000_000
MESSAGES = Cost(delayed_messages=(10, 20), worst_delay_ms=(3000, 4000), peak_lag=(7, 7), catch_up_ms=(1000, None))
KNOWN_DOWNTIME = Downtime(lower_ms=5000, upper_ms=9000, total_ms=(5000, 9000))


def episode(number: int, group: str, days: float, **changes: object) -> Episode:
    newest, at = episode_records(checkout_group())[-1].episode, int(NOW_MS - days * 86_400_000)
    times = {"opened_at": at, "updated_at": at, "closed_at": at}
    return structs.replace(newest, group_id=group, episode=number, **times, **changes)


@pytest.fixture
def week_of_episodes(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(EPISODES)
    for record in (
        episode(1, "pay", 8, cost=MESSAGES),
        episode(2, "pay", 2, cost=MESSAGES, downtime=KNOWN_DOWNTIME),
        episode(3, "pay", 1),
        episode(1, "ship", 1, cost=structs.replace(MESSAGES, catch_up_ms=(0, 0))),
    ):
        kafka.append(EPISODES, encode(record), key=key(record.group_id, record.episode))
    return kafka


def test_unknown_values_widen_the_bounds() -> None:
    measured_episode, second = episode(1, "g", 1, cost=MESSAGES), episode(2, "g", 1, cost=MESSAGES)
    both = total_cost([measured_episode, second])
    assert (both.delayed_messages, both.worst_delay_ms, both.peak_lag) == ((20, 40), (3000, 4000), (7, 7))
    assert (both.catch_up_ms, both.measured) == ((2000, None), 2)
    partly = total_cost([measured_episode, episode(3, "g", 1)])
    assert (partly.delayed_messages, partly.peak_lag, partly.measured) == ((10, None), (7, None), 1)
    assert (total_cost([]).delayed_messages, total_cost([]).downtime) == (None, None)


@pytest.mark.usefixtures("week_of_episodes")
def test_cost_as_json_has_one_line_per_group(command: Command) -> None:
    status, out, errors = command("cost", "--json")
    pay_cost, ship_cost = (json.loads(line) for line in out.splitlines())
    assert (status, errors, pay_cost["groupId"], ship_cost["groupId"]) == (0, "", "pay", "ship")
    assert (pay_cost["cost"]["episodes"], pay_cost["cost"]["delayedMessages"]) == (2, [10, None])
    assert (ship_cost["cost"]["delayedMessages"], ship_cost["cost"]["downtime"]) == ([10, 20], None)


@pytest.mark.usefixtures("week_of_episodes")
def test_cost_table_has_one_row_per_group(command: Command) -> None:
    rows = table_cells(command("cost", "--since", "7d")[1])
    assert rows[0][4:] == ["5.0 s to 9.0 s", "≥ 10", "≥ 3.0 s", "≥ 7", "≥ 1.0 s"]
    assert rows[1][4:] == ["unknown", "10 to 20", "3.0 s to 4.0 s", "7", "0 ms"]


@pytest.mark.usefixtures("week_of_episodes")
def test_cost_as_csv_has_one_row_per_episode(command: Command) -> None:
    status, out, _ = command("cost", "pay", "--since", "30d", "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert (status, [row["episode"] for row in rows]) == (0, ["1", "2", "3"])
    assert [row["delayed_messages max"] for row in rows] == ["20", "20", ""]
    assert [row["downtime min"] for row in rows] == ["", "5000", ""]


@pytest.mark.usefixtures("week_of_episodes")
def test_cost_refuses_json_with_csv(command: Command) -> None:
    assert command("cost", "--json", "--csv") == (2, "", "error: --json and --csv: give one of them\n")
